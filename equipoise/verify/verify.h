#pragma once

#include <span>

#include "equipoise/base/errors.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/model/rank_program.h"

// Independent checkers, one for each stage, one .cc each. They share no code with the solvers, count densely where they can, and include only model/ nouns and
// base/ (not model/workload.h or model/work.h: the solvers count with those). Each returns every violation it finds, with a stable rule name, the place and the values.

namespace equipoise {

/// Packing: M sequences; every token of every document held before or arrived is trained once, untrained (as counted) or held after; caps on tokens and segments;
/// arrival positions go on from `before`; delays within the bound; planned loss tokens.
/// Rules: "sequence count", "segment in document", "token trained once", "tokens within cap", "segments within cap", "arrivals in order", "documents listed",
/// "held since", "delay within bound", "untrained counted", "loss tokens counted".
Violations check_packing(const PlanInputs& inputs, const PackerState& before, const StepPlan& step);

/// Placement: slots are a permutation of N x dp; buckets follow from them. Rules: "slot in mesh", "slot used once", "buckets follow slots".
Violations check_placement(const PlanInputs& inputs, const StepPlan& step);

/// Sharding of one sequence: every token owned once, sorted, merged, cp ranks in range, ranks level within max(1, align).
/// Rules: "piece in segment", "token owned once", "rank in group", "pieces sorted", "ranks level".
Violations check_sharding(const Sequence& sequence, const Sharding& sharding, int64_t cp, int64_t align_tokens);

/// Tiles of one mask of a bucket. Rules: "tile in segment", "tile heads", "tiles overlap", "member in pool", "member owns rows", "round in range".
Violations check_tiling(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Messages of one mask of a bucket: each executor has exactly the query and key rows it needs, from their owner, not before it is sent and not after it is needed.
/// Rules: "message sorted", "member in pool", "sender owns rows", "receiver is another", "rows travel once", "query needed", "query missing", "key needed",
/// "key missing", "round in range", "last round", "head in range".
Violations check_exchange(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// One rank program: every cell that it reads or writes is in range, every list consistent; what the operator checks before it runs one.
/// Rules: "header", "block in rows", "heads in range", "peer in pool", "entry in store", "entry shape", "arena in range", "return round", "row computed twice".
Violations check_program(const RankProgram& program);

/// The programs of all members of a pool, by member, each valid alone: every send has its receive with the same shape in the same order; flags and rounds agree; every real
/// row and head is computed exactly once. Rules: "rounds agree", "send without receive", "receive without send", "flags agree", "row never computed".
Violations check_program_set(std::span<const RankProgram> programs);

/// All checks of one step, and of its buckets where they are given.
Violations verify_step(const PlanInputs& inputs, const PackerState& before, const StepPlan& step, std::span<const BucketPlan> buckets);

}  // namespace equipoise
