#include "equipoise/exchange/program_match.h"

#include <array>
#include <string>
#include <tuple>

#include "equipoise/base/errors.h"

// A collective between programs that do not match hangs, or delivers rows to the wrong place. So the lists of each pair
// are laid side by side first.

namespace equipoise {
namespace {

/// A block on the wire: rows, heads, return_round.
using Shape = std::array<int64_t, 3>;
using Pair = std::vector<Shape>;

/// What every member says of every other, [from, to].
struct Pairs {
  std::vector<Pair> sent;
  std::vector<Pair> received;
};

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw InputError(what, where, "run the programs of all members, made from one bucket plan");
}

std::string between(int64_t round, int64_t from, int64_t to) {
  return "round " + std::to_string(round) + ", member " + std::to_string(from) + " to member " + std::to_string(to);
}

std::string text(const Pair& pair, std::size_t index) {
  if (index >= pair.size()) return "nothing";
  const auto& [rows, heads, return_round] = pair[index];
  return "a block of " + std::to_string(rows) + " rows x " + std::to_string(heads) + " heads that returns in round " +
         std::to_string(return_round);
}

void require_same(const Pair& sent, const Pair& received, const char* kind, const std::string& where) {
  if (sent == received) return;
  std::size_t i = 0;
  while (i < sent.size() && i < received.size() && sent[i] == received[i]) ++i;
  refuse(std::string(kind) + " " + std::to_string(i) + " is sent as " + text(sent, i) + " and received as " +
             text(received, i),
         where);
}

void require_header(std::span<const RankProgram> programs, int64_t m) {
  const RankProgram& program = programs[m];
  const RankProgram& first = programs.front();
  if (program.member.value != m || program.members != std::ssize(programs))
    refuse(
        "the program is of member " + std::to_string(program.member.value) + " of " + std::to_string(program.members),
        "place " + std::to_string(m) + " of " + std::to_string(programs.size()) + " programs");
  if (program.rounds.size() != first.rounds.size() || program.heads != first.heads || program.mask != first.mask)
    refuse("rounds, heads or mask differ from member 0", "member " + std::to_string(m));
  for (size_t r = 0; r < program.rounds.size(); ++r) {
    const RoundProgram& a = program.rounds[r];
    const RoundProgram& b = first.rounds[r];
    if (std::tuple(a.queries_move, a.keys_move, a.key_gradients_move) !=
        std::tuple(b.queries_move, b.keys_move, b.key_gradients_move))
      refuse("the flags of what moves differ from member 0",
             "round " + std::to_string(r) + ", member " + std::to_string(m));
  }
}

/// Sorts the lists of one kind and round by pair. `sent` and `received` give the list of a round.
template <class Sent, class Received>
Pairs gather_pairs(std::span<const RankProgram> programs, int64_t round, Sent sent, Received received) {
  const int64_t members = std::ssize(programs);
  const auto pair_index = [&](int64_t from, int64_t to) {
    if (from < 0 || from >= members || to < 0 || to >= members || from == to)
      refuse("there is no such pair in a pool of " + std::to_string(members), between(round, from, to));
    return from * members + to;
  };
  Pairs pairs{std::vector<Pair>(members * members), std::vector<Pair>(members * members)};
  for (int64_t m = 0; m < members; ++m) {
    const RoundProgram& program = programs[m].rounds[round];
    for (const auto& block : sent(program))
      pairs.sent[pair_index(m, block.peer)].push_back({block.rows, block.heads, block.return_round});
    for (const auto& block : received(program)) {
      int64_t return_round = round;
      if constexpr (requires { block.return_round; }) return_round = block.return_round;
      pairs.received[pair_index(block.peer, m)].push_back({block.rows, block.heads, return_round});
    }
  }
  return pairs;
}

void require_pairs(const Pairs& pairs, int64_t members, int64_t round, bool moves, const char* kind) {
  for (int64_t from = 0; from < members; ++from)
    for (int64_t to = 0; to < members; ++to) {
      const Pair& sent = pairs.sent[from * members + to];
      require_same(sent, pairs.received[from * members + to], kind, between(round, from, to));
      if (!sent.empty() && !moves)
        refuse("a " + std::string(kind) + " travels in a round that says none does", between(round, from, to));
    }
}

/// Every block comes back in a round that says so, and not before it was sent.
void require_returns(std::span<const RankProgram> programs, int64_t m) {
  const auto& rounds = programs[m].rounds;
  for (int64_t r = 0; r < std::ssize(rounds); ++r)
    for (const ReceiveKeys& block : rounds[r].receive_keys)
      if (block.return_round < r || block.return_round >= std::ssize(rounds) ||
          !rounds[block.return_round].key_gradients_move)
        refuse("gradients of keys return in round " + std::to_string(block.return_round) + ", in which none do",
               between(r, block.peer, m));
}

}  // namespace

void require_match(std::span<const RankProgram> programs) {
  if (programs.empty()) return;
  for (int64_t m = 0; m < std::ssize(programs); ++m) require_header(programs, m);
  for (int64_t r = 0; r < std::ssize(programs.front().rounds); ++r) {
    const RoundProgram& round = programs.front().rounds[r];
    const Pairs queries = gather_pairs(
        programs, r, [](const RoundProgram& p) -> auto& { return p.send_queries; },
        [](const RoundProgram& p) -> auto& { return p.receive_queries; });
    require_pairs(queries, std::ssize(programs), r, round.queries_move, "query block");
    const Pairs keys = gather_pairs(
        programs, r, [](const RoundProgram& p) -> auto& { return p.send_keys; },
        [](const RoundProgram& p) -> auto& { return p.receive_keys; });
    require_pairs(keys, std::ssize(programs), r, round.keys_move, "key block");
  }
  for (int64_t m = 0; m < std::ssize(programs); ++m) require_returns(programs, m);
}

}  // namespace equipoise
