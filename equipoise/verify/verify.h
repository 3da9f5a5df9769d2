#pragma once

#include <span>

#include "equipoise/base/errors.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/model/rank_program.h"

// Independent checkers, one for each stage, one .cc each. They share no code with the solvers, count densely where they
// can, and include only model/ nouns and base/ (not model/workload.h or model/work.h: the solvers count with those).
// Each returns every violation it finds, with a stable rule name, the place and the values.

namespace equipoise {

/// Packing: M sequences; every token of every document held before or arrived is trained once, untrained (as counted)
/// or held after; caps on tokens and segments; arrival positions go on from `before`; planned loss tokens. Packings
/// that cut keep the order of arrival, the others keep documents whole. No document that waits beyond the bound is
/// passed by one that arrived later. Requires validate(inputs), here and below. Rules: "sequence count", "sequence
/// empty", "segment in document", "document kept whole", "token trained once", "tokens within cap", "segments within
/// cap", "arrivals in order", "documents listed", "documents in order", "held since", "delay within bound", "overlong
/// refused", "untrained counted", "loss tokens counted".
Violations check_packing(const PlanInputs& inputs, const PackerState& before, const StepPlan& step);

/// Placement: slots are a permutation of N x dp; buckets follow from them; no balance is better than its bound.
/// Rules: "slot in mesh", "slot used once", "buckets follow slots", "bound below result".
Violations check_placement(const PlanInputs& inputs, const StepPlan& step);

/// Sharding of one sequence: every token owned once, pieces sorted and merged, cp ranks in range, ranks level within
/// align; their rows within max_tokens, padding included; owners of a zigzag are those of its rule. Rules: "piece in
/// segment", "token owned once", "rank in group", "pieces sorted", "pieces merged", "ranks level", "rows within cap",
/// "pieces follow rule".
Violations check_sharding(const Sequence& sequence, const Sharding& sharding, const PlanInputs& inputs);

/// Tiles of one mask of a bucket. Rules: "bucket shape", "tile in segment", "tile heads", "tiles overlap", "member in
/// pool", "member owns rows", "round in range", "tile of grid cells" (invariant sums).
Violations check_tiling(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Messages of one mask of a bucket: each executor has exactly the query and key rows it needs, from their owner, not
/// before it is sent and not after it is needed. Requires segments of at most 2^40 tokens. Rules: "bucket shape",
/// "message sorted", "member in pool", "receiver is another", "head in range", "round in range", "block in segment",
/// "sender owns rows", "rows travel once", "query needed", "query missing", "key needed", "key missing", "first round",
/// "last round".
Violations check_exchange(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Memory of the exchange buffers (model/buffers.h) of a bucket: that of the larger pass of any mask, and with
/// keep_received what forwards keep for their backwards in all layers. Requires shardings, tiles and messages in which
/// the checks above find nothing. Rules: "bucket shape", "exchange within cap".
Violations check_memory(const PlanInputs& inputs, const BucketPlan& bucket);

/// One rank program: every cell that it reads or writes is in range, every list consistent; what the operator checks
/// before it runs one. All that one member can see: that its rows are those of the plan is check_bucket_programs' to
/// say. Rules: "header", "block in rows", "heads in range", "peer in pool", "sorted by peer", "arena in range", "arena
/// written once", "arena cell filled", "return round", "flags agree", "entry shape", "entry in store", "entry keys",
/// "entry is a grid cell" (invariant sums), "row computed twice", "row never computed".
Violations check_program(const RankProgram& program);

/// The programs of all members of a pool, by member: each valid alone, every send has its receive with the same shape
/// in the same order, flags and rounds agree. Rules: those of check_program, "headers agree", "rounds agree", "send
/// without receive", "receive without send".
Violations check_program_set(std::span<const RankProgram> programs);

/// The programs of a bucket against its plan: every entry computes the rows and heads that the plan gives this member
/// in this round, against exactly the keys that the mask shows them; every owned row and head is computed once.
/// Requires a plan without violations. Rules: those of check_program_set, "program of plan", "padding used", "entry
/// rows", "entry is a grid cell", "entry keys", "tile followed", "row never computed", "row computed twice".
Violations check_bucket_programs(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index,
                                 std::span<const RankProgram> programs);

/// All checks of one step, and of its buckets where they are given. Rules: all of the above but those of programs,
/// "inputs hash", "bucket follows step".
Violations verify_step(const PlanInputs& inputs, const PackerState& before, const StepPlan& step,
                       std::span<const BucketPlan> buckets);

}  // namespace equipoise
