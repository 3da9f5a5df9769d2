// A preset is a row of a table: one choice for each stage. What differs between strategies stands here and nowhere
// else.

#include "equipoise/planner/presets.h"

#include <string>

#include "equipoise/base/errors.h"

namespace equipoise {

namespace {

std::string called(Strategy strategy) { return "strategy '" + std::string(name(strategy)) + "'"; }

Stages preset(Strategy strategy) {
  switch (strategy) {
    case Strategy::plain: return {};
    case Strategy::allgather: return {.sharding = ShardingChoice::document_zigzag};
    case Strategy::ulysses: return {.sharding = ShardingChoice::contiguous, .tiling = TilingRule::ulysses};
    case Strategy::fixed: return {.packing = PackingRule::fixed, .sharding = ShardingChoice::better_zigzag};
    case Strategy::wlb: return {.packing = PackingRule::wlb, .sharding = ShardingChoice::adaptive};
    case Strategy::libra:
      return {.placement = PlacementRule::longest_first,
              .sharding = ShardingChoice::contiguous,
              .tiling = TilingRule::pooled};
    case Strategy::equipoise:
      return {.placement = PlacementRule::longest_first,
              .sharding = ShardingChoice::contiguous,
              .tiling = TilingRule::pooled,
              .never_slower = true};
  }
  return {};
}

/// Options that only some strategies have are refused elsewhere, so that none is ignored in silence.
void check_options(const PlanInputs& inputs) {
  const Delay& delay = inputs.delay;
  const Strategy strategy = inputs.strategy;
  const StrategyOptions has = options_of(strategy);
  if (!has.max_delay && delay.max_delay_steps != 0)
    throw InputError(called(strategy) + " holds no document for later steps", "field max_delay",
                     "leave max_delay out, or use wlb or equipoise");
  if (strategy == Strategy::equipoise && delay.max_delay_steps == no_bound)
    throw InputError(called(strategy) + " bounds the delay", "field max_delay", "give the steps a document may wait");
  if (!has.repack_window && delay.repack_window_steps != 1)
    throw InputError(called(strategy) + " does not repack global batches", "field repack_window",
                     "leave repack_window out, or use fixed");
  if (!has.queues && !delay.queue_tokens.empty())
    throw InputError(called(strategy) + " has no outlier queues", "field queues", "leave queues out, or use wlb");
  const Heads& heads = inputs.heads;
  const bool splits_groups =
      preset(strategy).tiling == TilingRule::ulysses && heads.group() > 1 && heads.kv % inputs.mesh.cp != 0;
  if (inputs.gradient_sum == GradientSum::invariant && splits_groups)
    throw InputError(called(strategy) + " splits the query heads of one KV head where " + std::to_string(heads.kv) +
                         " KV heads go to " + std::to_string(inputs.mesh.cp) +
                         " ranks, which the invariant grid keeps together",
                     "field gradient_sum", "use fast sums, another strategy, or cp that divides the KV heads");
}

}  // namespace

StrategyOptions options_of(Strategy strategy) {
  return {.pool = preset(strategy).tiling == TilingRule::pooled,
          .max_delay = strategy == Strategy::wlb || strategy == Strategy::equipoise,
          .repack_window = strategy == Strategy::fixed,
          .queues = strategy == Strategy::wlb};
}

int64_t default_max_delay(Strategy strategy) { return strategy == Strategy::wlb ? no_bound : 0; }

Stages stages_of(const PlanInputs& inputs) {
  check_options(inputs);
  Stages stages = preset(inputs.strategy);
  const bool looks_ahead = inputs.strategy == Strategy::equipoise && inputs.delay.max_delay_steps > 0;
  if (looks_ahead) stages.packing = PackingRule::look_ahead;
  return stages;
}

}  // namespace equipoise
