#pragma once

#include <span>
#include <utility>
#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Documents from their lengths, with loss_tokens = max(0, length - 1), in arrival order: the input's, or with shuffle
/// Fisher-Yates from the last index down, j = next % (i + 1), splitmix64 seeded with seed + epoch.
/// Errors: InputError for a negative length, one above 2^40, or a sum above 2^60, naming the document.
Corpus make_corpus(std::span<const int64_t> lengths_tokens, const Arrival& arrival);

/// The same for documents that carry their own loss_tokens, by id.
/// Errors: also for ids that are not 0, 1, ... and for loss_tokens outside 0 .. length.
Corpus make_corpus(std::vector<Document> documents, const Arrival& arrival);

/// Refuses a corpus that a later step would refuse, so that a long run ends before it begins.
/// Errors: InputError under policy error for the first document by id that is longer than the window.
void check_lengths(const Corpus& corpus, int64_t window_tokens, Overlong policy);

/// Tokens of a document that packing may place, after the over-long policy: all of them (error, split), at most a
/// window (truncate), or none of one that is longer (drop).
int64_t admitted_tokens(const Document& document, int64_t window_tokens, Overlong policy);

/// What a step has to pack.
struct Arrivals {
  std::pair<int64_t, int64_t> positions = {0, 0};  ///< [first, end) of the arrival order
  std::vector<Held> pieces;  ///< those held before, in their order, then those that arrived, in theirs
  Untrained untrained;       ///< of the documents that arrived
};

/// Lets the longest run of next documents arrive whose admitted tokens sum to at most `room_tokens`; at least one where
/// nothing is held. Over-long ones are cut into pieces of a window, or cut off or dropped and counted, as the policy
/// says. Cost: O(held + arrivals). Errors: InputError under policy error, naming the document and its length; for a
/// split into more than 2^20 pieces.
Arrivals take_arrivals(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state, int64_t room_tokens);

/// Whether sequences can hardly hold more than they receive: S_max of at most 1.1 S. Steps that fill them to the brim
/// are uneven and level ones are small, so what arrives at full rate piles up.
bool has_small_memory(const Limits& limits);

/// Tokens that may still arrive in a step where documents stay whole: all arrivals so far sum to at most
/// (step + 1) * M * S. With small memory held and arrived also sum to at most one step and a backlog of M * S times
/// (8 + k) / 16 for a bound of k steps, k up to 8: half a step where there is no bound, a whole one from 8 on.
int64_t room_for_arrivals(const PlanInputs& inputs, const PackerState& state);

/// Tokens that may still arrive for the repack_window_steps steps that begin now and are packed together: what fills
/// them beside what is held. Whole documents never fill windows to the brim, so more would only pile up.
int64_t room_for_window(const PlanInputs& inputs, const PackerState& state);

/// Older arrivals first, then by document and place in it.
bool arrived_before(const Held& a, const Held& b);

/// The sequence of these pieces, older arrivals first.
Sequence sequence_of(std::vector<Held> pieces);

/// The state of the next step, before what is held is added.
PackerState state_after(const PackerState& before, const Arrivals& arrivals);

/// Whether nothing is left to pack: no document to arrive and none held.
bool is_finished(const Corpus& corpus, const PackerState& state);

}  // namespace equipoise
