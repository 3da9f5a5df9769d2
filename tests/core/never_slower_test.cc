// Moving attention must pay for its exchange: with slow links, middling ones and random ones, no step of `equipoise` is
// predicted slower than the same step without what was moved.
#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/study/compare.h"
#include "equipoise/study/planned_step.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

PlanInputs cluster(int64_t dp, int64_t cp, int64_t micro_steps, DpSync dp_sync) {
  PlanInputs inputs;
  inputs.mesh = {.dp = dp, .pp = 1, .cp = cp};
  inputs.pool = dp;
  inputs.micro_steps = micro_steps;
  inputs.dp_sync = dp_sync;
  inputs.heads = {32, 8, 128};
  inputs.limits.window_tokens = inputs.limits.max_tokens = 32768;
  inputs.cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  inputs.masks = {Mask{.layers = inputs.cost.layers}};
  return inputs;
}

/// Enough documents for one step and more: some fill a window or half of one, most are short.
Corpus corpus_with_giants(const PlanInputs& inputs, uint64_t seed) {
  SplitMix64 rng{seed};
  std::vector<int64_t> lengths;
  int64_t tokens = 0;
  while (tokens < inputs.sequences() * inputs.limits.window_tokens * 5 / 4) {
    const bool giant = random_between(rng, 0, 30) == 0;
    lengths.push_back(giant ? inputs.limits.window_tokens / random_between(rng, 1, 2) : random_between(rng, 1, 3000));
    tokens += lengths.back();
  }
  return make_corpus(lengths, inputs.arrival);
}

PlannedStep plan_as(Strategy strategy, PlanInputs inputs, const Corpus& corpus) {
  inputs.strategy = strategy;
  return plan_all_buckets(inputs, corpus, {});
}

int64_t step_ns(const PlanInputs& inputs, std::span<const BucketPlan> buckets) {
  std::vector<std::vector<PassTime>> times;
  for (const BucketPlan& bucket : buckets) times.push_back(replica_times(inputs, bucket));
  return step_time_ns(inputs.dp_sync, times, inputs.mesh.dp / inputs.pool);
}

std::vector<BucketPlan> all_home(const PlanInputs& inputs, const std::vector<BucketPlan>& buckets) {
  std::vector<BucketPlan> home;
  for (const BucketPlan& bucket : buckets) home.push_back(stay_home(inputs, bucket));
  return home;
}

/// Whether attention of one replica is computed by another.
bool shares(const PlanInputs& inputs, const BucketPlan& bucket) {
  for (const LayerPlan& layer : bucket.layers)
    for (const Tile& tile : layer.tiles)
      if (tile.member.value / inputs.mesh.cp != tile.replica_in_pool) return true;
  return false;
}

int64_t count_sharing(const PlanInputs& inputs, const std::vector<BucketPlan>& buckets) {
  return std::count_if(buckets.begin(), buckets.end(), [&](const BucketPlan& b) { return shares(inputs, b); });
}

constexpr DpSync both[] = {DpSync::step, DpSync::micro_step};

TEST(NeverSlower, NothingMovesOverALinkThatIsSoSlowThatItCannotPay) {
  for (const DpSync dp_sync : both)
    for (const int64_t ranks_per_node : {1, 8}) {
      PlanInputs inputs = cluster(8, 1, 1, dp_sync);
      inputs.mesh.ranks_per_node = ranks_per_node;
      LinkCost& link = ranks_per_node == 1 ? inputs.cost.network : inputs.cost.node;
      std::vector<int64_t> lengths(8 * 64, 512);
      lengths.front() = inputs.limits.window_tokens;
      const Corpus corpus = make_corpus(lengths, inputs.arrival);
      EXPECT_GT(count_sharing(inputs, plan_as(Strategy::equipoise, inputs, corpus).buckets), 0) << "with h100's link";
      link.kilobyte_ps *= 1000;
      const PlannedStep ours = plan_as(Strategy::equipoise, inputs, corpus);
      for (const BucketPlan& bucket : ours.buckets) EXPECT_TRUE(bucket.layers[0].tiles.empty());
      EXPECT_LE(ours.summary.step_ns, plan_as(Strategy::plain, inputs, corpus).summary.step_ns);
      EXPECT_LT(ours.summary.step_ns, plan_as(Strategy::libra, inputs, corpus).summary.step_ns);
    }
}

