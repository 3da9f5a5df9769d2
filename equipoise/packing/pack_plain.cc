// Plain packing takes documents as they arrive and fills one sequence after the other, cutting at sequence borders
// only. Each sequence aims at its fair part of what is left, so that the last sequences do not starve.

#include <algorithm>
#include <deque>

#include "equipoise/base/integers.h"
#include "equipoise/packing/packing.h"

namespace equipoise {
namespace {

int64_t total_tokens(const auto& pieces) {
  int64_t total = 0;
  for (const Held& piece : pieces) total += piece.length_tokens;
  return total;
}

/// Fills one sequence from the front of `pieces`, which lose what it takes. `later` sequences follow.
Sequence fill_sequence(const Limits& limits, int64_t target_tokens, int64_t later, std::deque<Held>& pieces) {
  Sequence sequence;
  int64_t tokens = 0;
  while (!pieces.empty() && tokens < target_tokens) {
    const auto segments = static_cast<int64_t>(sequence.segments.size());
    const bool others_need_them = static_cast<int64_t>(pieces.size()) <= later;
    if (segments == limits.max_documents || (segments > 0 && others_need_them)) break;
    Held& piece = pieces.front();
    const int64_t taken = std::min(piece.length_tokens, limits.window_tokens - tokens);
    sequence.segments.push_back({piece.document, piece.begin_tokens, taken});
    tokens += taken;
    piece.begin_tokens += taken;
    piece.length_tokens -= taken;
    if (piece.length_tokens == 0) pieces.pop_front();
  }
  return sequence;
}

}  // namespace

PackedStep pack_plain(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  const int64_t sequences = inputs.sequences();
  const int64_t window = inputs.limits.window_tokens;
  const int64_t room = std::max<int64_t>(0, sequences * window - total_tokens(state.held));
  Arrivals arrivals = take_arrivals(inputs, corpus, state, room);

  PackedStep step{.arrived = arrivals.positions,
                  .sequences = {},
                  .untrained = std::move(arrivals.untrained),
                  .after = state_after(state, arrivals),
                  .violations = {}};
  std::deque<Held> pieces(arrivals.pieces.begin(), arrivals.pieces.end());
  int64_t left = total_tokens(pieces);
  for (int64_t later = sequences - 1; later >= 0; --later) {
    const int64_t target = std::min(window, ceil_div(left, later + 1));
    step.sequences.push_back(fill_sequence(inputs.limits, target, later, pieces));
    left -= step.sequences.back().tokens();
  }
  step.after.held = {pieces.begin(), pieces.end()};
  return step;
}

}  // namespace equipoise
