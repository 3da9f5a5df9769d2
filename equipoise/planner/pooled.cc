// Who owns rows decides what must travel: a giant on few ranks makes them send to everybody. The member that moves most
// shows which sequence to shard otherwise; all else stays.

#include "equipoise/planner/pooled.h"

#include <algorithm>

#include "equipoise/model/workload.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/sharding/spread.h"

namespace equipoise {
namespace {

/// Speeds of the pool's members; empty where all are nominal.
std::span<const int64_t> pool_speeds(const PlanInputs& inputs, int64_t pool) {
  if (inputs.speeds_ppt.empty()) return {};
  return std::span(inputs.speeds_ppt).subspan(pool * inputs.members(), inputs.members());
}

/// The node that each member of the pool stands in; empty where it is the same.
std::vector<int64_t> pool_nodes(const PlanInputs& inputs, int64_t pool) {
  std::vector<int64_t> nodes;
  for (int64_t replica = pool * inputs.pool; replica < (pool + 1) * inputs.pool; ++replica)
    for (int64_t cp_rank = 0; cp_rank < inputs.mesh.cp; ++cp_rank)
      nodes.push_back(global_rank(inputs.mesh, {.replica = replica, .stage = 0, .cp_rank = cp_rank, .tp_rank = 0}) /
                      inputs.mesh.ranks_per_node);
  const bool one = std::all_of(nodes.begin(), nodes.end(), [&](int64_t node) { return node == nodes.front(); });
  return one ? std::vector<int64_t>{} : nodes;
}

/// How long owners are searched, and whether candidates are judged by rules alone.
struct OwnerBudget {
  int64_t steps = 0;
  bool only_rules = true;
};

OwnerBudget owner_budget(Effort effort) {
  switch (effort) {
    case Effort::fast: return {0, true};
    case Effort::normal: return {5, true};
    case Effort::thorough: return {8, false};
  }
  return {};
}

/// Causal pairs of one head that a member of the pool computes when all are level.
int64_t member_pairs(const PlanInputs& inputs, const BucketPlan& plan) {
  int64_t pairs = 0;
  for (const Sequence& sequence : plan.sequences)
    for (const Segment& segment : sequence.segments)
      pairs += attention_pairs(Mask{}, {0, segment.length_tokens}, segment.length_tokens);
  return pairs / inputs.members();
}

PooledTiling pool_of(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, std::span<const int64_t> nodes,
                     Effort effort) {
  return {.sequences = plan.sequences,
          .shardings = plan.shardings,
          .mask = mask,
          .heads = inputs.heads,
          .cost = inputs.cost,
          .speeds_ppt = pool_speeds(inputs, plan.bucket.pool),
          .cp = inputs.mesh.cp,
          .exchange_bytes = inputs.limits.exchange_bytes,
          .nodes = nodes,
          .effort = effort,
          .grid_rows = inputs.grid()};
}

/// Traffic of each member through all layers.
std::vector<int64_t> traffic_of(const PlanInputs& inputs, const BucketPlan& plan, bool only_rules) {
  const auto nodes = pool_nodes(inputs, plan.bucket.pool);
  std::vector<int64_t> traffic(inputs.members(), 0);
  for (const Mask& mask : inputs.masks) {
    PooledTiling pool = pool_of(inputs, plan, mask, nodes, Effort::normal);
    pool.only_rules = only_rules;
    const auto moved = pooled_traffic(pool);
    for (size_t m = 0; m < traffic.size(); ++m) traffic[m] += mask.layers * moved[m];
  }
  return traffic;
}

/// The one rule of effort fast: a giant of twice the work of a context group's members lies on all its ranks.
void spread_giants(const PlanInputs& inputs, BucketPlan& plan) {
  const int64_t pairs = member_pairs(inputs, plan);
  for (size_t r = 0; r < plan.sequences.size(); ++r) {
    int64_t longest = 0;
    for (const Segment& segment : plan.sequences[r].segments) longest = std::max(longest, segment.length_tokens);
    if (attention_pairs(Mask{}, {0, longest}, longest) > 2 * inputs.mesh.cp * pairs)
      plan.shardings[r] = shard_spread(plan.sequences[r], inputs.mesh.cp, spreads[0], pairs);
  }
}

}  // namespace

PooledTiles place_pooled(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, Effort effort) {
  const auto nodes = pool_nodes(inputs, plan.bucket.pool);
  return tile_pooled(pool_of(inputs, plan, mask, nodes, effort));
}

std::vector<Sharding> search_owners(const PlanInputs& inputs, const BucketPlan& plan) {
  BucketPlan best = plan;
  best.shardings.clear();
  for (const Sequence& sequence : plan.sequences)
    best.shardings.push_back(shard_sequence(ShardingRule::contiguous, sequence, inputs.mesh.cp));
  if (inputs.mesh.cp == 1) return best.shardings;
  const OwnerBudget budget = owner_budget(inputs.effort);
  if (budget.steps == 0) {
    spread_giants(inputs, best);
    return best.shardings;
  }

  const int64_t pairs = member_pairs(inputs, plan);
  auto traffic = traffic_of(inputs, best, budget.only_rules);
  std::vector<size_t> next(plan.sequences.size(), 0);
  for (int64_t step = 0; step < budget.steps; ++step) {
    const auto busiest = std::max_element(traffic.begin(), traffic.end());
    const int64_t replica = (busiest - traffic.begin()) / inputs.mesh.cp;
    if (*busiest == 0 || next[replica] == spreads.size()) break;
    BucketPlan other = best;
    other.shardings[replica] = shard_spread(plan.sequences[replica], inputs.mesh.cp, spreads[next[replica]++], pairs);
    if (other.shardings[replica] == best.shardings[replica]) continue;
    auto others = traffic_of(inputs, other, budget.only_rules);
    if (*std::max_element(others.begin(), others.end()) >= *busiest) continue;
    best = std::move(other);
    traffic = std::move(others);
  }
  return best.shardings;
}

}  // namespace equipoise
