#include "equipoise/model/rank_program.h"

#include <string>

#include "equipoise/base/errors.h"

// One list of fields for each struct, gone through by a writer and by a reader alike: the two directions cannot
// disagree about order or number.

namespace equipoise {
namespace {

class Writer {
 public:
  void word(int64_t& value) { words.push_back(value); }
  void constant(int64_t value, const char*) { words.push_back(value); }
  void at_most(int64_t& value, int64_t) { words.push_back(value); }
  void count(int64_t& value) { words.push_back(value); }

  std::vector<int64_t> words;
};

class Reader {
 public:
  explicit Reader(std::span<const int64_t> all_words) : words(all_words) {}

  void word(int64_t& value) {
    if (words.empty()) refuse("the words end too early", read);
    value = words.front();
    words = words.subspan(1);
    ++read;
  }
  void constant(int64_t expected, const char* what) {
    int64_t value = 0;
    word(value);
    if (value != expected)
      refuse(std::string(what) + " " + std::to_string(value) + " is not " + std::to_string(expected), read - 1);
  }
  void at_most(int64_t& value, int64_t last) {
    word(value);
    if (value < 0 || value > last)
      refuse("value " + std::to_string(value) + " is not in 0 .. " + std::to_string(last), read - 1);
  }
  void count(int64_t& value) {
    word(value);
    if (value < 0 || value > std::ssize(words))
      refuse("a list of " + std::to_string(value) + " does not fit in the " + std::to_string(words.size()) +
                 " words that are left",
             read - 1);
  }
  void finish() const {
    if (!words.empty()) refuse(std::to_string(words.size()) + " words are left over", read);
  }

 private:
  [[noreturn]] static void refuse(const std::string& what, int64_t at) {
    throw FormatError(what, "word " + std::to_string(at) + " of a rank program",
                      "pass the words of encode() unchanged, between equal versions");
  }

  std::span<const int64_t> words;  // not yet read
  int64_t read = 0;
};

template <class Coder>
void fields(Coder& coder, SendBlock& block) {
  for (int64_t* word :
       {&block.peer, &block.first_row, &block.rows, &block.head_begin, &block.heads, &block.return_round})
    coder.word(*word);
}

template <class Coder>
void fields(Coder& coder, ReceiveQueries& block) {
  for (int64_t* word : {&block.peer, &block.rows, &block.heads}) coder.word(*word);
}

template <class Coder>
void fields(Coder& coder, ReceiveKeys& block) {
  for (int64_t* word : {&block.peer, &block.rows, &block.heads, &block.cell, &block.head_stride, &block.return_round})
    coder.word(*word);
}

template <class Coder>
void fields(Coder& coder, OwnKeys& block) {
  for (int64_t* word :
       {&block.first_row, &block.rows, &block.head_begin, &block.heads, &block.cell, &block.head_stride})
    coder.word(*word);
}

/// A bool or an enum whose values are 0 .. last.
template <class Coder, class T>
void choice(Coder& coder, T& value, T last) {
  auto word = static_cast<int64_t>(value);
  coder.at_most(word, static_cast<int64_t>(last));
  value = static_cast<T>(word);
}

template <class Coder>
void fields(Coder& coder, KernelEntry& entry) {
  choice(coder, entry.q_store, Store::foreign);
  for (int64_t* word : {&entry.q_cell, &entry.q_row_stride, &entry.rows, &entry.heads}) coder.word(*word);
  choice(coder, entry.k_store, Store::foreign);
  for (int64_t* word :
       {&entry.k_cell, &entry.k_row_stride, &entry.k_head_stride, &entry.keys, &entry.kv_heads, &entry.diagonal})
    coder.word(*word);
}

template <class Coder, class T>
void list(Coder& coder, std::vector<T>& items) {
  int64_t count = std::ssize(items);
  coder.count(count);
  items.resize(count);
  for (T& item : items) fields(coder, item);
}

template <class Coder>
void fields(Coder& coder, RoundProgram& round) {
  choice(coder, round.queries_move, true);
  choice(coder, round.keys_move, true);
  choice(coder, round.key_gradients_move, true);
  list(coder, round.send_queries);
  list(coder, round.receive_queries);
  list(coder, round.send_keys);
  list(coder, round.receive_keys);
  list(coder, round.entries);
}

template <class Coder>
void fields(Coder& coder, RankProgram& program) {
  coder.constant(RankProgram::magic, "magic number");
  coder.constant(RankProgram::version, "version");
  for (int64_t* word : {&program.step, &program.micro_step, &program.pool, &program.member.value, &program.members})
    coder.word(*word);
  choice(coder, program.mask.kind, MaskKind::sliding_window);
  for (int64_t* word : {&program.mask.window_tokens, &program.mask.layers, &program.heads.query, &program.heads.kv,
                        &program.heads.size, &program.rows, &program.grid_rows})
    coder.word(*word);
  choice(coder, program.gradient_sum, GradientSum::invariant);
  choice(coder, program.keep_received, true);
  coder.word(program.element_bytes);
  coder.word(program.arena_cells);
  list(coder, program.own_keys);
  list(coder, program.rounds);
}

}  // namespace

std::vector<int64_t> encode(const RankProgram& program) {
  Writer writer;
  RankProgram copy = program;  // `fields` takes what a reader could write
  fields(writer, copy);
  return std::move(writer.words);
}

RankProgram decode_rank_program(std::span<const int64_t> words) {
  Reader reader(words);
  RankProgram program;
  fields(reader, program);
  reader.finish();
  return program;
}

}  // namespace equipoise
