// Whole-document packing never cuts: longest first, each document goes to the sequence with the least attention work
// that has room. Sequences are windows of S tokens; what finds no room waits, and goes first in the next step. The
// result is in arrival order again, so that nothing but the packing tells the first sequences from the last.

#include <algorithm>
#include <numeric>

#include "equipoise/base/integers.h"
#include "equipoise/model/workload.h"
#include "equipoise/packing/packing.h"

namespace equipoise {
namespace {

struct Bin {
  std::vector<int64_t> pieces;  // indices
  int64_t tokens = 0;
  int64_t work = 0;
};

/// Tokens that may arrive: what the steps so far leave of their windows, and at most 1.5 windows of waiting documents.
int64_t room_for_arrivals(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  const int64_t window = inputs.limits.window_tokens;
  const int64_t step_tokens = inputs.sequences() * window;
  int64_t arrived = 0;
  for (int64_t i = 0; i < state.position; ++i)
    arrived += admitted_tokens(corpus.documents[corpus.order[i].value], window, inputs.arrival.overlong);
  int64_t held = 0;
  for (const Held& piece : state.held) held += piece.length_tokens;
  const int64_t by_steps = mul_div(state.step + 1, step_tokens, 1) - arrived;
  const int64_t by_waiting = step_tokens + step_tokens / 2 - held;
  return std::max<int64_t>(0, std::min(by_steps, by_waiting));
}

/// The bin with the least work that has room, or null. Ties go to the lower bin.
Bin* lightest_with_room(std::vector<Bin>& bins, int64_t tokens, const Limits& limits) {
  Bin* best = nullptr;
  for (Bin& bin : bins) {
    const bool room =
        bin.tokens + tokens <= limits.window_tokens && static_cast<int64_t>(bin.pieces.size()) < limits.max_documents;
    if (room && (best == nullptr || bin.work < best->work)) best = &bin;
  }
  return best;
}

/// Whether waiting for another step would be longer than the bound. Younger pieces may not overtake one that is due and
/// finds no room.
bool is_due(const Delay& delay, const Held& piece, int64_t step) {
  return delay.max_delay_steps != no_bound && step + 1 - piece.since_step > delay.max_delay_steps;
}

/// Indices of pieces in the order in which they are placed: held ones keep their place in front, new ones go by falling
/// length. Ties stay in arrival order.
std::vector<int64_t> placing_order(const std::vector<Held>& pieces, std::size_t held) {
  std::vector<int64_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(held), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(-pieces[a].length_tokens, a) < std::pair(-pieces[b].length_tokens, b);
  });
  return order;
}

/// Bins as sequences: segments in arrival order, sequences by their first segment, empty ones last.
std::vector<Sequence> in_arrival_order(std::vector<Bin> bins, const std::vector<Held>& pieces) {
  for (Bin& bin : bins) std::sort(bin.pieces.begin(), bin.pieces.end());
  std::sort(bins.begin(), bins.end(), [](const Bin& a, const Bin& b) {
    return !a.pieces.empty() && (b.pieces.empty() || a.pieces.front() < b.pieces.front());
  });
  std::vector<Sequence> sequences(bins.size());
  for (std::size_t s = 0; s < bins.size(); ++s)
    for (const int64_t index : bins[s].pieces)
      sequences[s].segments.push_back(
          {pieces[index].document, pieces[index].begin_tokens, pieces[index].length_tokens});
  return sequences;
}

}  // namespace

PackedStep pack_whole(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  Arrivals arrivals = take_arrivals(inputs, corpus, state, room_for_arrivals(inputs, corpus, state));
  PackedStep step{.arrived = arrivals.positions,
                  .sequences = {},
                  .untrained = std::move(arrivals.untrained),
                  .after = {.step = state.step + 1, .position = arrivals.positions.second, .held = {}},
                  .violations = {}};

  std::vector<Bin> bins(inputs.sequences());
  int64_t admitted_until = state.step;
  for (const int64_t index : placing_order(arrivals.pieces, state.held.size())) {
    const Held& piece = arrivals.pieces[index];
    Bin* bin =
        piece.since_step <= admitted_until ? lightest_with_room(bins, piece.length_tokens, inputs.limits) : nullptr;
    if (bin == nullptr) {
      step.after.held.push_back(piece);
      if (is_due(inputs.delay, piece, state.step)) admitted_until = std::min(admitted_until, piece.since_step);
      continue;
    }
    bin->pieces.push_back(index);
    bin->tokens += piece.length_tokens;
    bin->work += layered_pairs(inputs.masks, piece.length_tokens);
  }
  step.sequences = in_arrival_order(std::move(bins), arrivals.pieces);
  return step;
}

}  // namespace equipoise
