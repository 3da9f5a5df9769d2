// A preset is a row of a table: one choice for each stage. What differs between strategies stands here and nowhere
// else.

#include "equipoise/planner/presets.h"

#include <string>

#include "equipoise/base/errors.h"

namespace equipoise {

Stages preset(Strategy strategy) {
  switch (strategy) {
    case Strategy::plain: return {};
    case Strategy::allgather: return {.sharding = ShardingRule::document_zigzag};
    case Strategy::ulysses: return {.sharding = ShardingRule::contiguous, .tiling = TilingRule::ulysses};
    case Strategy::fixed: return {.packing = PackingRule::whole};
    case Strategy::libra:
      return {.placement = PlacementRule::longest_first,
              .sharding = ShardingRule::contiguous,
              .tiling = TilingRule::pooled};
    case Strategy::equipoise:
      return {.placement = PlacementRule::longest_first,
              .sharding = ShardingRule::contiguous,
              .tiling = TilingRule::pooled,
              .never_slower = true};
    case Strategy::wlb: break;
  }
  throw InputError("strategy '" + std::string(name(strategy)) + "' is not built yet", "field strategy",
                   "use plain, allgather, ulysses, fixed, libra or equipoise");
}

Stages stages_of(const PlanInputs& inputs) {
  const Stages stages = preset(inputs.strategy);
  const Delay& delay = inputs.delay;
  if (inputs.strategy == Strategy::equipoise && delay.max_delay_steps != 0)
    throw InputError("strategy 'equipoise' cannot hold documents for later steps yet", "field max_delay",
                     "use a max_delay of 0");
  if (inputs.strategy == Strategy::fixed && delay.repack_window_steps != 1)
    throw InputError(
        "strategy 'fixed' cannot repack " + std::to_string(delay.repack_window_steps) + " global batches yet",
        "field repack_window", "use a repack_window of 1");
  if (!delay.queue_tokens.empty())
    throw InputError("strategy '" + std::string(name(inputs.strategy)) + "' has no outlier queues", "field queues",
                     "leave queues out");
  return stages;
}

}  // namespace equipoise
