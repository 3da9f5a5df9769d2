#pragma once

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/model/rank_program.h"

namespace equipoise {

/// The program of one member for one mask of a bucket: where each row lies, in which order blocks go on the wire, which
/// kernels run. `step` is for messages.
///
/// Work items that follow each other in rows or heads are joined first: a whole document of all heads is one entry.
/// Under invariant gradient sums they are cut at the grid instead: each grid cell is one entry.
/// Keys that lie together in the member's own tensors are used where they are; all others are gathered into the arena,
/// a block for each unbroken run of needed keys and each run of KV heads that need the same. An item whose KV heads lie
/// in several blocks is cut into one entry for each. The order of blocks between two members is that of the exchange.
/// Cost: O(n log n) for n = items and messages of the bucket. Requires a valid bucket plan.
/// Errors: InputError if there is no such mask or member.
RankProgram make_rank_program(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, MemberId member,
                              int64_t step);

/// The programs of all members, by member.
std::vector<RankProgram> make_rank_programs(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index,
                                            int64_t step);

}  // namespace equipoise
