// Who owns rows decides what must travel: a giant on few ranks makes them send to everybody. The member that moves most
// shows which sequence to shard otherwise; all else stays.

#include "equipoise/planner/pooled.h"

#include <algorithm>

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

/// How long owners are searched, and with which effort candidates are judged.
struct OwnerBudget {
  int64_t steps = 0;
  Effort effort = Effort::fast;
};

OwnerBudget owner_budget(Effort effort) {
  switch (effort) {
    case Effort::fast: return {0, Effort::fast};
    case Effort::normal: return {4, Effort::fast};
    case Effort::thorough: return {8, Effort::normal};
  }
  return {};
}

/// Traffic of each member through all layers.
std::vector<int64_t> traffic_of(const PlanInputs& inputs, const BucketPlan& plan, Effort effort) {
  std::vector<int64_t> traffic(inputs.members(), 0);
  for (const Mask& mask : inputs.masks) {
    const auto tiles = place_pooled(inputs, plan, mask, effort);
    for (size_t m = 0; m < traffic.size(); ++m) traffic[m] += mask.layers * tiles.traffic_ps[m];
  }
  return traffic;
}

}  // namespace

PooledTiles place_pooled(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, Effort effort) {
  const auto nodes = pool_nodes(inputs, plan.bucket.pool);
  return tile_pooled({.sequences = plan.sequences,
                      .shardings = plan.shardings,
                      .mask = mask,
                      .heads = inputs.heads,
                      .cost = inputs.cost,
                      .speeds_ppt = pool_speeds(inputs, plan.bucket.pool),
                      .cp = inputs.mesh.cp,
                      .exchange_bytes = inputs.limits.exchange_bytes,
                      .nodes = nodes,
                      .effort = effort,
                      .grid_rows = inputs.grid()});
}

std::vector<Sharding> search_owners(const PlanInputs& inputs, const BucketPlan& plan) {
  BucketPlan best = plan;
  best.shardings.clear();
  for (const Sequence& sequence : plan.sequences)
    best.shardings.push_back(shard_sequence(ShardingRule::contiguous, sequence, inputs.mesh.cp));
  const OwnerBudget budget = owner_budget(inputs.effort);
  if (inputs.mesh.cp == 1 || budget.steps == 0) return best.shardings;

  auto traffic = traffic_of(inputs, best, budget.effort);
  std::vector<size_t> next(plan.sequences.size(), 0);
  for (int64_t step = 0; step < budget.steps; ++step) {
    const auto busiest = std::max_element(traffic.begin(), traffic.end());
    const int64_t replica = (busiest - traffic.begin()) / inputs.mesh.cp;
    if (*busiest == 0 || next[replica] == spreads.size()) break;
    BucketPlan other = best;
    other.shardings[replica] = shard_spread(plan.sequences[replica], inputs.mesh.cp, spreads[next[replica]++]);
    if (other.shardings[replica] == best.shardings[replica]) continue;
    auto others = traffic_of(inputs, other, budget.effort);
    if (*std::max_element(others.begin(), others.end()) >= *busiest) continue;
    best = std::move(other);
    traffic = std::move(others);
  }
  return best.shardings;
}

}  // namespace equipoise
