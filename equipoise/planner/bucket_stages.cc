// A bucket is planned in three stages: shard each sequence, place tiles for each mask, derive the messages. Masks are
// planned apart, because their layers run apart.

#include "equipoise/planner/bucket_stages.h"

#include <algorithm>

#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/pooled.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/tiling/tile_limit.h"
#include "equipoise/tiling/tiling.h"

namespace equipoise {
namespace {

std::vector<Tile> place_tiles(const PlanInputs& inputs, TilingRule rule, const BucketPlan& plan, const Mask& mask) {
  switch (rule) {
    case TilingRule::owner: return {};
    case TilingRule::ulysses: return tile_ulysses(plan.shardings, inputs.heads, inputs.mesh.cp);
    case TilingRule::pooled: break;
  }
  std::vector<Tile> tiles = place_pooled(inputs, plan, mask, inputs.effort).tiles;
  keep_largest_tiles({inputs.cost, mask, inputs.heads}, plan.sequences, inputs.limits.max_tiles, tiles);
  return tiles;
}

Sharding shard_one(const PlanInputs& inputs, ShardingChoice choice, const Sequence& sequence) {
  switch (choice) {
    case ShardingChoice::document_zigzag:
      return shard_sequence(ShardingRule::document_zigzag, sequence, inputs.mesh.cp);
    case ShardingChoice::contiguous: return shard_sequence(ShardingRule::contiguous, sequence, inputs.mesh.cp);
    case ShardingChoice::adaptive: return shard_adaptive(inputs, sequence);
    case ShardingChoice::better_zigzag:
    case ShardingChoice::sequence_zigzag: break;
  }
  return shard_sequence(ShardingRule::sequence_zigzag, sequence, inputs.mesh.cp);
}

std::vector<Sharding> shard_all(const PlanInputs& inputs, ShardingChoice choice, const BucketPlan& plan) {
  std::vector<Sharding> shardings;
  for (const Sequence& sequence : plan.sequences) shardings.push_back(shard_one(inputs, choice, sequence));
  if (choice != ShardingChoice::better_zigzag) return shardings;
  const auto slowest = [&](const std::vector<Sharding>& candidates) {
    int64_t most = 0;
    for (std::size_t r = 0; r < candidates.size(); ++r)
      most = std::max(most, slowest_rank_ns(inputs, plan.sequences[r], candidates[r]));
    return most;
  };
  std::vector<Sharding> other = shard_all(inputs, ShardingChoice::document_zigzag, plan);
  return slowest(other) < slowest(shardings) ? other : shardings;
}

}  // namespace

LayerPlan make_layer(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, std::vector<Tile> tiles) {
  const auto work = attention_work(plan.sequences, plan.shardings, tiles, inputs.heads, inputs.mesh.cp);
  Exchange exchange = plan_exchange(plan.sequences, plan.shardings, work, mask, inputs.heads, inputs.mesh.cp);
  cut_messages(exchange, inputs.limits.max_message_rows, inputs.grid());
  return {std::move(tiles), std::move(exchange)};
}

BucketPlan plan_stages(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket) {
  BucketPlan plan;
  plan.bucket = bucket;
  for (const SeqId sequence : bucket.sequences) plan.sequences.push_back(step.sequences[sequence.value]);
  plan.shardings =
      stages.tiling == TilingRule::pooled ? search_owners(inputs, plan) : shard_all(inputs, stages.sharding, plan);
  for (const Mask& mask : inputs.masks)
    plan.layers.push_back(make_layer(inputs, plan, mask, place_tiles(inputs, stages.tiling, plan, mask)));
  return plan;
}

}  // namespace equipoise
