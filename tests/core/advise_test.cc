#include "equipoise/study/advise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/study/planned_step.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

constexpr int64_t all_steps = 1000;

/// Four replicas, windows of 8 tokens; one kernel tile takes 1 us, and links are as fast as the defaults.
PlanInputs small_inputs(int64_t pool) {
  PlanInputs inputs;
  inputs.mesh.dp = 4;
  inputs.pool = pool;
  inputs.limits.window_tokens = 8;
  inputs.limits.max_tokens = 8;
  inputs.cost.attention.tile_rows = 1;
  inputs.cost.attention.tile_keys = 1;
  inputs.cost.attention.tile_ps = {{0, 1'000'000}};
  inputs.cost.linear.token_ps = {{0, 1'000'000}};
  return inputs;
}

PoolMeasures measure(const PlanInputs& inputs, const std::vector<int64_t>& lengths, int64_t most_steps = all_steps) {
  return measure_pool(inputs, make_corpus(lengths, inputs.arrival), most_steps);
}

PoolChoice choose(const std::vector<int64_t>& token_ps) {
  std::vector<PoolMeasures> sizes;
  for (const int64_t time : token_ps) sizes.push_back({.token_ps = time});
  return choose_pool(sizes);
}

int64_t chance(const PlanInputs& inputs, const std::vector<int64_t>& lengths) {
  return measure(inputs, lengths).chance_ppm;
}

