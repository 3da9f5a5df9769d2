#include "equipoise/study/inspect.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

PlanInputs small_inputs() {
  PlanInputs inputs;
  inputs.mesh.dp = 2;
  inputs.limits.window_tokens = 8;
  inputs.limits.max_tokens = 8;
  inputs.cost.attention.tile_rows = 1;
  inputs.cost.attention.tile_keys = 1;
  inputs.cost.attention.tile_ps = {{0, 1'000'000}};
  return inputs;
}

Inspection inspect(const PlanInputs& inputs, const std::vector<int64_t>& lengths) {
  return inspect_corpus(inputs, make_corpus(lengths, inputs.arrival), 1000);
}

TEST(Inspect, NoDocumentsAreNothingToCount) {
  Inspection nothing;
  EXPECT_EQ(inspect(small_inputs(), {}), nothing);
}

TEST(Inspect, DocumentsAreCountedByPowersOfTwo) {
  const Inspection result = inspect(small_inputs(), {0, 1, 2, 3, 4, 7, 8});
  EXPECT_EQ(result.documents, 7);
  EXPECT_EQ(result.empty_documents, 1);
  EXPECT_EQ(result.tokens, 25);
  EXPECT_EQ(result.mean_tokens, 3);
  ASSERT_EQ(result.bins.size(), 5U);
  EXPECT_EQ(result.bins[0], (LengthBin{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(result.bins[2].least_tokens, 2);
  EXPECT_EQ(result.bins[2].most_tokens, 3);
  EXPECT_EQ(result.bins[2].documents, 2);
  EXPECT_EQ(result.bins[2].tokens, 5);
  EXPECT_EQ(result.bins[4].least_tokens, 8);
}

TEST(Inspect, WorkGrowsWithTheSquareOfALength) {
  // 1 + 1 pairs against 4 * 5 / 2 = 10.
  const Inspection result = inspect(small_inputs(), {1, 1, 4});
  EXPECT_EQ(result.bins.front().tokens_ppm, 333'333);
  EXPECT_EQ(result.bins.front().work_ppm, 166'666);
  EXPECT_EQ(result.bins.back().work_ppm, 833'333);
}

TEST(Inspect, EachMaskCountsWithItsLayers) {
  PlanInputs inputs = small_inputs();
  inputs.masks = {{MaskKind::causal, 0, 3}, {MaskKind::sliding_window, 1, 2}};
  inputs.cost.layers = 5;
  // Length 1: 3 * 1 + 2 * 1 = 5. Length 4: 3 * 10 + 2 * 4 = 38.
  EXPECT_EQ(inspect(inputs, {1, 4}).bins.back().work_ppm, 38 * 1'000'000 / 43);
}

TEST(Inspect, AnOverlongDocumentWorksAsItsPiecesOfOneWindow) {
  // 20 tokens in windows of 8: 36 + 36 + 10 pairs; beside it 8 tokens: 36.
  const Inspection result = inspect(small_inputs(), {20, 8});
  EXPECT_EQ(result.overlong_documents, 1);
  EXPECT_EQ(result.overlong_tokens, 20);
  EXPECT_EQ(result.bins.back().work_ppm, 82 * int64_t{1'000'000} / 118);
}

TEST(Inspect, AQuantileIsTheShortestLengthThatEnoughDocumentsDoNotExceed) {
  std::vector<int64_t> lengths;
  for (int64_t i = 1; i <= 1000; ++i) lengths.push_back((i * 7919) % 1009);
  std::vector<int64_t> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  for (const Quantile& quantile : inspect(small_inputs(), lengths).quantiles) {
    const size_t rank = static_cast<size_t>(std::max<int64_t>(1, quantile.thousandths));
    EXPECT_EQ(quantile.length_tokens, sorted[rank - 1]) << quantile.thousandths;
  }
}

TEST(Inspect, TheImbalanceIsThatOfTheStepsThatPlainPackingMakes) {
  // One document of 8 beside eight of 1: 36 against 8 pairs, heaviest over mean 72 / 44.
  const Inspection result = inspect(small_inputs(), {8, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(result.steps, 1);
  EXPECT_EQ(result.micro_batches.max_ppm, result.micro_batches.mean_ppm);
  EXPECT_NEAR(static_cast<double>(result.micro_batches.max_ppm), 1e6 * 72 / 44, 1);
  EXPECT_EQ(result.pools.max_ppm, result.micro_batches.max_ppm) << "pools of 1";
}

TEST(Inspect, MeanAndMaximumAreOverAllSteps) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomPlan plan = random_plan(seed);
    PlanInputs inputs = plan.inputs;
    const Inspection result = inspect_corpus(inputs, plan.corpus, 3);
    inputs.strategy = Strategy::plain;
    inputs.delay = {};
    PackerState state;
    int64_t sum = 0;
    int64_t worst = 0;
    for (int64_t i = 0; i < result.steps; ++i) {
      const StepPlan step = plan_step(inputs, plan.corpus, state);
      sum += step.micro_batches.imbalance_ppm;
      worst = std::max(worst, step.micro_batches.imbalance_ppm);
      state = step.state_after;
    }
    ASSERT_GT(result.steps, 0) << seed;
    EXPECT_EQ(result.micro_batches.mean_ppm, sum / result.steps) << seed;
    EXPECT_EQ(result.micro_batches.max_ppm, worst) << seed;
  }
}

}  // namespace
}  // namespace equipoise
