// A bucket is planned in three stages: shard each sequence, place tiles for each mask, derive the messages. Masks are
// planned apart, because their layers run apart; each keeps its tiles only where the preset trusts them or they are
// predicted to pay.

#include <algorithm>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/pooled.h"
#include "equipoise/planner/presets.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/tiling/tiling.h"

namespace equipoise {
namespace {

std::vector<Tile> place_tiles(const PlanInputs& inputs, TilingRule rule, const BucketPlan& plan, int64_t mask) {
  switch (rule) {
    case TilingRule::owner: return {};
    case TilingRule::ulysses: return tile_ulysses(plan.shardings, inputs.heads, inputs.mesh.cp);
    case TilingRule::pooled: break;
  }
  return place_pooled(inputs, plan, inputs.masks[mask], inputs.effort).tiles;
}

LayerPlan make_layer(const PlanInputs& inputs, const BucketPlan& plan, int64_t mask, std::vector<Tile> tiles) {
  const auto work = attention_work(plan.sequences, plan.shardings, tiles, inputs.heads, inputs.mesh.cp);
  Exchange exchange =
      plan_exchange(plan.sequences, plan.shardings, work, inputs.masks[mask], inputs.heads, inputs.mesh.cp);
  return {std::move(tiles), std::move(exchange)};
}

bool fits(const PlanInputs& inputs, const BucketPlan& plan) {
  const int64_t limit = inputs.limits.exchange_bytes;
  return limit == no_limit || most_held_bytes(inputs, plan) <= limit;
}

/// The layer of a mask is the better of the one it has and `other`: one that meets the cap before one that does not,
/// then the faster, then the one it has.
void keep_better(const PlanInputs& inputs, BucketPlan& plan, int64_t mask, LayerPlan other) {
  const auto rank = [&] { return std::pair(!fits(inputs, plan), layer_time(inputs, plan, mask).all().total()); };
  const auto now = rank();
  std::swap(plan.layers[mask], other);
  if (rank() >= now) std::swap(plan.layers[mask], other);
}

/// Bytes of rows that the fullest member receives, as pooled tiling counts them.
int64_t most_received(const PlanInputs& inputs, const LayerPlan& layer) {
  const auto received = held_bytes(inputs.cost, inputs.heads, layer.exchange, inputs.members());
  return *std::max_element(received.begin(), received.end());
}

/// A layer whose buffers stay within the limit beside those of the other layers, or the one at home that the plan has.
/// Tiling caps the rows that a member receives, of which buffers are about a multiple: its cap is lowered in proportion
/// a few times.
LayerPlan place_within_limit(const PlanInputs& inputs, const BucketPlan& plan, int64_t mask) {
  constexpr int64_t tries = 5;
  const int64_t limit = inputs.limits.exchange_bytes;
  const int64_t home_held = most_held_bytes(inputs, plan);
  const int64_t home_received = most_received(inputs, plan.layers[mask]);
  PlanInputs capped = inputs;
  BucketPlan placed = plan;
  for (int64_t i = 0; i < tries && home_held < limit; ++i) {
    auto tiles = place_tiles(capped, TilingRule::pooled, plan, mask);
    placed.layers[mask] = make_layer(inputs, plan, mask, std::move(tiles));
    const int64_t held = most_held_bytes(inputs, placed);
    if (held <= limit) return placed.layers[mask];
    const int64_t received = std::min(most_received(inputs, placed.layers[mask]), capped.limits.exchange_bytes);
    const int64_t more = mul_div(std::max<int64_t>(0, received - home_received), limit - home_held, held - home_held);
    capped.limits.exchange_bytes = std::max<int64_t>(1, home_received + more);
  }
  return plan.layers[mask];
}

void place_layer(const PlanInputs& inputs, const Stages& stages, int64_t mask, BucketPlan& plan) {
  const bool limited = stages.tiling == TilingRule::pooled && inputs.limits.exchange_bytes != no_limit;
  LayerPlan placed = limited ? place_within_limit(inputs, plan, mask)
                             : make_layer(inputs, plan, mask, place_tiles(inputs, stages.tiling, plan, mask));
  if (placed.tiles.empty()) return;
  if (stages.never_slower)
    keep_better(inputs, plan, mask, std::move(placed));
  else
    plan.layers[mask] = std::move(placed);
}

/// Layers begin at home, so that each finds the memory that the others need at least.
void plan_layers(const PlanInputs& inputs, const Stages& stages, BucketPlan& plan) {
  const auto masks = static_cast<int64_t>(inputs.masks.size());
  plan.layers.clear();
  for (int64_t mask = 0; mask < masks; ++mask) plan.layers.push_back(make_layer(inputs, plan, mask, {}));
  for (int64_t mask = 0; mask < masks; ++mask) place_layer(inputs, stages, mask, plan);
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

BucketPlan plan_stages(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket) {
  BucketPlan plan;
  plan.bucket = bucket;
  for (const SeqId sequence : bucket.sequences) plan.sequences.push_back(step.sequences[sequence.value]);
  const bool pooled = stages.tiling == TilingRule::pooled;
  plan.shardings = pooled ? search_owners(inputs, plan) : shard_all(inputs, stages.sharding, plan);
  plan_layers(inputs, stages, plan);
  if (!pooled || fits(inputs, plan)) return plan;
  // Segments spread over more ranks need more keys there: without that the bucket may fit.
  plan.shardings = shard_all(inputs, ShardingChoice::contiguous, plan);
  plan_layers(inputs, stages, plan);
  return plan;
}

}  // namespace

BucketPlan plan_bucket(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket) {
  const Stages stages = stages_of(inputs);
  BucketPlan plan = plan_stages(inputs, stages, step, bucket);
  const auto rank = [&](const BucketPlan& candidate) {
    return std::pair(!fits(inputs, candidate), bucket_time(inputs, candidate).total());
  };
  if (stages.never_slower) {  // masks paid one by one; that their layers then wait for each other has a price too
    BucketPlan stays = stay_home(inputs, plan);
    if (rank(stays) < rank(plan)) plan = std::move(stays);
  }
  if (stages.never_slower && inputs.mesh.cp > 1) {
    Stages home = stages;
    home.tiling = TilingRule::owner;
    for (const ShardingChoice choice :
         {ShardingChoice::sequence_zigzag, ShardingChoice::document_zigzag, ShardingChoice::adaptive}) {
      home.sharding = choice;
      BucketPlan stays = plan_stages(inputs, home, step, bucket);
      if (rank(stays) < rank(plan)) plan = std::move(stays);
    }
  }
  if (!fits(inputs, plan))
    throw InputError("exchange_bytes " + std::to_string(inputs.limits.exchange_bytes) + " is too small",
                     "micro-step " + std::to_string(plan.bucket.micro_step) + ", pool " +
                         std::to_string(plan.bucket.pool) + ", where a member needs " +
                         std::to_string(most_held_bytes(inputs, plan)) + " bytes of exchange buffers",
                     inputs.keep_received ? "raise the limit, or plan without keep_received"
                                          : "raise the limit, or use a strategy that moves fewer keys");
  return plan;
}

}  // namespace equipoise
