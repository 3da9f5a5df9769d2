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

LayerPlan make_layer(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, std::vector<Tile> tiles) {
  const auto work = attention_work(plan.sequences, plan.shardings, tiles, inputs.heads, inputs.mesh.cp);
  Exchange exchange = plan_exchange(plan.sequences, plan.shardings, work, mask, inputs.heads, inputs.mesh.cp);
  return {std::move(tiles), std::move(exchange)};
}

/// The last layer of the plan is the better of the one it has and `other`: one that meets the cap before one that does
/// not, then the faster, then the one it has.
void keep_better(const PlanInputs& inputs, BucketPlan& plan, LayerPlan other) {
  const auto mask = static_cast<int64_t>(plan.layers.size()) - 1;
  const auto rank = [&] {
    const bool fits = most_held_bytes(inputs, plan.layers.back()) <= inputs.limits.exchange_bytes;
    return std::pair(!fits, layer_time(inputs, plan, mask).all().total());
  };
  const auto now = rank();
  std::swap(plan.layers.back(), other);
  if (rank() >= now) std::swap(plan.layers.back(), other);
}

void append_layer(const PlanInputs& inputs, const Stages& stages, const Mask& mask, std::vector<Tile> tiles,
                  BucketPlan& plan) {
  LayerPlan placed = make_layer(inputs, plan, mask, std::move(tiles));
  if (!stages.never_slower || placed.tiles.empty()) {
    plan.layers.push_back(std::move(placed));
  } else {
    plan.layers.push_back(make_layer(inputs, plan, mask, {}));
    keep_better(inputs, plan, std::move(placed));
  }
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

/// Owners that need no tiles to be chosen, and the tiles of each mask.
OwnedTiles place_apart(const PlanInputs& inputs, const Stages& stages, const BucketPlan& plan) {
  OwnedTiles placed{shard_all(inputs, stages.sharding, plan), {}};
  const bool ulysses = stages.tiling == TilingRule::ulysses;
  for (size_t mask = 0; mask < inputs.masks.size(); ++mask)
    placed.tiles.push_back(ulysses ? tile_ulysses(placed.shardings, inputs.heads, inputs.mesh.cp)
                                   : std::vector<Tile>{});
  return placed;
}

BucketPlan plan_stages(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket) {
  BucketPlan plan;
  plan.bucket = bucket;
  for (const SeqId sequence : bucket.sequences) plan.sequences.push_back(step.sequences[sequence.value]);
  OwnedTiles placed =
      stages.tiling == TilingRule::pooled ? place_owned(inputs, plan) : place_apart(inputs, stages, plan);
  plan.shardings = std::move(placed.shardings);
  for (size_t mask = 0; mask < inputs.masks.size(); ++mask)
    append_layer(inputs, stages, inputs.masks[mask], std::move(placed.tiles[mask]), plan);
  return plan;
}

}  // namespace

BucketPlan plan_bucket(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket) {
  const Stages stages = stages_of(inputs);
  BucketPlan plan = plan_stages(inputs, stages, step, bucket);
  const auto rank = [&](const BucketPlan& candidate) {
    const bool fits = most_held_bytes(inputs, candidate) <= inputs.limits.exchange_bytes;
    return std::pair(!fits, bucket_time(inputs, candidate).total());
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
  const int64_t held = most_held_bytes(inputs, plan);
  if (held > inputs.limits.exchange_bytes)
    throw InputError("exchange_bytes " + std::to_string(inputs.limits.exchange_bytes) + " is too small",
                     "micro-step " + std::to_string(plan.bucket.micro_step) + ", pool " +
                         std::to_string(plan.bucket.pool) + ", where a member must hold " + std::to_string(held) +
                         " bytes of received rows",
                     "raise the limit, or use a strategy that moves fewer keys");
  return plan;
}

}  // namespace equipoise
