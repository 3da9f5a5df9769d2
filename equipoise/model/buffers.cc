// Offsets are dealt one after another. Rounds of equal parity begin at the same place, because two rounds are under way
// at a time: while one computes the next is dispatched.

#include "equipoise/model/buffers.h"

#include <algorithm>

#include "equipoise/base/errors.h"
#include "equipoise/base/exact_sum.h"
#include "equipoise/base/integers.h"

namespace equipoise {
namespace {

constexpr int64_t most_bytes = int64_t{1} << 60;
constexpr int64_t parities = 2;

/// What travels with one cell of a block: rows of elements, each as long as a head, single statistics, sums.
struct Load {
  int64_t rows = 0;
  int64_t statistics = 0;
  int64_t sums = 0;
};

/// What goes to the executor and comes back, in one pass.
struct Trips {
  Load queries_out, queries_back, keys_out, keys_back;
};

/// Forward: q; out, lse back; k, v. Backward: q, out, grad_out, lse; dq back; k, v; dk, dv back, as elements or as
/// exact sums. What the executor kept does not travel again.
Trips trips_of(const RankProgram& program, Pass pass) {
  if (pass == Pass::forward) return {{1, 0, 0}, {1, 1, 0}, {2, 0, 0}, {0, 0, 0}};
  const Load gradients = program.gradient_sum == GradientSum::invariant ? Load{0, 0, 2} : Load{2, 0, 0};
  if (program.keep_received) return {{1, 0, 0}, {1, 0, 0}, {0, 0, 0}, gradients};
  return {{3, 1, 0}, {1, 0, 0}, {2, 0, 0}, gradients};
}

struct Sizes {
  const RankProgram& program;
  const NumberBytes& bytes;
  Trips trips;

  bool exact() const { return program.gradient_sum == GradientSum::invariant; }
  /// Of the sums of dk or dv of one cell.
  int64_t sum_bytes() const {
    constexpr int64_t word = sizeof(int64_t);
    return exact() ? exact_sum_words(program.heads.size) * word : program.heads.size * bytes.statistic;
  }
  int64_t elements(int64_t cells) const { return mul_div(cells, program.heads.size * bytes.element, 1); }
  int64_t statistics(int64_t cells) const { return mul_div(cells, bytes.statistic, 1); }
  int64_t sums(int64_t cells) const { return mul_div(cells, sum_bytes(), 1); }

  /// Of one block on a wire.
  int64_t on_wire(int64_t rows, int64_t heads, const Load& load) const {
    return load.rows * wire_bytes(rows * heads, program.heads.size * bytes.element) +
           load.statistics * wire_bytes(rows * heads, bytes.statistic) +
           load.sums * wire_bytes(rows * heads, sum_bytes());
  }
};

/// Bytes that one member sends and receives.
struct Traffic {
  int64_t send = 0;
  int64_t receive = 0;
};

/// Of the two exchanges of each round.
struct RoundTraffic {
  Traffic dispatch;
  Traffic give_back;
};

std::vector<RoundTraffic> traffic_of(const Sizes& sizes) {
  const Trips& trips = sizes.trips;
  std::vector<RoundTraffic> traffic(sizes.program.rounds.size());
  for (size_t r = 0; r < traffic.size(); ++r) {
    const RoundProgram& round = sizes.program.rounds[r];
    auto& [dispatch, give_back] = traffic[r];
    for (const SendBlock& block : round.send_queries) {
      dispatch.send += sizes.on_wire(block.rows, block.heads, trips.queries_out);
      give_back.receive += sizes.on_wire(block.rows, block.heads, trips.queries_back);
    }
    for (const ReceiveQueries& block : round.receive_queries) {
      dispatch.receive += sizes.on_wire(block.rows, block.heads, trips.queries_out);
      give_back.send += sizes.on_wire(block.rows, block.heads, trips.queries_back);
    }
    for (const SendBlock& block : round.send_keys) {
      dispatch.send += sizes.on_wire(block.rows, block.heads, trips.keys_out);
      traffic[block.return_round].give_back.receive += sizes.on_wire(block.rows, block.heads, trips.keys_back);
    }
    for (const ReceiveKeys& block : round.receive_keys) {
      dispatch.receive += sizes.on_wire(block.rows, block.heads, trips.keys_out);
      traffic[block.return_round].give_back.send += sizes.on_wire(block.rows, block.heads, trips.keys_back);
    }
  }
  return traffic;
}

/// Where the next buffer of a block of memory begins.
struct Dealer {
  bool kept = false;
  int64_t next = 0;

