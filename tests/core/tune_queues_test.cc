#include "equipoise/packing/tune_queues.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/packing/arrival.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// Attention in single pairs beside a linear part: one token costs as much as 256 pairs.
PlanInputs tuned_inputs() {
  PlanInputs inputs;
  inputs.strategy = Strategy::wlb;
  inputs.micro_steps = 4;
  inputs.limits.window_tokens = 4096;
  inputs.limits.max_tokens = 6144;
  inputs.delay.max_delay_steps = no_bound;
  inputs.cost.attention.tile_rows = 1;
  inputs.cost.attention.tile_keys = 1;
  inputs.cost.attention.tile_ps = {{0, 1'000}};
  inputs.cost.linear.token_ps = {{0, 256'000}};
  return inputs;
}

/// Mostly short documents; one in forty is at least half a window.
std::vector<int64_t> heavy_tail(int64_t documents) {
  SplitMix64 rng{7};
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < documents; ++i)
    lengths.push_back(random_between(rng, 0, 39) == 0 ? random_between(rng, 2048, 4000) : random_between(rng, 10, 300));
  return lengths;
}

TunedQueues tune(const PlanInputs& inputs, const std::vector<int64_t>& lengths, const QueueGoal& goal = {}) {
  return tune_queues(inputs, make_corpus(lengths, inputs.arrival), goal);
}

TEST(TuneQueues, OutliersGetQueuesThatLevelTheSteps) {
  const TunedQueues tuned = tune(tuned_inputs(), heavy_tail(8'000));
  EXPECT_EQ(tuned.steps, 80);
  EXPECT_FALSE(tuned.best.queue_tokens.empty());
  EXPECT_LE(tuned.best.mean_delay_ppm, 500'000);
  EXPECT_EQ(tuned.frontier.front().queue_tokens, std::vector<int64_t>{});  // no queue waits least and levels least
  const int64_t lost_without_ppm = tuned.frontier.front().weighted_imbalance_ppm - ppm_one;
  EXPECT_GT(lost_without_ppm, ppm_one / 5);
  EXPECT_LT(2 * (tuned.best.weighted_imbalance_ppm - ppm_one), lost_without_ppm);
}

TEST(TuneQueues, TheFrontierTradesDelayForBalance) {
  const TunedQueues tuned = tune(tuned_inputs(), heavy_tail(8'000));
  ASSERT_GT(tuned.frontier.size(), 3u);
  for (size_t i = 1; i < tuned.frontier.size(); ++i) {
    EXPECT_GT(tuned.frontier[i].mean_delay_ppm, tuned.frontier[i - 1].mean_delay_ppm);
    EXPECT_LT(tuned.frontier[i].weighted_imbalance_ppm, tuned.frontier[i - 1].weighted_imbalance_ppm);
  }
  EXPECT_EQ(std::count(tuned.frontier.begin(), tuned.frontier.end(), tuned.best), 1);
  for (const QueueTrial& trial : tuned.frontier)
    if (trial.mean_delay_ppm <= 500'000) {
      EXPECT_GE(trial.weighted_imbalance_ppm + 1'000, tuned.best.weighted_imbalance_ppm);
    }
}

TEST(TuneQueues, MorePatienceIsNeverWorse) {
  const auto lengths = heavy_tail(8'000);
  int64_t last = 2 * ppm_one;
  for (const int64_t delay_ppm : {0, 200'000, 500'000, 1'000'000}) {
    const TunedQueues tuned = tune(tuned_inputs(), lengths, {.mean_delay_ppm = delay_ppm});
    EXPECT_LE(tuned.best.weighted_imbalance_ppm, last + 1'000) << delay_ppm;
    last = tuned.best.weighted_imbalance_ppm;
  }
}

TEST(TuneQueues, AGoalThatNoQueueMeetsLeavesThemOut) {
  const TunedQueues tuned = tune(tuned_inputs(), heavy_tail(8'000), {.mean_delay_ppm = 1});
  EXPECT_TRUE(tuned.best.queue_tokens.empty());
  EXPECT_EQ(tuned.meets_goal, tuned.best.mean_delay_ppm <= 1);
  EXPECT_TRUE(tune(tuned_inputs(), heavy_tail(8'000)).meets_goal);
}

TEST(TuneQueues, WaitingThatLevelsNothingIsNotTaken) {
  SplitMix64 rng{1};
  std::vector<int64_t> lengths(8'000);
  for (int64_t& length : lengths) length = random_between(rng, 100, 600);  // like documents: every step is level
  const TunedQueues tuned = tune(tuned_inputs(), lengths);
  EXPECT_TRUE(tuned.best.queue_tokens.empty());
  EXPECT_GT(tuned.trials, 1);
}

TEST(TuneQueues, ACorpusWithoutLongDocumentsNeedsNoQueue) {
  const TunedQueues tuned = tune(tuned_inputs(), std::vector<int64_t>(4'000, 100));
  EXPECT_TRUE(tuned.best.queue_tokens.empty());
  EXPECT_EQ(tuned.trials, 1);
}

TEST(TuneQueues, AShortOrEmptyCorpusIsNoError) {
  EXPECT_TRUE(tune(tuned_inputs(), {}).best.queue_tokens.empty());
  EXPECT_EQ(tune(tuned_inputs(), {}).steps, 0);
  EXPECT_LE(tune(tuned_inputs(), heavy_tail(600)).steps, 10);
}

TEST(TuneQueues, AsManyQueuesAsAllowed) {
  const QueueGoal one{.mean_delay_ppm = 2'000'000, .most_queues = 1};
  const TunedQueues tuned = tune(tuned_inputs(), heavy_tail(8'000), one);
  for (const QueueTrial& trial : tuned.frontier) EXPECT_LE(trial.queue_tokens.size(), 1u);
}

}  // namespace
}  // namespace equipoise
