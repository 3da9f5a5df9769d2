// What the operator asks before it trusts a program: first the header, then that every list is in range, then that the
// entries read cells that hold something and that each row and head is computed once. Each part needs what the one
// before it vouches for.

#include "equipoise/verify/program_cells.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

/// Larger counts are no programs; below it products of two counts do not wrap.
constexpr int64_t most_rows = int64_t{1} << 40;
constexpr int64_t most_heads = int64_t{1} << 16;
constexpr int64_t most_cells = int64_t{1} << 46;
constexpr int64_t most_element_bytes = 64;

struct ProgramCheck {
  const RankProgram& program;
  Violations& found;

  void say(const char* rule, int64_t round, const std::string& what) {
    found.push_back({rule, text("member ", program.member.value, ", round ", round), what});
  }
  int64_t rounds() const { return static_cast<int64_t>(program.rounds.size()); }
};

void check_header(const RankProgram& program, Violations& found);
void check_lists(ProgramCheck& check);
void check_entries(ProgramCheck& check);
void check_arena(ProgramCheck& check);
void check_rows(ProgramCheck& check);

}  // namespace

Violations check_program(const RankProgram& program) {
  Violations found;
  check_header(program, found);
  if (!found.empty()) return found;
  ProgramCheck check{program, found};
  check_lists(check);
  if (found.empty()) check_entries(check);
  if (!found.empty()) return found;
  check_arena(check);
  check_rows(check);
  return found;
}

