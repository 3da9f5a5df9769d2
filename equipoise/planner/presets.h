#pragma once

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/shard.h"

namespace equipoise {

enum class PackingRule { plain, whole };
enum class PlacementRule { as_it_comes, longest_first };
enum class TilingRule { owner, ulysses, pooled };

/// One choice for each stage.
struct Stages {
  PackingRule packing = PackingRule::plain;
  PlacementRule placement = PlacementRule::as_it_comes;
  ShardingRule sharding = ShardingRule::sequence_zigzag;
  TilingRule tiling = TilingRule::owner;
  bool never_slower = false;  ///< keep tiles at home in a bucket where moving them is predicted slower
};

/// The stages of a preset. Errors: InputError for one whose stages do not exist yet, naming those that do.
Stages preset(Strategy strategy);

/// The stages that inputs ask for: the preset of their strategy, with its options.
/// Errors: as preset(); InputError for an option that the strategy cannot honour yet (equipoise with a delay, fixed
/// with a longer window, queues).
Stages stages_of(const PlanInputs& inputs);

}  // namespace equipoise
