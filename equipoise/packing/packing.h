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

/// Packs the whole documents of W = repack_window_steps global batches into W * M windows of S tokens, longest first
/// onto the sequence with the least attention work that has room (pairs, each mask counted with its layers; ties to the
/// lower sequence), then trains the sequences by falling work, M a step. What finds no room is held and goes first in
/// the next window.
///
/// Guarantee: no document is cut except by the over-long policy; the oldest held piece is placed in the next window.
/// Cost of a window: O(n log n), O(n W M) where sequences are full. Errors as take_arrivals. Source: Fixed-4D of
/// WLB-LLM; steps of like work ours.
PackedStep pack_fixed(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Packs whole documents into M sequences of at most S_max tokens so that predicted time is level: the greedy of
/// WLB-LLM. A document of at least queue_tokens[i] waits in queue i until that queue holds M, or until no more
/// documents arrive; leftovers of the last step go first, in the order they were left, then released and new documents,
/// longest first; each to the lightest sequence if it fits there, else to the one with the fewest tokens, else it is
/// left.
///
/// With max_delay_steps >= 0 a queued document leaves its queue at that age, whatever it meets; it can still be left.
/// Cost: O(n log M), O(n M) where caps are tight. Errors as take_arrivals. Source: WLB-LLM, variable-length packing and
/// outlier delay.
PackedStep pack_wlb(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Packs whole documents into M sequences of at most S_max tokens so that predicted time is level, looking ahead at the
/// arrivals of the next steps: long documents wait for steps in which others match them.
///
/// together  sequences, one after another, that share their attention: 1, or the pool's replicas (a divisor of dp).
///           With more than one their buckets are levelled, and within a bucket sequences get about the same tokens, as
///           its linear part waits for the fullest; where that finds no room or endangers the bound, sequences are
///           levelled.
/// Guarantee: no document is trained more than max_delay_steps (>= 0) after it arrived. Documents arrive by tokens as
/// room_for_arrivals says, and fewer where more could not surely be trained in time.
/// With small memory (S_max of at most 1.1 S) sequences are either full or level, seldom both: level steps train fewer
/// tokens than S a sequence, so a run takes more steps. The policy is a trade: what waits and how small a step is cost
/// twice as much or more, and what arrives is held back at a backlog of half a step to a whole one, the more the longer
/// documents may wait.
/// Violation "delay within bound", which check_promise foresees: one document whose pieces alone do not fit into
/// max_delay_steps + 1 steps. Cost: O(beam * levels * long documents * M) a step. Errors as take_arrivals. Source:
/// ours.
PackedStep pack_look_ahead(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state, int64_t together);

/// Refuses a corpus that pack_look_ahead would refuse in a later step: with a document so long that its pieces do not
/// fit into the max_delay_steps + 1 steps that they may take. Errors: InputError with the document.
void check_promise(const PlanInputs& inputs, const Corpus& corpus);

}  // namespace equipoise
