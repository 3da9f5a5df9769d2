// Look-ahead and pools together: buckets are levelled, their sequences hold the same tokens, and where links are slow
// sequences are levelled instead.
#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/packing/packing.h"
#include "equipoise/planner/planner.h"
#include "equipoise/study/compare.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// Four replicas in one pool; attention in tiles of 64 x 64 beside a linear part. `kilobyte_ps` is the price of the
/// link.
PlanInputs pooled_inputs(Strategy strategy, int64_t max_delay, int64_t kilobyte_ps) {
  PlanInputs inputs;
  inputs.strategy = strategy;
  inputs.mesh.dp = 4;
  inputs.pool = strategy == Strategy::wlb ? 1 : 4;
  inputs.heads = {8, 4, 64};
  inputs.limits.window_tokens = 4096;
  inputs.limits.max_tokens = 6144;
  inputs.delay.max_delay_steps = max_delay;
  if (strategy == Strategy::wlb) inputs.delay.queue_tokens = {1024, 2560};
  inputs.cost.attention.tile_rows = 64;
  inputs.cost.attention.tile_keys = 64;
  inputs.cost.attention.tile_ps = {{0, 500'000}};
  inputs.cost.linear.token_ps = {{0, 400'000}};
  inputs.cost.node = {1'000, kilobyte_ps};
  return inputs;
}

/// Mostly short documents; one in twenty is at least half a window.
Corpus heavy_tail(uint64_t seed) {
  SplitMix64 rng{seed};
  std::vector<int64_t> lengths(3'000);
  for (int64_t& length : lengths)
    length = random_between(rng, 0, 19) == 0 ? random_between(rng, 2048, 4096) : random_between(rng, 10, 400);
  return make_corpus(lengths, {});
}

/// Predicted time of a run over the time of its work on level ranks.
double lost(const PlanInputs& inputs, const Corpus& corpus) {
  double lasts = 0;
  double work = 0;
  for (PackerState state; !is_finished(corpus, state);) {
    StepPlan step = plan_step(inputs, corpus, state);
    const StepMeasures measures = measure_step(inputs, corpus, state, step);
    if (!measures.ending) {
      lasts += static_cast<double>(measures.step_ns) * static_cast<double>(measures.sequences);
      work += static_cast<double>(measures.total_ns);
    }
    state = std::move(step.state_after);
  }
  return lasts / work;
}

constexpr int64_t fast_link = 1'000;
constexpr int64_t slow_link = 10'000'000;

TEST(LookAheadForPools, TwoStepsOfDelayLoseLessThanEitherPaperAlone) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    const Corpus corpus = heavy_tail(seed);
    const double both = lost(pooled_inputs(Strategy::equipoise, 2, fast_link), corpus);
    EXPECT_LT(both, lost(pooled_inputs(Strategy::wlb, 2, fast_link), corpus));
    EXPECT_LT(both, lost(pooled_inputs(Strategy::libra, 0, fast_link), corpus));
    PlanInputs alone = pooled_inputs(Strategy::equipoise, 2, fast_link);
    alone.pool = 1;
    EXPECT_LT(both, lost(alone, corpus));
  }
}

TEST(LookAheadForPools, WhereLinksAreSlowSequencesAreLevelledAsWithoutPools) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    const Corpus corpus = heavy_tail(seed);
    const double both = lost(pooled_inputs(Strategy::equipoise, 2, slow_link), corpus);
    PlanInputs alone = pooled_inputs(Strategy::equipoise, 2, slow_link);
    alone.pool = 1;
    EXPECT_LE(both, lost(alone, corpus) * 1.001);
    EXPECT_LT(both, lost(pooled_inputs(Strategy::wlb, 2, slow_link), corpus));
    EXPECT_LT(both, lost(pooled_inputs(Strategy::libra, 0, slow_link), corpus));
  }
}

TEST(LookAheadForPools, SequencesOfABucketHoldAboutTheSameTokensAndBucketsTakeTheSameTime) {
  PlanInputs inputs = pooled_inputs(Strategy::equipoise, 4, fast_link);
  inputs.mesh.dp = 8;
  const Corpus corpus = heavy_tail(1);
  for (PackerState state; state.step < 8;) {
    const PackedStep step = pack_look_ahead(inputs, corpus, state, 4);
    ASSERT_TRUE(step.violations.empty());
    std::vector<int64_t> times;
    for (size_t first = 0; first < 8; first += 4) {
      int64_t tokens = 0;
      int64_t longest = 0;  // a document longer than its fair part of the tokens decides
      times.push_back(0);
      for (size_t s = first; s < first + 4; ++s) {
        tokens += step.sequences[s].tokens();
        for (const Segment& segment : step.sequences[s].segments) {
          longest = std::max(longest, segment.length_tokens);
          times.back() += document_time_ns(inputs, segment.length_tokens);
        }
      }
      for (size_t s = first; s < first + 4; ++s)
        EXPECT_LE(step.sequences[s].tokens(), std::max(longest, 105 * tokens / 400));
    }
    EXPECT_LE(100 * std::max(times[0], times[1]), 102 * std::min(times[0], times[1]));
    state = step.after;
  }
}

TEST(LookAheadForPools, TheBoundHoldsForBucketsToo) {
  PlanInputs inputs = pooled_inputs(Strategy::equipoise, 2, fast_link);
  inputs.limits.max_tokens = 4096;
  SplitMix64 rng{9};
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<int64_t> lengths(200);
    for (int64_t& length : lengths) length = random_between(rng, 0, 3) == 0 ? 4096 : random_between(rng, 1, 2100);
    const Corpus corpus = make_corpus(lengths, {});
    for (PackerState state; !is_finished(corpus, state);) {
      const PackedStep step = pack_look_ahead(inputs, corpus, state, 4);
      ASSERT_TRUE(step.violations.empty());
      for (const Sequence& sequence : step.sequences) ASSERT_LE(sequence.tokens(), 4096);
      for (const Held& held : step.after.held) ASSERT_LE(step.after.step - held.since_step, 2);
      state = step.after;
    }
  }
}

}  // namespace
}  // namespace equipoise
