#pragma once

#include <utility>
#include <vector>

#include "equipoise/base/errors.h"
#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/packing/arrival.h"

namespace equipoise {

/// What packing decides for one optimizer step.
struct PackedStep {
  std::pair<int64_t, int64_t> arrived = {0, 0};  ///< [first, end) positions of the arrival order
  std::vector<Sequence> sequences;               ///< exactly M = dp * micro_steps
  Untrained untrained;                           ///< of the documents that arrived in this step
  PackerState after;
  Violations violations;  ///< a step that cannot be packed, and why
};

/// Packs the next documents in arrival order, cutting them at sequence borders.
///
/// Arrivals are the longest run of next documents that together with what is held sum to at most M * S tokens, at least
/// one where nothing is held. Sequence j takes pieces in order until it holds at least ceil(tokens left / sequences
/// left), never above S (the rest of a piece goes on in the next sequence as a segment of its own), and leaves one
/// piece for each later sequence while there are enough. An over-long document is cut by policy first. Pieces that do
/// not fit in the step, by tokens or by the cap on segments, are held.
///
/// Guarantee: a sequence is empty only where there are fewer pieces than sequences; documents stay in order.
/// Cost: O(arrivals). Errors: as take_arrivals. Source: Plain-4D of WLB-LLM; the fair part and what is left for later
/// sequences are ours.
PackedStep pack_plain(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Packs whole documents into M windows of S tokens, so that the heaviest sequence is light: longest first onto the
/// sequence with the least attention work that has room (pairs, each mask counted with its layers; ties to the lower
/// sequence). What finds no room is held and placed first in the next step; a piece that waited for max_delay_steps and
/// finds none holds back all that arrived after it.
///
/// Arrivals of step t: the longest run such that all arrivals so far sum to at most (t + 1) * M * S and, held plus
/// arrived, to at most 1.5 * M * S.
///
/// Guarantee: no document is cut except by the over-long policy; the oldest held piece is placed in the next step;
/// segments, and sequences by their first segment, are in arrival order.
/// Cost: O(position + n log n + n M). Errors: as take_arrivals. Source: Fixed-4D of WLB-LLM with a window of one global
/// batch.
PackedStep pack_whole(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

}  // namespace equipoise
