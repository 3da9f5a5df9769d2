#pragma once

#include <vector>

#include "equipoise/base/rng.h"
#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

// Small random instances that property and mutation tests share. Everything follows from a seed: lengths that divide
// nothing, empty sequences, all masks, heads inside a group, unequal ranks, padding rows, several rounds.

namespace equipoise {

/// How often a test of random instances runs that wants `count` runs: a tenth under sanitizers, which take ten times as
/// long and look for something else.
template <class Integer>
Integer random_runs(Integer count) {
#ifdef EQUIPOISE_SANITIZE
  return count / 10;
#else
  return count;
#endif
}

/// A number in [low, high].
int64_t random_between(SplitMix64& rng, int64_t low, int64_t high);

/// Valid inputs of a tiny model: at most 8 members in a pool, windows of 16 to 128 tokens, kernel tiles of 4 to 16
/// rows. The strategy is one of those whose stages exist. Three in ten have invariant sums.
PlanInputs random_inputs(SplitMix64& rng);

/// Document lengths for one step, heavy-tailed and with some of 0; sometimes fewer documents than sequences.
std::vector<int64_t> random_lengths(SplitMix64& rng, const PlanInputs& inputs);

/// A sequence of random segments of at most `tokens` tokens, sometimes empty.
Sequence random_sequence(SplitMix64& rng, int64_t tokens);

/// A valid sharding that follows no rule: runs of random length dealt to random ranks that have room.
Sharding random_sharding(SplitMix64& rng, const Sequence& sequence, int64_t cp);

/// Valid tiles that follow no rule: each segment is cut into a random grid of rows and heads, and some cells go to
/// random members, rounds 1 to 3. Under invariant sums they hold whole cells.
std::vector<Tile> random_tiles(SplitMix64& rng, const PlanInputs& inputs, const std::vector<Sequence>& sequences,
                               const std::vector<Sharding>& shardings);

/// A bucket of random sequences, shardings and tiles with the exchange that follows from them. It belongs to no step.
BucketPlan random_bucket(SplitMix64& rng, const PlanInputs& inputs);

/// One planned step: inputs, what arrives, the step and all of its buckets.
struct RandomPlan {
  PlanInputs inputs;
  Corpus corpus;
  PackerState before;
  StepPlan step;
  std::vector<BucketPlan> buckets;
};

/// Planned by the stages of the inputs' strategy. With `wild`, tiles (and the exchange that follows) are random ones
/// instead, as valid as any.
RandomPlan random_plan(uint64_t seed, bool wild = false);

}  // namespace equipoise
