#pragma once

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Plans the global part of the next optimizer step: packing and placement. Small; every rank makes it alone and gets
/// the same. Requires validate(inputs).
///
/// loss_tokens  targets of the step. A document with the default count gives each row whose next token is within its
///              trained extent (its length, or where it was truncated): a cut made by packing hides no target. A
///              document with its own count gives it to the step that trains its last token, also where its pieces are
///              spread over several steps.
/// balances     of predicted attention time; micro_batches are bounded by the heaviest segment alone, pools by the
///              bound of placement
///
/// Errors: InputError for options that the strategy cannot honour (stages_of); under policy error for an over-long
/// document; for a step that cannot be packed, with the reason; for a state that does not belong to the corpus; with
/// nothing left to plan (is_finished).
StepPlan plan_step(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Refuses a corpus that a later step would refuse, so that a long run ends before it begins. Requires
/// validate(inputs). Errors: InputError under policy error for the first document by id that is longer than the window,
/// and for one too long for the promised delay.
void check_corpus(const PlanInputs& inputs, const Corpus& corpus);

/// Refuses a state that no step of these documents under these inputs can have left: plan_step trusts it. What only a
/// wrong file shows, such as a held document that another step trained, cannot be seen.
/// Cost: O(documents + held log held). Errors: InputError with what does not fit.
void check_state(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Plans the buckets of one pool in all micro-steps of a step, in their order: sharding, tiling, exchange. A rank calls
/// it for its own pool only, so its cost does not grow with the cluster.
///
/// Under equipoise replicas share attention in a bucket only where that makes faster what the pool waits for: the
/// slowest replica's sum over the micro-steps, or with dp_sync micro_step the slowest replica of the bucket. In other
/// buckets each half of the pool is planned as a pool of its own, and so on down to single replicas.
/// Guarantee (equipoise): the pool is never predicted slower than its halves, their halves and single replicas would
///           be, or with all owners computing, in the same slots.
/// Tiles are placed so that most_held_bytes() stays within limits.exchange_bytes, or stay home.
/// Errors: InputError where that passes the limit without tiles too, or tiles pass max_tiles, whatever is chosen.
std::vector<BucketPlan> plan_pool(const PlanInputs& inputs, const StepPlan& step, int64_t pool);

/// One of the buckets of plan_pool(), at its price where that judges them together; a bucket that is none of the step's
/// is judged alone.
BucketPlan plan_bucket(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket);

/// The bucket with other tiles of one mask, and the messages that follow from them. Requires valid tiles.
BucketPlan with_tiles(const PlanInputs& inputs, BucketPlan bucket, int64_t mask_index, std::vector<Tile> tiles);

/// Bytes of exchange buffers (model/buffers.h) on the fullest member of a bucket, in the type that the cost table
/// counts: those of the larger pass of any mask, and with keep_received what forwards keep for their backwards in all
/// of the model's layers. A pipeline stage holds the same: of as many micro-batches as there are stages, its share of
/// the layers each. Cost: the programs of all members and masks.
int64_t most_held_bytes(const PlanInputs& inputs, const BucketPlan& bucket);

/// The same bucket with every tile computed by the owners of its rows: what moving tiles is compared with.
BucketPlan stay_home(const PlanInputs& inputs, const BucketPlan& bucket);

}  // namespace equipoise
