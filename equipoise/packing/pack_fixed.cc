// Fixed windows: the documents of W global batches are spread over W * M sequences of S tokens at once, longest first
// onto the sequence with the least attention work that has room. Sequences of like work then share a step: that, not
// the spreading, is what levels a step that holds a giant document. The sequences of later steps are remembered piece
// by piece.
#include <algorithm>
#include <numeric>

#include "equipoise/model/workload.h"
#include "equipoise/packing/loads.h"
#include "equipoise/packing/packing.h"

namespace equipoise {
namespace {

/// Pieces with their attention work in place of a time.
std::vector<Waiting> with_work(const PlanInputs& inputs, const std::vector<Held>& pieces) {
  std::vector<Waiting> waiting;
  for (const Held& piece : pieces) waiting.push_back({piece, layered_pairs(inputs.masks, piece.length_tokens)});
  return waiting;
}

bool is_planned(const Held& piece) { return piece.queue >= 0; }

/// Packs a new window: sequences by falling work, and what found no room.
std::vector<std::vector<Held>> pack_window(const PlanInputs& inputs, const Arrivals& arrivals, size_t held,
                                           std::vector<Held>& left) {
  std::vector<Waiting> waiting = with_work(inputs, arrivals.pieces);
  std::sort(waiting.begin() + static_cast<std::ptrdiff_t>(held), waiting.end(),
            longer);  // held ones keep their place in front
  const auto sequences = static_cast<size_t>(inputs.sequences() * inputs.delay.repack_window_steps);
  const Caps caps{inputs.limits.window_tokens, inputs.limits.max_documents, no_bound};
  std::vector<std::vector<Held>> packed(sequences);
  Loads loads(static_cast<int64_t>(sequences));
  int64_t youngest = no_limit;  // pieces that arrived later may not overtake a held one that finds no room
  for (size_t i = 0; i < waiting.size(); ++i) {
    const Waiting& piece = waiting[i];
    const int64_t lightest =
        piece.held.since_step <= youngest ? loads.lightest_with_room(caps, piece.held.length_tokens) : -1;
    if (lightest < 0) {
      left.push_back(piece.held);
      if (i < held) youngest = std::min(youngest, piece.held.since_step);
      continue;
    }
    loads.add(lightest, item_of(piece, i));
    packed[static_cast<size_t>(lightest)].push_back(piece.held);
  }
  std::vector<size_t> order(sequences);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto& work = loads.by_sequence();
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(-work[a].time_ns, a) < std::pair(-work[b].time_ns, b); });
  std::vector<std::vector<Held>> sorted;
  for (const size_t s : order) sorted.push_back(std::move(packed[s]));
  return sorted;
}

/// The sequences planned earlier, by the step they are planned for.
std::vector<std::vector<Held>> planned_window(const PackerState& state, std::vector<Held>& left) {
  std::vector<std::vector<Held>> planned;
  for (const Held& piece : state.held) {
    if (!is_planned(piece)) {
      left.push_back(piece);
      continue;
    }
    planned.resize(std::max(planned.size(), static_cast<size_t>(piece.queue) + 1));
    planned[static_cast<size_t>(piece.queue)].push_back(piece);
  }
  return planned;
}

}  // namespace

PackedStep pack_fixed(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  const int64_t sequences = inputs.sequences();
  const auto due = [&](const Held& piece) { return is_planned(piece) && piece.queue < sequences; };
  const bool inside_window = std::any_of(state.held.begin(), state.held.end(), due);
  Arrivals arrivals{.positions = {state.position, state.position}, .pieces = state.held, .untrained = {}};
  std::vector<Held> left;
  std::vector<std::vector<Held>> planned;
  if (inside_window) {
    planned = planned_window(state, left);
  } else {
    arrivals = take_arrivals(inputs, corpus, state, room_for_window(inputs, state));
    planned = pack_window(inputs, arrivals, state.held.size(), left);
  }
  planned.resize(std::max(planned.size(), static_cast<size_t>(sequences)));

  PackedStep step{.arrived = arrivals.positions,
                  .sequences = {},
                  .untrained = std::move(arrivals.untrained),
                  .after = state_after(state, arrivals),
                  .violations = {}};
  std::sort(left.begin(), left.end(), arrived_before);
  step.after.held = left;
  for (size_t s = 0; s < planned.size(); ++s) {
    if (s < static_cast<size_t>(sequences)) {
      step.sequences.push_back(sequence_of(planned[s]));
      continue;
    }
    for (Held& piece : planned[s]) {
      piece.queue = static_cast<int64_t>(s) - sequences;
      step.after.held.push_back(piece);
    }
  }
  return step;
}

}  // namespace equipoise