namespace {

void check_header(const RankProgram& program, Violations& found) {
  const auto require = [&](bool sound, const char* what) {
    if (!sound) found.push_back({"header", text("member ", program.member.value), text(what, " out of range")});
  };
  const auto& [query, kv, size] = program.heads;
  const Mask& mask = program.mask;
  const bool window = mask.kind == MaskKind::sliding_window;
  require(program.step >= 0 && program.micro_step >= 0 && program.pool >= 0, "step, micro-step or pool");
  require(program.members >= 1 && program.members <= most_rows && program.member.value >= 0 &&
              program.member.value < program.members,
          "member");
  require(
      kv >= 1 && query >= 1 && query <= most_heads && kv <= query && query % kv == 0 && size >= 1 && size <= most_heads,
      "heads");
  require(mask.kind == MaskKind::causal || mask.kind == MaskKind::full || window, "mask");
  require(window ? mask.window_tokens >= 1 : mask.window_tokens == 0, "window");
  require(mask.layers >= 1, "layers");
  require(program.element_bytes >= 0 && program.element_bytes <= most_element_bytes, "bytes of an element");
  require(program.rows >= 0 && program.rows <= most_rows, "rows");
  require(program.grid_rows >= 0 && program.grid_rows <= most_rows, "grid rows");
  require(program.gradient_sum == GradientSum::fast || program.gradient_sum == GradientSum::invariant, "gradient sum");
  require((program.gradient_sum == GradientSum::invariant) == (program.grid_rows > 0), "grid of the gradient sum");
  require(program.arena_cells >= 0 && program.arena_cells <= most_cells, "arena cells");
  require(!program.rounds.empty(), "rounds");
}

template <class Block>
void check_peers(ProgramCheck& check, int64_t round, const std::vector<Block>& blocks) {
  int64_t last = 0;
  for (const Block& block : blocks) {
    const bool in_pool =
        block.peer >= 0 && block.peer < check.program.members && block.peer != check.program.member.value;
    if (!in_pool) check.say("peer in pool", round, text("peer ", block.peer, " of ", check.program.members));
    if (block.peer < last) check.say("sorted by peer", round, text("peer ", block.peer, " after peer ", last));
    last = block.peer;
  }
}

void check_send(ProgramCheck& check, int64_t round, const SendBlock& block, int64_t heads) {
  if (!inside(block.first_row, block.rows, check.program.rows))
    check.say("block in rows", round, text(block.rows, " rows from ", block.first_row, " of ", check.program.rows));
  if (!inside(block.head_begin, block.heads, heads))
    check.say("heads in range", round, text(block.heads, " heads from ", block.head_begin, " of ", heads));
}

/// Keys in the arena: [heads, rows] cells from `cell`, a head's rows together.
template <class Keys>
void check_target(ProgramCheck& check, int64_t round, const Keys& keys) {
  const int64_t arena = check.program.arena_cells;
  const bool shaped = keys.rows > 0 && keys.rows <= arena && keys.heads > 0 && keys.heads <= check.program.heads.kv &&
                      keys.head_stride >= keys.rows && keys.head_stride <= arena;
  if (!shaped || !inside(keys.cell, (keys.heads - 1) * keys.head_stride + keys.rows, arena))
    check.say("arena in range", round,
              text(keys.heads, " heads of ", keys.rows, " keys at cell ", keys.cell, " of ", arena));
}

void check_round(ProgramCheck& check, int64_t r) {
  const RankProgram& program = check.program;
  const RoundProgram& round = program.rounds[r];
  check_peers(check, r, round.send_queries);
  check_peers(check, r, round.receive_queries);
  check_peers(check, r, round.send_keys);
  check_peers(check, r, round.receive_keys);
  const auto check_return = [&](int64_t return_round) {
    if (return_round < r || return_round >= check.rounds())
      check.say("return round", r, text("returns in round ", return_round, " of ", check.rounds()));
    else if (!program.rounds[return_round].key_gradients_move)
      check.say("flags agree", return_round, "key gradients return, but the round says none move");
  };
  for (const SendBlock& block : round.send_queries) {
    check_send(check, r, block, program.heads.query);
    if (block.return_round != r) check.say("return round", r, text("queries return in round ", block.return_round));
  }
  int64_t guest_cells = 0;
  for (const ReceiveQueries& block : round.receive_queries) {
    const bool sound =
        block.rows > 0 && block.rows <= most_cells / program.heads.query - guest_cells / program.heads.query;
    if (!sound) check.say("block in rows", r, text(block.rows, " rows received"));
    guest_cells += sound ? block.rows * program.heads.query : 0;
    if (block.heads <= 0 || block.heads > program.heads.query)
      check.say("heads in range", r, text(block.heads, " heads received"));
  }
  for (const SendBlock& block : round.send_keys) {
    check_send(check, r, block, program.heads.kv);
    check_return(block.return_round);
  }
  for (const ReceiveKeys& block : round.receive_keys) {
    check_target(check, r, block);
    check_return(block.return_round);
  }
  if (!round.queries_move && !(round.send_queries.empty() && round.receive_queries.empty()))
    check.say("flags agree", r, "queries travel, but the round says none move");
  if (!round.keys_move && !(round.send_keys.empty() && round.receive_keys.empty()))
    check.say("flags agree", r, "keys travel, but the round says none move");
}

void check_lists(ProgramCheck& check) {
  for (const OwnKeys& keys : check.program.own_keys) {
    check_send(check, 0,
               {.first_row = keys.first_row, .rows = keys.rows, .head_begin = keys.head_begin, .heads = keys.heads},
               check.program.heads.kv);
    check_target(check, 0, keys);
  }
  for (int64_t r = 0; r < check.rounds(); ++r) check_round(check, r);
}

/// The keys of an entry reach from the first that its rows see to the last, so their number follows from its rows and
/// diagonal.
bool has_mask_shape(const Mask& mask, const KernelEntry& entry) {
  if (entry.diagonal < 0 || entry.keys <= 0 || entry.diagonal > entry.keys - entry.rows) return false;
  if (mask.kind == MaskKind::full) return true;
  if (mask.kind == MaskKind::sliding_window && entry.diagonal >= mask.window_tokens) return false;
  return entry.keys == entry.diagonal + entry.rows;
}

bool has_head_shape(const Heads& heads, const KernelEntry& entry) {
  if (entry.heads <= 0 || entry.kv_heads <= 0 || entry.kv_heads > heads.kv) return false;
  return entry.kv_heads == 1 ? entry.heads <= heads.group() : entry.heads == entry.kv_heads * heads.group();
}

/// Rows of one block of the grid and one KV head's queries. Where a window hides the segment's begin, rows cannot be
/// placed in the grid here; check_bucket_programs does.
bool is_cell(const RankProgram& program, const KernelEntry& entry) {
  if (program.gradient_sum == GradientSum::fast) return true;
  const bool placed = program.mask.kind != MaskKind::sliding_window || entry.diagonal < program.mask.window_tokens - 1;
  const int64_t first = entry.diagonal / program.grid_rows;
  const int64_t last = (entry.diagonal + entry.rows - 1) / program.grid_rows;
  return entry.kv_heads == 1 && entry.heads == program.heads.group() && entry.rows <= program.grid_rows &&
         (!placed || first == last);
}

/// Query heads of own rows against the KV heads that serve them, and own rows against themselves on the diagonal.
bool meets_own_keys(const RankProgram& program, const KernelEntry& entry, const Rectangle& queries) {
  if (entry.q_store != Store::local) return true;
  const int64_t group = program.heads.group();
  const bool whole = queries.head % group == 0 && queries.heads % group == 0;
  if (!whole && queries.head / group != (queries.head + queries.heads - 1) / group) return false;
  if (entry.k_store != Store::local) return true;
  const Rectangle keys = local_keys(program, entry);
  return keys.head == queries.head / group && keys.row + entry.diagonal == queries.row;
}

bool keys_in_store(const RankProgram& program, const KernelEntry& entry) {
  if (entry.k_cell < 0) return false;
  if (entry.k_store == Store::foreign) {
    const int64_t stride = entry.kv_heads == 1 ? 0 : entry.k_head_stride;
    if (entry.k_row_stride != 1 || stride < 0 || stride > program.arena_cells || entry.keys > program.arena_cells)
      return false;
    return inside(entry.k_cell, (entry.kv_heads - 1) * stride + entry.keys, program.arena_cells);
  }
  const bool strides = entry.k_row_stride == program.heads.kv && (entry.kv_heads == 1 || entry.k_head_stride == 1);
  const Rectangle keys = local_keys(program, entry);
  return strides && inside(keys.row, keys.rows, program.rows) && inside(keys.head, keys.heads, program.heads.kv);
}

void check_entries(ProgramCheck& check) {
  for (int64_t r = 0; r < check.rounds(); ++r) {
    const RoundProgram& round = check.program.rounds[r];
    for (size_t i = 0; i < round.entries.size(); ++i) {
      const KernelEntry& entry = round.entries[i];
      const std::string name = text("entry ", static_cast<int64_t>(i));
      const bool stores = (entry.q_store == Store::local || entry.q_store == Store::foreign) &&
                          (entry.k_store == Store::local || entry.k_store == Store::foreign);
      if (!stores || entry.rows <= 0 || entry.rows > most_rows || !has_head_shape(check.program.heads, entry) ||
          !has_mask_shape(check.program.mask, entry)) {
        check.say("entry shape", r,
                  text(name, " has ", entry.rows, " rows, ", entry.keys, " keys, ", entry.heads, " heads on ",
                       entry.kv_heads, ", diagonal ", entry.diagonal));
        continue;
      }
      if (!is_cell(check.program, entry))
        check.say("entry is a grid cell", r,
                  text(name, " has ", entry.rows, " rows of ", entry.heads, " heads on ", entry.kv_heads, ", diagonal ",
                       entry.diagonal, ", in a grid of ", check.program.grid_rows));
      const std::vector<QueryPart> parts = query_parts(check.program, round, entry);
      const bool one_part = parts.size() == 1 || (parts.size() > 1 && entry.q_store == Store::foreign);
      if (!one_part || !keys_in_store(check.program, entry))
        check.say("entry in store", r, text(name, " reads cells that are not there"));
      else if (!meets_own_keys(check.program, entry, parts.front().cells))
        check.say("entry keys", r, text(name, " attends to other keys than its rows see"));
    }
  }
}

/// Every cell is written once, and read by entries from the round in which it arrives to the one in which its gradient
/// returns.
void check_arena(ProgramCheck& check) {
  const std::vector<ArenaRun> runs = arena_runs(check.program);
  for (size_t i = 1; i < runs.size(); ++i)
    if (runs[i].cells.begin < runs[i - 1].cells.end)
      check.say("arena written once", runs[i].round,
                text("cells ", text(runs[i].cells), " and ", text(runs[i - 1].cells)));
  if (!check.found.empty()) return;
  for (int64_t r = 0; r < check.rounds(); ++r)
    for (const KernelEntry& entry : check.program.rounds[r].entries)
      for (int64_t h = 0; entry.k_store == Store::foreign && h < entry.kv_heads; ++h) {
        const int64_t first = entry.k_cell + h * (entry.kv_heads == 1 ? 0 : entry.k_head_stride);
        const Interval cells = {first, first + entry.keys};
        const std::vector<ArenaRun> read = find_runs(runs, cells);
        if (read.empty())
          check.say("arena cell filled", r, text("nothing is put into some of the cells ", text(cells)));
        for (const ArenaRun& run : read) {
          if (run.round > r)
            check.say("arena cell filled", r, text("cells ", text(run.cells), " arrive in round ", run.round));
          if (run.return_round < r)
            check.say("return round", r,
                      text("gradients of cells ", text(run.cells), " returned in round ", run.return_round));
        }
      }
}

void say_uneven(ProgramCheck& check, int64_t round, const std::vector<Uneven>& uneven, const char* of) {
  for (const Uneven& one : uneven)
    check.say(one.count == 0 ? "row never computed" : "row computed twice", round,
              text(of, " rows ", text(one.rows), " of query head ", one.head, ": ", one.count, " times"));
}

/// Own rows are computed at home or sent, guests are computed where they were sent.
void check_rows(ProgramCheck& check) {
  const RankProgram& program = check.program;
  say_uneven(check, 0, uneven_rows(handled_queries(program), named_rows(program), program.heads.query), "own");
  for (int64_t r = 0; r < check.rounds(); ++r) {
    const RoundProgram& round = program.rounds[r];
    std::vector<std::vector<Rectangle>> computed(round.receive_queries.size());
    for (const KernelEntry& entry : round.entries)
      for (const QueryPart& part : query_parts(program, round, entry))
        if (part.block >= 0) computed[part.block].push_back(part.cells);
    for (size_t b = 0; b < computed.size(); ++b)
      say_uneven(check, r, uneven_rows(computed[b], round.receive_queries[b].rows, round.receive_queries[b].heads),
                 "guest");
  }
}

}  // namespace
}  // namespace equipoise
