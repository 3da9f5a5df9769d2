#pragma once

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/model/rank_program.h"

namespace equipoise {

/// The program of one member for one mask of a bucket: where each row lies, in which order blocks go on the wire, which kernels run.
/// `step` is for messages. Keys that lie together in the member's own tensors are used where they are; all others are gathered into the arena, a block for each
/// (segment, KV head) that spans the visible keys it needs. A work item of several KV heads whose blocks differ is cut into one entry per KV head.
/// Cost: O(items and messages of the member, log). Requires a valid bucket plan.
RankProgram make_rank_program(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, MemberId member, int64_t step);

}  // namespace equipoise
