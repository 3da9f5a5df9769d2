// Replicas share attention in a bucket only where that makes what the pool waits for faster. Each half of a pool is
// planned as a pool first, down to single replicas; then buckets are shared by the whole. So a larger pool is not
// predicted slower than smaller ones that have the same sequences. A pool that waits once a step is judged by its whole
// step, because its replicas level out over the micro-steps: what one bucket gains by sharing may be nothing that
// anybody waits for.

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"
#include "equipoise/planner/bucket_stages.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"

namespace equipoise {
namespace {

/// The most tiles of any member under one mask.
int64_t most_tiles(const LayerPlan& layer) {
  std::map<MemberId, int64_t> counts;
  int64_t most = 0;
  for (const Tile& tile : layer.tiles) most = std::max(most, ++counts[tile.member]);
  return most;
}

bool meets_limits(const PlanInputs& inputs, const BucketPlan& plan) {
  const auto few = [&](const LayerPlan& layer) { return most_tiles(layer) <= inputs.limits.max_tiles; };
  return std::all_of(plan.layers.begin(), plan.layers.end(), few) && fits_memory(inputs, plan);
}

/// What choosing between plans of a bucket reads.
struct Price {
  bool fits = true;               ///< meets the limits
  std::vector<int64_t> times_ns;  ///< by replica
};

Price price_of(const PlanInputs& inputs, const BucketPlan& plan) {
  Price price{.fits = meets_limits(inputs, plan), .times_ns = {}};
  for (const PassTime& time : replica_times(inputs, plan)) price.times_ns.push_back(time.total());
  return price;
}

/// The order of ways to plan buckets whose replicas wait for each other at their end: those that meet the limits first,
/// then the slowest replica's sum.
std::pair<int64_t, int64_t> rank_of(std::span<const Price> buckets) {
  int64_t over = 0;
  std::vector<int64_t> sums(buckets.front().times_ns.size(), 0);
  for (const Price& bucket : buckets) {
    over += bucket.fits ? 0 : 1;
    for (size_t r = 0; r < sums.size(); ++r) sums[r] += bucket.times_ns[r];
  }
  return {over, *std::max_element(sums.begin(), sums.end())};
}

std::pair<int64_t, int64_t> rank_of(const PlanInputs& inputs, const BucketPlan& plan) {
  return rank_of(std::array{price_of(inputs, plan)});
}

/// The same bucket with the layers of each mask at home where that meets the limits and tiles do not, or is predicted
/// faster, whatever other masks do.
BucketPlan keep_paying(const PlanInputs& inputs, const BucketPlan& placed, BucketPlan home) {
  const auto rank = [&](const BucketPlan& plan, size_t mask) {
    return std::pair(!meets_limits(inputs, plan),
                     layer_time(member_loads(inputs, plan, static_cast<int64_t>(mask))).all().total());
  };
  for (size_t m = 0; m < home.layers.size(); ++m) {
    BucketPlan other = home;
    other.layers[m] = placed.layers[m];
    if (rank(other, m) < rank(home, m)) home = std::move(other);
  }
  return home;
}

/// Of a bucket's tiles those under the masks where they pay: that members then wait for each other in all layers has a
/// price too, so all and none are tried besides.
BucketPlan keep_faster(const PlanInputs& inputs, BucketPlan best) {
  const BucketPlan home = stay_home(inputs, best);
  for (BucketPlan other : {keep_paying(inputs, best, home), home})
    if (rank_of(inputs, other) < rank_of(inputs, best)) best = std::move(other);
  return best;
}

/// The bucket shared by the pool, where that pays.
BucketPlan plan_shared(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket) {
  return keep_faster(inputs, plan_stages(inputs, stages, step, bucket));
}

/// A bucket of one replica: the fastest of its tiles, of the same shards without them, and of each sharding.
BucketPlan plan_replica(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket) {
  BucketPlan best = plan_shared(inputs, stages, step, bucket);
  if (inputs.mesh.cp == 1) return best;
  Stages home = stages;
  home.tiling = TilingRule::owner;
  for (const ShardingChoice choice : {ShardingChoice::contiguous, ShardingChoice::sequence_zigzag,
                                      ShardingChoice::document_zigzag, ShardingChoice::adaptive}) {
    home.sharding = choice;
    BucketPlan other = plan_stages(inputs, home, step, bucket);
    if (rank_of(inputs, other) < rank_of(inputs, best)) best = std::move(other);
  }
  return best;
}

/// A pool's halves as pools of their own, or its replicas where there are no halves.
struct Parts {
  PlanInputs inputs;  ///< of each
  int64_t count = 0;
};

Parts parts_of(const PlanInputs& inputs) {
  Parts parts{.inputs = inputs, .count = inputs.pool % 2 == 0 ? 2 : inputs.pool};
  parts.inputs.pool = inputs.pool / parts.count;
  return parts;
}

/// What one part of a pool has of a bucket.
Bucket part_of(const Parts& parts, const Bucket& bucket, int64_t part) {
  const auto first = bucket.sequences.begin() + part * parts.inputs.pool;
  return {bucket.micro_step, bucket.pool * parts.count + part, {first, first + parts.inputs.pool}};
}

/// A bucket from the plans of a pool's parts.
BucketPlan join_parts(const PlanInputs& inputs, const Bucket& bucket, std::vector<BucketPlan> parts) {
  BucketPlan joined{.bucket = bucket, .sequences = {}, .shardings = {}, .layers = {}};
  std::vector<std::vector<Tile>> tiles(inputs.masks.size());  // by mask
  for (BucketPlan& part : parts) {
    const auto first = std::ssize(joined.sequences);
    for (size_t m = 0; m < tiles.size(); ++m)
      for (Tile tile : part.layers[m].tiles) {
        tile.replica_in_pool += first;
        tile.member.value += first * inputs.mesh.cp;
        tiles[m].push_back(tile);
      }
    std::move(part.sequences.begin(), part.sequences.end(), std::back_inserter(joined.sequences));
    std::move(part.shardings.begin(), part.shardings.end(), std::back_inserter(joined.shardings));
  }
  for (size_t m = 0; m < tiles.size(); ++m) {
    std::sort(tiles[m].begin(), tiles[m].end());
    joined.layers.push_back(make_layer(inputs, joined, inputs.masks[m], std::move(tiles[m])));
  }
  return joined;
}

/// What a bucket takes at least where its replicas share, if they are level and nothing travels.
int64_t least_ns(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket) {
  const int64_t members = inputs.members();
  int64_t speed = 1000 * members;
  if (!inputs.speeds_ppt.empty()) {
    const auto first = inputs.speeds_ppt.begin() + bucket.pool * members;
    speed = std::accumulate(first, first + members, int64_t{0});
  }
  int64_t time_ns = 0;
  for (const SeqId sequence : bucket.sequences) time_ns += sequence_time_ns(inputs, step.sequences[sequence.value]);
  return mul_div(time_ns, 1000, speed);
}

/// The same where only the parts of a pool share.
int64_t least_ns_in_parts(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket) {
  const Parts parts = parts_of(inputs);
  int64_t least = 0;
  for (int64_t part = 0; part < parts.count; ++part)
    least = std::max(least, least_ns(parts.inputs, step, part_of(parts, bucket, part)));
  return least;
}

/// The buckets by how unlike their replicas are: those that gain most by sharing first.
std::vector<size_t> by_falling_spread(std::span<const Price> prices) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t b = 0; b < prices.size(); ++b) {
    const auto [least, most] = std::minmax_element(prices[b].times_ns.begin(), prices[b].times_ns.end());
    order.push_back({*least - *most, b});
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> buckets;
  for (const auto& [minus_spread, bucket] : order) buckets.push_back(bucket);
  return buckets;
}

/// Whether letting more buckets share, one after the other from `next` on, could come below `best` if nothing had to
/// travel. `shared_ns` is by bucket.
bool could_be_faster(std::vector<Price> prices, std::span<const size_t> next, std::span<const int64_t> shared_ns,
                     std::pair<int64_t, int64_t> best) {
  for (const size_t bucket : next) {
    std::fill(prices[bucket].times_ns.begin(), prices[bucket].times_ns.end(), shared_ns[bucket]);
    prices[bucket].fits = true;
    if (rank_of(prices) < best) return true;
  }
  return false;
}

/// The first fastest way to plan the same buckets: what pays in each bucket may not pay in their sum.
std::vector<BucketPlan> fastest_of(const PlanInputs& inputs, std::vector<std::vector<BucketPlan>> ways) {
  std::vector<std::pair<int64_t, int64_t>> ranks;
  for (const std::vector<BucketPlan>& buckets : ways) {
    std::vector<Price> prices;
    for (const BucketPlan& plan : buckets) prices.push_back(price_of(inputs, plan));
    ranks.push_back(rank_of(prices));
  }
  return std::move(ways[std::min_element(ranks.begin(), ranks.end()) - ranks.begin()]);
}

std::vector<BucketPlan> plan_together(const PlanInputs& inputs, const Stages& stages, const StepPlan& step,
                                      std::span<const Bucket> buckets);

/// The buckets with each part of the pool for itself.
std::vector<BucketPlan> plan_in_parts(const PlanInputs& inputs, const Stages& stages, const StepPlan& step,
                                      std::span<const Bucket> buckets) {
  const Parts parts = parts_of(inputs);
  std::vector<std::vector<BucketPlan>> plans(buckets.size());  // by bucket, then part
  for (int64_t part = 0; part < parts.count; ++part) {
    std::vector<Bucket> own;
    for (const Bucket& bucket : buckets) own.push_back(part_of(parts, bucket, part));
    auto planned = plan_together(parts.inputs, stages, step, own);
    for (size_t b = 0; b < plans.size(); ++b) plans[b].push_back(std::move(planned[b]));
  }
  std::vector<BucketPlan> joined;
  for (size_t b = 0; b < plans.size(); ++b) joined.push_back(join_parts(inputs, buckets[b], std::move(plans[b])));
  return joined;
}

/// Some buckets of one pool whose replicas wait for each other at their end. At first its parts plan them; then one
/// after the other is shared by all, as long as that can lead below the best found, which is taken.
std::vector<BucketPlan> plan_together(const PlanInputs& inputs, const Stages& stages, const StepPlan& step,
                                      std::span<const Bucket> buckets) {
  std::vector<BucketPlan> plans;
  if (inputs.pool == 1) {
    for (const Bucket& bucket : buckets) plans.push_back(plan_replica(inputs, stages, step, bucket));
    return plans;
  }
  plans = plan_in_parts(inputs, stages, step, buckets);
  std::vector<Price> prices;
  std::vector<int64_t> shared_ns;
  for (size_t b = 0; b < plans.size(); ++b) {
    prices.push_back(price_of(inputs, plans[b]));
    shared_ns.push_back(least_ns(inputs, step, buckets[b]));
  }
  const std::vector<size_t> order = by_falling_spread(prices);
  auto best = rank_of(prices);
  size_t sharing = 0;              // of the order, in the best
  std::vector<BucketPlan> placed;  // all tiles, in the order
  std::vector<BucketPlan> shared;
  for (size_t i = 0; i < order.size(); ++i) {
    if (!could_be_faster(prices, std::span(order).subspan(i), shared_ns, best)) break;
    placed.push_back(plan_stages(inputs, stages, step, buckets[order[i]]));
    shared.push_back(keep_faster(inputs, placed.back()));
    prices[order[i]] = price_of(inputs, shared.back());
    if (rank_of(prices) >= best) continue;
    best = rank_of(prices);
    sharing = i + 1;
  }
  for (size_t i = 0; i < sharing; ++i) plans[order[i]] = std::move(shared[i]);
  std::vector<std::vector<BucketPlan>> ways(2);
  for (const BucketPlan& plan : plans) ways[1].push_back(stay_home(inputs, plan));
  ways[0] = std::move(plans);
  if (placed.size() == order.size()) {
    ways.emplace_back(order.size());
    for (size_t i = 0; i < order.size(); ++i) ways[2][order[i]] = std::move(placed[i]);
  }
  return fastest_of(inputs, std::move(ways));
}

/// A bucket for which nothing else counts. Where sharing is as fast as its parts could be, they are not planned.
BucketPlan plan_alone(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket) {
  if (inputs.pool == 1) return plan_replica(inputs, stages, step, bucket);
  BucketPlan shared = plan_shared(inputs, stages, step, bucket);
  const auto now = rank_of(inputs, shared);
  if (now <= std::pair<int64_t, int64_t>(0, least_ns_in_parts(inputs, step, bucket))) return shared;
  const Parts parts = parts_of(inputs);
  std::vector<BucketPlan> plans;
  for (int64_t part = 0; part < parts.count; ++part)
    plans.push_back(plan_alone(parts.inputs, stages, step, part_of(parts, bucket, part)));
  BucketPlan apart = join_parts(inputs, bucket, std::move(plans));
  return now < rank_of(inputs, apart) ? shared : apart;
}

/// Refuses a plan that does not meet the limits, with what it would take.
void check_limits(const PlanInputs& inputs, const BucketPlan& plan) {
  const Limits& limits = inputs.limits;
  const std::string place =
      "micro-step " + std::to_string(plan.bucket.micro_step) + ", pool " + std::to_string(plan.bucket.pool);
  if (!fits_memory(inputs, plan))
    throw InputError("exchange_bytes " + std::to_string(limits.exchange_bytes) + " is too small",
                     place + ", where a member needs " + std::to_string(most_held_bytes(inputs, plan)) +
                         " bytes of exchange buffers",
                     inputs.keep_received    ? "raise the limit, or plan without keep_received"
                     : inputs.members() == 1 ? "raise the limit"
                                             : "raise the limit, or use a strategy that moves fewer keys");
  for (const LayerPlan& layer : plan.layers)
    if (most_tiles(layer) > limits.max_tiles)
      throw InputError("max_tiles " + std::to_string(limits.max_tiles) + " is too small",
                       place + ", where a member computes " + std::to_string(most_tiles(layer)) + " tiles",
                       "raise the limit, or use libra or equipoise, which give the smallest back");
}

/// The given buckets of one pool.
std::vector<BucketPlan> plan_buckets_of_pool(const PlanInputs& inputs, const StepPlan& step,
                                             std::span<const Bucket> buckets) {
  const Stages stages = stages_of(inputs);
  std::vector<BucketPlan> plans;
  if (stages.never_slower && inputs.dp_sync == DpSync::step && buckets.size() > 1) {
    plans = plan_together(inputs, stages, step, buckets);
  } else {
    for (const Bucket& bucket : buckets)
      plans.push_back(stages.never_slower ? plan_alone(inputs, stages, step, bucket)
                                          : plan_stages(inputs, stages, step, bucket));
  }
  for (const BucketPlan& plan : plans) check_limits(inputs, plan);
  return plans;
}

std::vector<Bucket> buckets_of(const StepPlan& step, int64_t pool) {
  std::vector<Bucket> buckets;
  for (const Bucket& bucket : step.buckets)
    if (bucket.pool == pool) buckets.push_back(bucket);
  return buckets;
}

}  // namespace

std::vector<BucketPlan> plan_pool(const PlanInputs& inputs, const StepPlan& step, int64_t pool) {
  return plan_buckets_of_pool(inputs, step, buckets_of(step, pool));
}

BucketPlan plan_bucket(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket) {
  const bool waits_for_step = stages_of(inputs).never_slower && inputs.dp_sync == DpSync::step;
  std::vector<Bucket> buckets;
  if (waits_for_step) buckets = buckets_of(step, bucket.pool);
  const auto found = std::find(buckets.begin(), buckets.end(), bucket);
  if (found == buckets.end()) return plan_buckets_of_pool(inputs, step, std::array{bucket}).front();
  return plan_buckets_of_pool(inputs, step, buckets)[found - buckets.begin()];
}

}  // namespace equipoise