TEST(Advise, PoolsDivideTheReplicas) {
  EXPECT_EQ(pool_sizes(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(pool_sizes(7), (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(pool_sizes(12), (std::vector<int64_t>{1, 2, 3, 4, 6, 12}));
}

TEST(Advise, TheFastestSizeIsChosenUnlessASmallerOneIsWithinOneInAHundred) {
  EXPECT_EQ(choose({10'000, 9'495, 9'400, 9'600}), (PoolChoice{2, 2}));
  EXPECT_EQ(choose({10'000, 9'494, 9'400, 9'600}), (PoolChoice{2, 1}));
  EXPECT_EQ(choose({9'450, 9'494, 9'400}), (PoolChoice{2, 0})) << "the smallest of them";
  EXPECT_EQ(choose({9'400, 9'400}), (PoolChoice{0, 0}));
  EXPECT_EQ(choose({0, 0}), (PoolChoice{0, 0})) << "steps without a token";
}

TEST(Advise, WorkVariesByItsStandardDeviationOverItsMean) {
  EXPECT_EQ(variation_ppm(std::vector<int64_t>{1, 3}), 500'000);
  EXPECT_EQ(variation_ppm(std::vector<int64_t>{0, 0, 0, 8}), 1'732'050) << "the root of 3";
  EXPECT_EQ(variation_ppm(std::vector<int64_t>{5, 5, 5}), 0);
  EXPECT_EQ(variation_ppm(std::vector<int64_t>{0, 0}), 0);
  EXPECT_EQ(variation_ppm(std::vector<int64_t>{}), 0);
  std::vector<int64_t> one_of_many(100'000, 0);
  one_of_many.back() = int64_t{1} << 60;
  EXPECT_EQ(variation_ppm(one_of_many), 316'226'184) << "the root of 99999, in millionths";
}

TEST(Advise, ChanceFollowsItsFormula) {
  EXPECT_EQ(chance_imbalance_ppm(1'000'000, 1, 2), 2'177'409) << "1 + sqrt(2 ln 2), a logarithm rounded down";
  EXPECT_EQ(chance_imbalance_ppm(534'000, 8, 1), 1'000'000) << "one pool has what there is";
  for (const int64_t pools : {2, 3, 5, 16, 17, 255, 4096, 1 << 24})
    for (const int64_t sequences : {1, 8, 100}) {
      const double spread = std::sqrt(2 * std::log(static_cast<double>(pools)) / static_cast<double>(sequences));
      EXPECT_NEAR(static_cast<double>(chance_imbalance_ppm(534'000, sequences, pools)), 1e6 * (1 + 0.534 * spread), 2)
          << pools << " pools of " << sequences;
    }
}

TEST(Advise, WhatChanceLevelsIsAllThatAPoolRunsBetweenTwoWaits) {
  PlanInputs inputs = small_inputs(2);
  inputs.micro_steps = 4;
  const std::vector<int64_t> lengths = {8, 1, 7, 4, 4, 8, 2, 6, 8, 8, 3, 5, 8, 8, 1, 7, 8, 8};
  const PoolMeasures by_step = measure(inputs, lengths, 1);
  inputs.dp_sync = DpSync::micro_step;
  const PoolMeasures by_micro_step = measure(inputs, lengths, 1);
  EXPECT_GT(by_step.variation_ppm, 0);
  EXPECT_EQ(by_step.chance_ppm, chance_imbalance_ppm(by_step.variation_ppm, 8, 2));
  EXPECT_EQ(by_micro_step.chance_ppm, chance_imbalance_ppm(by_step.variation_ppm, 2, 2));
}

TEST(Advise, OnePoolOfAllReplicasWaitsForNone) {
  const std::vector<int64_t> lengths = {8, 1, 7, 4, 4, 2, 2, 2, 2};
  EXPECT_EQ(measure(small_inputs(4), lengths).imbalance_ppm, ppm_one);
  EXPECT_EQ(chance(small_inputs(4), lengths), ppm_one);
  EXPECT_GT(measure(small_inputs(1), lengths).imbalance_ppm, ppm_one);
  EXPECT_GT(chance(small_inputs(1), lengths), ppm_one);
}

TEST(Advise, ReplicasByThemselvesExchangeNothing) {
  const PoolMeasures alone = measure(small_inputs(1), {8, 1, 7, 4, 4, 2, 2, 2, 2});
  EXPECT_EQ(alone.mean_sent_bytes, 0);
  EXPECT_EQ(alone.max_sent_bytes, 0);
  EXPECT_EQ(alone.held_bytes, 2 * 64) << "only sums of gradients of 8 rows, in float";
  EXPECT_EQ(alone.exchange_ns, 0);
  EXPECT_GT(alone.token_ps, 0);
}

TEST(Advise, TheLastStepIsLeftOutUnlessThereIsNoOther) {
  const std::vector<int64_t> full(8, 8);  // two steps; the second leaves nothing
  const PoolMeasures first = measure(small_inputs(2), full);
  EXPECT_EQ(first.steps, 1);
  EXPECT_EQ(first.tokens, 32);
  const PoolMeasures only = measure(small_inputs(2), {8, 1});
  EXPECT_EQ(only.steps, 1);
  EXPECT_EQ(only.tokens, 9);
  EXPECT_EQ(measure(small_inputs(2), {}).steps, 0);
  EXPECT_EQ(measure(small_inputs(2), full, 0).steps, 0);
}

TEST(Advise, APoolLeavesItsNodeWhereItsRanksAreInSeveral) {
  PlanInputs inputs = small_inputs(4);
  inputs.mesh = {.dp = 8, .cp = 2};
  EXPECT_FALSE(measure(inputs, {8}).leaves_node) << "8 ranks in a node of 8";
  inputs.mesh.tp = 2;
  EXPECT_TRUE(measure(inputs, {8}).leaves_node) << "16 ranks";
  inputs.mesh.tp = 1;
  inputs.mesh.ranks_per_node = 6;
  EXPECT_TRUE(measure(inputs, {8}).leaves_node);
  inputs.pool = 2;
  EXPECT_TRUE(measure(inputs, {8}).leaves_node) << "4 ranks, but the second pool has 4..7";
}

TEST(Advise, MeasuresAreThoseOfThePlannedSteps) {
  SplitMix64 rng(5);
  for (int64_t instance = 0; instance < 30; ++instance) {
    PlanInputs inputs = random_inputs(rng);
    inputs.strategy = instance % 2 == 0 ? Strategy::libra : Strategy::equipoise;
    inputs.delay = {};
    inputs.limits.exchange_bytes = no_limit;
    const Corpus corpus = make_corpus(random_lengths(rng, inputs), inputs.arrival);
    const PoolMeasures found = measure_pool(inputs, corpus, 1);
    if (corpus.documents.empty()) continue;
    const PlannedStep planned = plan_all_buckets(inputs, corpus, {});
    int64_t held = 0;
    for (const BucketPlan& bucket : planned.buckets) held = std::max(held, most_held_bytes(inputs, bucket));
    EXPECT_EQ(found.held_bytes, held);
    EXPECT_TRUE(found.held_bytes > 0 || found.max_sent_bytes == 0);
    EXPECT_EQ(found.imbalance_ppm, planned.step.pools.imbalance_ppm);
    EXPECT_EQ(found.mean_sent_bytes, planned.summary.mean_sent_bytes);
    EXPECT_EQ(found.max_sent_bytes, planned.summary.max_sent_bytes);
    EXPECT_EQ(found.exchange_ns, planned.summary.exchange_ns);
    EXPECT_EQ(found.step_ns, planned.summary.step_ns);
  }
}

TEST(Advise, StepsAreAveragedAndTheirTokensSummed) {
  const PlanInputs inputs = small_inputs(2);
  const std::vector<int64_t> lengths = {8, 1, 7, 4, 4, 2, 2, 2, 2, 8, 8, 3, 5, 1, 7, 8, 8, 8, 8};
  const Corpus corpus = make_corpus(lengths, inputs.arrival);
  const PlannedStep first = plan_all_buckets(inputs, corpus, {});
  const PlannedStep second = plan_all_buckets(inputs, corpus, first.step.state_after);
  const PoolMeasures both = measure_pool(inputs, corpus, 2);
  EXPECT_EQ(both.steps, 2);
  EXPECT_EQ(both.tokens, 64);
  const int64_t time = first.summary.step_ns + second.summary.step_ns;
  EXPECT_EQ(both.step_ns, time / 2);
  EXPECT_EQ(both.token_ps, time * 1000 / 64);
  EXPECT_EQ(both.imbalance_ppm, (first.step.pools.imbalance_ppm + second.step.pools.imbalance_ppm) / 2);
  EXPECT_EQ(both.max_sent_bytes, std::max(first.summary.max_sent_bytes, second.summary.max_sent_bytes));
}

TEST(Advise, AStrategyWithoutPoolsIsRefused) {
  PlanInputs inputs = small_inputs(2);
  inputs.strategy = Strategy::plain;
  EXPECT_THROW(measure(inputs, {8}), InputError);
}

}  // namespace
}  // namespace equipoise
