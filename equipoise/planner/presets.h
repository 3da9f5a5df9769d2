#pragma once

#include "equipoise/model/plan_inputs.h"

namespace equipoise {

enum class PackingRule { plain, fixed, wlb, look_ahead };
enum class PlacementRule { as_it_comes, longest_first };
enum class TilingRule { owner, ulysses, pooled };

/// A rule for all sequences, or how to choose one: better_zigzag is the faster predicted of the two for a whole bucket,
/// adaptive the fastest for each sequence.
enum class ShardingChoice { sequence_zigzag, document_zigzag, contiguous, better_zigzag, adaptive };

/// One choice for each stage.
struct Stages {
  PackingRule packing = PackingRule::plain;
  PlacementRule placement = PlacementRule::as_it_comes;
  ShardingChoice sharding = ShardingChoice::sequence_zigzag;
  TilingRule tiling = TilingRule::owner;
  bool never_slower =
      false;  ///< a bucket stays at home, under the fastest shards, where its tiles are predicted slower
};

/// Options that only some strategies have.
struct StrategyOptions {
  bool pool = false;  ///< replicas share attention; without it, the pool only groups them
  bool max_delay = false;
  bool repack_window = false;
  bool queues = false;
};

StrategyOptions options_of(Strategy strategy);

/// The stages that inputs ask for: the preset of their strategy, with its options.
/// Errors: InputError for an option that the strategy does not have (a delay, a repack window, queues, whole groups of
/// heads for invariant sums).
Stages stages_of(const PlanInputs& inputs);

/// How long the strategy holds documents unless told: no_bound for wlb, 0 for all others.
int64_t default_max_delay(Strategy strategy);

}  // namespace equipoise