  Buffer deal(int64_t bytes) {
    if (bytes < 0 || bytes > most_bytes - next)
      throw InputError("exchange buffers pass 2^60 bytes", "rank program", "plan with smaller documents or pools");
    const Buffer buffer{kept, next, bytes};
    next += round_up(bytes, buffer_alignment);
    return buffer;
  }
};

/// The blocks of memory of a pass while they are dealt.
struct Layout {
  Sizes sizes;
  Pass pass;
  Dealer own;
  Dealer kept{.kept = true};

  bool backward() const { return pass == Pass::backward; }
  /// The block of what came from others and may be kept.
  Dealer& arrivals() { return sizes.program.keep_received ? kept : own; }
};

/// The largest block of own keys whose gradients come back.
int64_t most_sent_cells(const RankProgram& program) {
  int64_t most = 0;
  for (const RoundProgram& round : program.rounds)
    for (const SendBlock& block : round.send_keys) most = std::max(most, block.rows * block.heads);
  return most;
}

void deal_keys(Layout& layout, PassBuffers& buffers) {
  const RankProgram& program = layout.sizes.program;
  for (Buffer* part : {&buffers.k, &buffers.v})
    *part = layout.arrivals().deal(layout.sizes.elements(program.arena_cells));
  if (!layout.backward()) return;
  for (Buffer* part : {&buffers.dk, &buffers.dv}) *part = layout.own.deal(layout.sizes.sums(program.arena_cells));
  const bool alike = layout.sizes.bytes.statistic == layout.sizes.bytes.element;
  if (alike && !layout.sizes.exact()) return;
  if (!layout.sizes.exact()) buffers.returned = layout.own.deal(layout.sizes.sums(most_sent_cells(program)));
  for (Buffer* part : {&buffers.own_dk, &buffers.own_dv})
    *part = layout.own.deal(layout.sizes.sums(program.rows * program.heads.kv));
}

void deal_round(Layout& layout, const RoundProgram& round, const Traffic& dispatch, RoundBuffers& buffers) {
  const int64_t cells = guest_cells(round);
  Dealer& arrivals = layout.arrivals();
  for (Buffer* part : {&buffers.q, &buffers.out}) *part = arrivals.deal(layout.sizes.elements(cells));
  buffers.lse = arrivals.deal(layout.sizes.statistics(cells));
  if (layout.backward())
    for (Buffer* part : {&buffers.grad_out, &buffers.dq}) *part = layout.own.deal(layout.sizes.elements(cells));
  buffers.dispatch = {layout.own.deal(dispatch.send), layout.own.deal(dispatch.receive)};
}

}  // namespace

int64_t guest_cells(const RoundProgram& round) {
  int64_t cells = 0;
  for (const ReceiveQueries& block : round.receive_queries) cells += block.rows * block.heads;
  return cells;
}

PassBuffers lay_out_buffers(const RankProgram& program, const NumberBytes& bytes, Pass pass) {
  Layout layout{{program, bytes, trips_of(program, pass)}, pass, {}};
  PassBuffers buffers;
  deal_keys(layout, buffers);
  const std::vector<RoundTraffic> traffic = traffic_of(layout.sizes);
  buffers.rounds.resize(traffic.size());
  for (int64_t parity = 0; parity < parities; ++parity) {
    const int64_t begin = layout.own.next;
    int64_t end = begin;
    for (size_t r = parity; r < traffic.size(); r += parities) {
      layout.own.next = begin;
      deal_round(layout, program.rounds[r], traffic[r].dispatch, buffers.rounds[r]);
      end = std::max(end, layout.own.next);
    }
    layout.own.next = end;
  }
  const int64_t begin = layout.own.next;
  buffers.pass_bytes = begin;
  for (size_t r = 0; r < traffic.size(); ++r) {
    layout.own.next = begin;
    const auto& [send, receive] = traffic[r].give_back;
    buffers.rounds[r].give_back = {layout.own.deal(send), layout.own.deal(receive)};
    buffers.pass_bytes = std::max(buffers.pass_bytes, layout.own.next);
  }
  buffers.kept_bytes = layout.kept.next;
  return buffers;
}

HeldBytes buffer_bytes(const RankProgram& program, const NumberBytes& bytes) {
  const PassBuffers forward = lay_out_buffers(program, bytes, Pass::forward);
  const PassBuffers backward = lay_out_buffers(program, bytes, Pass::backward);
  return {std::max(forward.pass_bytes, backward.pass_bytes), forward.kept_bytes};
}

}  // namespace equipoise
