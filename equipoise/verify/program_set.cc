// Collectives have two ends. The lists of all members are laid side by side: what one sends another must receive, in
// the same order and shape, and all must agree on which exchanges take place.

#include <map>
#include <tuple>

#include "equipoise/verify/report.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

/// A block on the wire.
struct Shape {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t return_round = 0;
  bool operator==(const Shape&) const = default;
};

/// What goes from one member to another in one round, as each of the two lists it.
struct Wire {
  std::vector<Shape> sent;
  std::vector<Shape> received;
};
using Wires = std::map<std::tuple<int64_t, int64_t, int64_t>, Wire>;  ///< (round, from, to)

struct Traffic {
  Wires queries;
  Wires keys;
};

std::string describe(const Shape& shape) {
  return text(shape.rows, " rows of ", shape.heads, " heads that return in round ", shape.return_round);
}

bool agree_on_header(std::span<const RankProgram> programs, Violations& found) {
  const size_t before = found.size();
  const auto header = [](const RankProgram& p) {
    return std::tuple(p.step, p.micro_step, p.pool, p.members, p.grid_rows, p.gradient_sum, p.keep_received,
                      p.element_bytes);
  };
  const auto members = static_cast<int64_t>(programs.size());
  for (int64_t m = 0; m < members; ++m) {
    const RankProgram& program = programs[m];
    const std::string place = text("member ", m);
    if (program.member.value != m || program.members != members)
      found.push_back({"header", place,
                       text("is member ", program.member.value, " of ", program.members, ", expected of ", members)});
    if (program.mask != programs[0].mask || program.heads != programs[0].heads ||
        header(program) != header(programs[0]))
      found.push_back({"headers agree", place, "mask, heads, modes or place in the run differ from member 0's"});
    if (program.rounds.size() != programs[0].rounds.size())
      found.push_back(
          {"rounds agree", place, text(program.rounds.size(), " rounds, member 0 has ", programs[0].rounds.size())});
  }
  return found.size() == before;
}

Traffic gather_traffic(std::span<const RankProgram> programs) {
  Traffic traffic;
  for (const RankProgram& program : programs)
    for (int64_t r = 0; r < static_cast<int64_t>(program.rounds.size()); ++r) {
      const int64_t self = program.member.value;
      const RoundProgram& round = program.rounds[r];
      for (const SendBlock& block : round.send_queries)
        traffic.queries[{r, self, block.peer}].sent.push_back({block.rows, block.heads, block.return_round});
      for (const ReceiveQueries& block : round.receive_queries)
        traffic.queries[{r, block.peer, self}].received.push_back({block.rows, block.heads, r});
      for (const SendBlock& block : round.send_keys)
        traffic.keys[{r, self, block.peer}].sent.push_back({block.rows, block.heads, block.return_round});
      for (const ReceiveKeys& block : round.receive_keys)
        traffic.keys[{r, block.peer, self}].received.push_back({block.rows, block.heads, block.return_round});
    }
  return traffic;
}

void check_wires(const Wires& wires, const char* kind, Violations& found) {
  for (const auto& [place, wire] : wires) {
    const auto& [round, from, to] = place;
    for (size_t i = 0; i < std::max(wire.sent.size(), wire.received.size()); ++i) {
      const bool sent = i < wire.sent.size();
      const bool received = i < wire.received.size();
      if (sent && received && wire.sent[i] == wire.received[i]) continue;
      found.push_back(
          {sent ? "send without receive" : "receive without send",
           text("round ", round, ", member ", from, " to member ", to),
           text(kind, " block ", static_cast<int64_t>(i), ": sent ", sent ? describe(wire.sent[i]) : "nothing",
                ", received ", received ? describe(wire.received[i]) : "nothing")});
    }
  }
}

/// Whether anything moves is the same question for every member, with one answer.
void check_flags(std::span<const RankProgram> programs, const Traffic& traffic, Violations& found) {
  std::vector<RoundProgram> expected(programs[0].rounds.size());
  for (const auto& [place, wire] : traffic.queries) expected[std::get<0>(place)].queries_move = true;
  for (const auto& [place, wire] : traffic.keys) {
    expected[std::get<0>(place)].keys_move = true;
    for (const Shape& shape : wire.sent) expected[shape.return_round].key_gradients_move = true;
  }
  const auto flags = [](const RoundProgram& round) {
    return std::tuple(round.queries_move, round.keys_move, round.key_gradients_move);
  };
  for (const RankProgram& program : programs)
    for (size_t r = 0; r < expected.size(); ++r)
      if (flags(program.rounds[r]) != flags(expected[r]))
        found.push_back({"flags agree", text("member ", program.member.value, ", round ", static_cast<int64_t>(r)),
                         "says another thing than the lists of all members about what moves"});
}

}  // namespace

Violations check_program_set(std::span<const RankProgram> programs) {
  Violations found;
  if (programs.empty() || !agree_on_header(programs, found)) return found;
  for (const RankProgram& program : programs)
    for (Violation& violation : check_program(program)) found.push_back(std::move(violation));
  if (!found.empty()) return found;  // what follows needs programs in range
  const Traffic traffic = gather_traffic(programs);
  check_wires(traffic.queries, "query", found);
  check_wires(traffic.keys, "key", found);
  check_flags(programs, traffic, found);
  return found;
}

}  // namespace equipoise