TEST(NeverSlower, NodesThatCannotShareArePlannedAsPoolsOfOne) {
  PlanInputs inputs = cluster(4, 4, 1, DpSync::step);
  inputs.mesh.ranks_per_node = 4;  // a replica each
  inputs.cost.network.kilobyte_ps *= 1000;
  const Corpus corpus = corpus_with_giants(inputs, 2);
  const PlannedStep ours = plan_as(Strategy::equipoise, inputs, corpus);
  EXPECT_EQ(count_sharing(inputs, ours.buckets), 0);
  inputs.pool = 1;
  EXPECT_EQ(ours.summary.step_ns, plan_as(Strategy::equipoise, inputs, corpus).summary.step_ns);
}

TEST(NeverSlower, WithAMiddlingLinkSomeBucketsShareAndOthersStayHome) {
  int64_t sharing = 0;
  int64_t buckets = 0;
  for (const DpSync dp_sync : both)
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(seed);
      PlanInputs inputs = cluster(4, 1, 4, dp_sync);
      inputs.cost.node.kilobyte_ps *= 4;
      const Corpus corpus = corpus_with_giants(inputs, seed);
      const PlannedStep ours = plan_as(Strategy::equipoise, inputs, corpus);
      const auto home = all_home(inputs, ours.buckets);
      for (size_t b = 0; b < home.size(); ++b)
        EXPECT_LE(bucket_time(inputs, ours.buckets[b]).total(), bucket_time(inputs, home[b]).total());
      EXPECT_LE(ours.summary.step_ns, step_ns(inputs, home));
      EXPECT_LE(ours.summary.step_ns, plan_as(Strategy::libra, inputs, corpus).summary.step_ns);
      EXPECT_LE(ours.summary.step_ns, plan_as(Strategy::plain, inputs, corpus).summary.step_ns);
      sharing += count_sharing(inputs, ours.buckets);
      buckets += std::ssize(ours.buckets);
    }
  EXPECT_GT(sharing, buckets / 10);
  EXPECT_LT(sharing, buckets * 9 / 10);
}

/// Predicted time of a trained token over a whole run.
int64_t token_ps(Strategy strategy, PlanInputs inputs, const Corpus& corpus) {
  inputs.strategy = strategy;
  std::vector<StepMeasures> steps;
  PackerState state;
  while (!is_finished(corpus, state)) {
    const StepPlan step = plan_step(inputs, corpus, state);
    steps.push_back(measure_step(inputs, corpus, state, step));
    state = step.state_after;
  }
  return measure_run(steps).token_ps;
}

/// `libra` promises something else, and cuts documents where sequences end: its tokens see fewer keys.
TEST(NeverSlower, ARunThatMayWaitTrainsATokenNoSlowerThanWlbWithTheSamePromise) {
  for (const DpSync dp_sync : both)
    for (const int64_t cp : {1, 2})
      for (uint64_t seed = 0; seed < 3; ++seed) {
        SCOPED_TRACE(std::to_string(cp) + " ranks, seed " + std::to_string(seed));
        PlanInputs inputs = cluster(4, cp, 2, dp_sync);
        inputs.limits.max_tokens = 49152;
        inputs.delay.max_delay_steps = 3;
        inputs.effort = Effort::fast;
        std::vector<int64_t> lengths;
        for (uint64_t part = 0; part < 8; ++part)
          for (const Document& document : corpus_with_giants(inputs, 8 * seed + part).documents)
            lengths.push_back(document.length_tokens);
        const Corpus corpus = make_corpus(lengths, inputs.arrival);
        EXPECT_LE(token_ps(Strategy::equipoise, inputs, corpus), token_ps(Strategy::wlb, inputs, corpus));
      }
}

