// A bucket is planned in three stages: shard each sequence, place tiles for each mask, derive the messages. Masks are
// planned apart, because their layers run apart.

#include "equipoise/planner/bucket_stages.h"

#include <algorithm>

#include "equipoise/cost/cost.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/pooled.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/tiling/tile_limit.h"
#include "equipoise/tiling/tiling.h"

namespace equipoise {
namespace {

/// What max_tiles leaves of pooled tiles.
std::vector<Tile> within_count(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask,
                               std::vector<Tile> tiles) {
  keep_largest_tiles({inputs.cost, mask, inputs.heads}, plan.sequences, inputs.limits.max_tiles, tiles);
  return tiles;
}

/// Bytes of rows that the fullest member receives, as pooled tiling counts them.
int64_t most_received(const PlanInputs& inputs, const LayerPlan& layer) {
  const auto received = held_bytes(inputs.cost, inputs.heads, layer.exchange, inputs.members());
  return *std::max_element(received.begin(), received.end());
}

/// A layer whose buffers stay within the limit beside those of the other layers, or the one at home that the plan has.
/// Tiling caps the rows that a member receives, of which buffers are about a multiple: its cap is lowered in proportion
/// a few times.
LayerPlan place_within_limit(const PlanInputs& inputs, const BucketPlan& plan, int64_t index) {
  constexpr int64_t tries = 5;
  const Mask& mask = inputs.masks[index];
  const int64_t limit = inputs.limits.exchange_bytes;
  const int64_t home_held = most_held_bytes(inputs, plan);
  const int64_t home_received = most_received(inputs, plan.layers[index]);
  PlanInputs capped = inputs;
  BucketPlan placed = plan;
  for (int64_t i = 0; i < tries && home_held < limit; ++i) {
    auto tiles = place_pooled(capped, plan, mask, inputs.effort).tiles;
    placed.layers[index] = make_layer(inputs, plan, mask, within_count(inputs, plan, mask, std::move(tiles)));
    const int64_t held = most_held_bytes(inputs, placed);
    if (held <= limit) return placed.layers[index];
    const int64_t received = std::min(most_received(inputs, placed.layers[index]), capped.limits.exchange_bytes);
    const int64_t more = mul_div(std::max<int64_t>(0, received - home_received), limit - home_held, held - home_held);
    capped.limits.exchange_bytes = std::max<int64_t>(1, home_received + more);
  }
  return plan.layers[index];
}

/// Pooled tiles on the plan's shardings under a limit. Layers begin at home, so that each finds the memory that the
/// others need at least.
void plan_limited(const PlanInputs& inputs, BucketPlan& plan) {
  plan.layers.clear();
  for (const Mask& mask : inputs.masks) plan.layers.push_back(make_layer(inputs, plan, mask, {}));
  for (size_t m = 0; m < inputs.masks.size(); ++m)
    plan.layers[m] = place_within_limit(inputs, plan, static_cast<int64_t>(m));
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

/// Owners, then pooled tiles.
void plan_pooled(const PlanInputs& inputs, BucketPlan& plan) {
  plan.shardings = search_owners(inputs, plan);
  if (inputs.limits.exchange_bytes == no_limit) {
    for (const Mask& mask : inputs.masks) {
      auto tiles = place_pooled(inputs, plan, mask, inputs.effort).tiles;
      plan.layers.push_back(make_layer(inputs, plan, mask, within_count(inputs, plan, mask, std::move(tiles))));
    }
    return;
  }
  plan_limited(inputs, plan);
  if (fits_memory(inputs, plan)) return;
  // Segments spread over more ranks need more keys there: without that the bucket may fit.
  plan.shardings = shard_all(inputs, ShardingChoice::contiguous, plan);
  plan_limited(inputs, plan);
}

}  // namespace

bool fits_memory(const PlanInputs& inputs, const BucketPlan& plan) {
  const int64_t limit = inputs.limits.exchange_bytes;
  return limit == no_limit || most_held_bytes(inputs, plan) <= limit;
}

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
  if (stages.tiling == TilingRule::pooled) {
    plan_pooled(inputs, plan);
    return plan;
  }
  plan.shardings = shard_all(inputs, stages.sharding, plan);
  for (const Mask& mask : inputs.masks) {
    std::vector<Tile> tiles;
    if (stages.tiling == TilingRule::ulysses) tiles = tile_ulysses(plan.shardings, inputs.heads, inputs.mesh.cp);
    plan.layers.push_back(make_layer(inputs, plan, mask, std::move(tiles)));
  }
  return plan;
}

}  // namespace equipoise