/// Against `plain`, whose slots are others, and which shards otherwise, nothing is promised: placement levels predicted
/// sums of whole sequences, not what each shard of them takes.
TEST(NeverSlower, AStepIsNoSlowerThanTheSameSlotsAtHomeInSmallerPoolsOrUnderLibra) {
  int64_t faster = 0;
  int64_t slower_than_libra = 0;
  int64_t slower_than_plain = 0;
  const auto trials = random_runs<uint64_t>(150);
  for (uint64_t seed = 0; seed < trials; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.micro_steps = random_between(rng, 1, 4);
    inputs.strategy = Strategy::equipoise;
    const Corpus corpus = make_corpus(random_lengths(rng, inputs), inputs.arrival);
    const PlannedStep ours = plan_all_buckets(inputs, corpus, {});
    const int64_t now = ours.summary.step_ns;
    ASSERT_LE(now, step_ns(inputs, all_home(inputs, ours.buckets)));
    PlanInputs smaller = inputs;
    while (smaller.pool > 1) {
      smaller.pool = smaller.pool % 2 == 0 ? smaller.pool / 2 : 1;
      StepPlan step = ours.step;
      step.buckets = make_buckets(step.slots, inputs.mesh.dp, smaller.pool);
      ASSERT_LE(now, step_ns(smaller, plan_buckets(smaller, step))) << "in pools of " << smaller.pool;
    }
    PlanInputs libra = inputs;
    libra.strategy = Strategy::libra;
    ASSERT_LE(now, step_ns(libra, plan_buckets(libra, ours.step)));
    slower_than_libra += now > plan_as(Strategy::libra, inputs, corpus).summary.step_ns;
    const int64_t plain = plan_as(Strategy::plain, inputs, corpus).summary.step_ns;
    slower_than_plain += now > plain;
    faster += now < plain;
  }
  EXPECT_EQ(slower_than_libra, 0);
  EXPECT_LE(slower_than_plain, 2);
  EXPECT_GT(faster, trials / 2);
}

/// Several buckets of one pool, whose sum counts: each may gain by sharing, and all together lose.
TEST(NeverSlower, MicroStepsTogetherAreNoSlowerThanAtHomeOrUnderLibra) {
  for (uint64_t seed = 814; seed < 814 + random_runs<uint64_t>(90); ++seed) {
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.strategy = Strategy::equipoise;
    inputs.pool = random_between(rng, 2, 4);
    inputs.mesh = {.dp = inputs.pool, .pp = 1, .cp = random_between(rng, 2, 3)};
    inputs.micro_steps = random_between(rng, 2, 3);
    inputs.dp_sync = DpSync::step;
    inputs.speeds_ppt.clear();
    inputs.limits = {.window_tokens = inputs.limits.window_tokens, .max_tokens = inputs.limits.window_tokens};
    const Corpus corpus = make_corpus(random_lengths(rng, inputs), inputs.arrival);
    const PlannedStep ours = plan_all_buckets(inputs, corpus, {});
    EXPECT_LE(ours.summary.step_ns, step_ns(inputs, all_home(inputs, ours.buckets))) << "seed " << seed;
    PlanInputs libra = inputs;
    libra.strategy = Strategy::libra;
    EXPECT_LE(ours.summary.step_ns, step_ns(libra, plan_buckets(libra, ours.step))) << "seed " << seed;
  }
}

TEST(NeverSlower, WithInvariantSumsAndASlidingWindowAPoolIsNoSlowerThanItsReplicas) {
  PlanInputs inputs = cluster(2, 4, 1, DpSync::step);
  inputs.limits.window_tokens = inputs.limits.max_tokens = 131072;
  inputs.gradient_sum = GradientSum::invariant;
  inputs.masks = {Mask{.kind = MaskKind::sliding_window, .window_tokens = 512, .layers = inputs.cost.layers}};
  inputs.mesh.ranks_per_node = 4;
  inputs.effort = Effort::fast;
  std::vector<int64_t> lengths(130, 1024);
  lengths[0] = lengths[1] = 65536;
  const Corpus corpus = make_corpus(lengths, inputs.arrival);
  const PlannedStep ours = plan_as(Strategy::equipoise, inputs, corpus);
  PlanInputs single = inputs;
  single.pool = 1;
  EXPECT_LE(ours.summary.step_ns, plan_as(Strategy::equipoise, single, corpus).summary.step_ns);
}

}  // namespace
}  // namespace equipoise
