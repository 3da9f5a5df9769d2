#include "equipoise/study/compare.h"

#include <gtest/gtest.h>

#include <numeric>

#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/study/planned_step.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// Two replicas. A sequence takes 2000 ns for each pair and 3000 ns for each token, so a document of L tokens takes
/// 1000 * L * (L + 4): 5000 for 1, 12000 for 2, 32000 for 4, 96000 for 8.
PlanInputs small_inputs() {
  PlanInputs inputs;
  inputs.strategy = Strategy::plain;
  inputs.mesh.dp = 2;
  inputs.limits.window_tokens = 8;
  inputs.limits.max_tokens = 8;
  inputs.cost.attention.tile_rows = 1;
  inputs.cost.attention.tile_keys = 1;
  inputs.cost.attention.tile_ps = {{0, 1'000'000}};
  inputs.cost.linear.token_ps = {{0, 1'000'000}};
  return inputs;
}

/// A step of these sequences, one on each replica.
StepPlan step_of(const PlanInputs& inputs, int64_t index, std::vector<Sequence> sequences) {
  StepPlan step;
  step.step = index;
  step.sequences = std::move(sequences);
  for (int64_t s = 0; s < inputs.sequences(); ++s) step.slots.push_back({s / inputs.mesh.dp, s % inputs.mesh.dp});
  step.buckets = make_buckets(step.slots, inputs.mesh.dp, inputs.pool);
  return step;
}

std::vector<StepMeasures> measure_all(const PlanInputs& inputs, const Corpus& corpus, int64_t most = 1000) {
  std::vector<StepMeasures> steps;
  PackerState state;
  while (!is_finished(corpus, state) && state.step < most) {
    StepPlan step = plan_step(inputs, corpus, state);
    steps.push_back(measure_step(inputs, corpus, state, step));
    state = std::move(step.state_after);
  }
  return steps;
}

StepMeasures balance_of(int64_t heaviest, int64_t total, int64_t bound) {
  StepMeasures step;
  step.sequences = 2;
  step.heaviest_ns = heaviest;
  step.total_ns = total;
  step.bound_ns = bound;
  return step;
}

TEST(Compare, AStepIsMeasuredByThePredictedTimeOfItsSequences) {
  const PlanInputs inputs = small_inputs();
  const Corpus corpus = make_corpus(std::vector<int64_t>{4, 1, 2, 2, 9}, inputs.arrival);
  StepPlan step = step_of(inputs, 0, {{{{DocId{0}, 0, 4}, {DocId{1}, 0, 1}}}, {{{DocId{2}, 0, 2}, {DocId{3}, 0, 2}}}});
  step.arrived = {0, 4};
  step.state_after.position = 4;
  const StepMeasures measures = measure_step(inputs, corpus, {}, step);
  EXPECT_FALSE(measures.ending);
  EXPECT_EQ(measures.documents, 4);
  EXPECT_EQ(measures.sequences, 2);
  EXPECT_EQ(measures.heaviest_ns, 32'000 + 5'000);
  EXPECT_EQ(measures.total_ns, 37'000 + 24'000);
  EXPECT_EQ(measures.bound_ns, 32'000) << "the document of 4 alone, above the mean of 30500";
  EXPECT_EQ(measures.tokens, 9);
  EXPECT_EQ(measures.delays, (std::vector<DelayCount>{{0, 9}}));
  EXPECT_EQ(measures.step_ns, 37'000) << "replicas wait for the slower one";
  EXPECT_EQ(measures.max_sent_bytes, 0);
}

TEST(Compare, TheMeanBoundsTheHeaviestSequenceRoundedUp) {
  PlanInputs inputs = small_inputs();
  inputs.cost.linear.token_ps = {{0, 0}};
  inputs.cost.attention.tile_ps = {{0, 1'000}};
  inputs.cost.attention.backward_ppm = {{0, 0}};  // 1 ns a document of one token
  const Corpus corpus = make_corpus(std::vector<int64_t>{1, 1, 1}, inputs.arrival);
  const StepPlan step = step_of(inputs, 0, {{{{DocId{0}, 0, 1}, {DocId{1}, 0, 1}}}, {{{DocId{2}, 0, 1}}}});
  const StepMeasures measures = measure_step(inputs, corpus, {}, step);
  EXPECT_EQ(measures.total_ns, 3);
  EXPECT_EQ(measures.bound_ns, 2);
}

TEST(Compare, APieceIsDelayedSinceTheArrivalOfItsDocument) {
  const PlanInputs inputs = small_inputs();
  const Corpus corpus = make_corpus(std::vector<int64_t>{20, 3, 2, 5}, inputs.arrival);
  PackerState before{.step = 4, .position = 3, .arrived_tokens = 25, .held = {}};
  before.held = {{DocId{2}, 0, 2, 2, -1}, {DocId{0}, 16, 4, 1, -1}, {DocId{0}, 8, 8, 1, -1}, {DocId{1}, 0, 3, 3, -1}};
  // From the held piece [8, 16) of document 0 a middle and an end; all of 2; of 3, which arrives, the first 2.
  StepPlan step =
      step_of(inputs, 4, {{{{DocId{0}, 10, 4}, {DocId{0}, 14, 2}}}, {{{DocId{2}, 0, 2}, {DocId{3}, 0, 2}}}});
  step.arrived = {3, 4};
  step.state_after = {.step = 5, .position = 4, .arrived_tokens = 30, .held = {}};
  step.state_after.held = {{DocId{1}, 0, 3, 3, -1}, {DocId{0}, 16, 4, 1, -1}, {DocId{3}, 2, 3, 4, -1}};
  const StepMeasures measures = measure_step(inputs, corpus, before, step);
  EXPECT_EQ(measures.delays, (std::vector<DelayCount>{{0, 2}, {2, 2}, {3, 6}}));
  EXPECT_EQ(measures.held_tokens, 10);
  EXPECT_EQ(measures.held_steps, 4) << "of the piece since step 1, if step 5 trains it";
  EXPECT_TRUE(measures.ending) << "the last document has arrived";
}

TEST(Compare, TheRestOfASplitDocumentIsDelayedAndTheFirstPiecesAreNot) {
  const PlanInputs inputs = small_inputs();
  const auto steps = measure_all(inputs, make_corpus(std::vector<int64_t>{20, 12, 7}, inputs.arrival));
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].delays, (std::vector<DelayCount>{{0, 16}}));
  EXPECT_EQ(steps[0].held_tokens, 4);
  EXPECT_EQ(steps[0].held_steps, 1);
  EXPECT_EQ(steps[1].delays, (std::vector<DelayCount>{{0, 12}, {1, 4}}));
  EXPECT_EQ(steps[2].delays, (std::vector<DelayCount>{{0, 7}}));
  const RunMeasures run = measure_run(steps);
  EXPECT_EQ(run.tokens, 32);
  EXPECT_EQ(run.delayed_tokens, 4);
  EXPECT_EQ(run.mean_delay_ppm, 125'000);
  EXPECT_EQ(run.worst_delay_steps, 1);
  EXPECT_EQ(run.delays, (std::vector<DelayCount>{{0, 28}, {1, 4}}));
}

TEST(Compare, WeightedImbalanceIsTheTimeLostAndNotTheMeanOfRatios) {
  // 1.5 in a step of 40, 1.2 in one of 100: their mean is 1.35, and 2 * (30 + 60) / 140 is lost.
  const RunMeasures run = measure_run(std::vector{balance_of(30, 40, 24), balance_of(60, 100, 50)});
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(run.imbalance_ppm, 1'350'000);
  EXPECT_EQ(run.weighted_imbalance_ppm, 1'285'714);
  EXPECT_EQ(run.bound_ppm, 1'100'000) << "1.2 and 1";
  EXPECT_EQ(run.gap_ppm, 250'000) << "0.3 and 0.2";
}

TEST(Compare, NineteenOfTwentyStepsDoNotExceedTheP95) {
  std::vector<StepMeasures> steps;
  for (int64_t i = 0; i < 20; ++i) steps.push_back(balance_of(100 + (i * 7) % 20, 200, 100));
  EXPECT_EQ(measure_run(steps).imbalance_p95_ppm, 1'180'000);
  steps.push_back(balance_of(119, 200, 100));
  EXPECT_EQ(measure_run(steps).imbalance_p95_ppm, 1'190'000) << "now 2 of 21 are above 1.18";
}

TEST(Compare, StepsThatOnlyEndTheCorpusAreCountedApart) {
  std::vector<StepMeasures> steps = {balance_of(30, 40, 20), balance_of(40, 40, 40), balance_of(40, 40, 40)};
  steps[0].delays = {{0, 10}};
  steps[1].delays = {{0, 3}, {2, 4}};
  steps[2].delays = {{9, 5}};
  for (size_t s = 0; s < steps.size(); ++s) {
    steps[s].ending = s > 0;
    steps[s].tokens = std::vector<int64_t>{10, 7, 5}[s];
    steps[s].documents = 1;
    steps[s].step_ns = 50;
    steps[s].dropped_tokens = 1;
    steps[s].truncated_tokens = 2;
  }
  const RunMeasures run = measure_run(steps);
  EXPECT_EQ(run.steps, 1);
  EXPECT_EQ(run.imbalance_ppm, 1'500'000);
  EXPECT_EQ(run.tokens, 10);
  EXPECT_EQ(run.mean_delay_ppm, 0);
  EXPECT_EQ(run.time_ns, 50);
  EXPECT_EQ(run.token_ps, 5'000);
  EXPECT_EQ(run.token_work_ps, 4'000);
  EXPECT_EQ(run.ending_steps, 2);
  EXPECT_EQ(run.ending_tokens, 12);
  EXPECT_EQ(run.worst_delay_steps, 9) << "nobody who waited is left out";
  EXPECT_EQ(run.documents, 3);
  EXPECT_EQ(run.truncated_tokens, 6);
  EXPECT_EQ(run.dropped_tokens, 3);
}

TEST(Compare, ACorpusThatEndsAtOnceIsMeasuredOnItsEnd) {
  const PlanInputs inputs = small_inputs();
  const auto steps = measure_all(inputs, make_corpus(std::vector<int64_t>{8, 1, 1}, inputs.arrival));
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_TRUE(steps[0].ending);
  const RunMeasures run = measure_run(steps);
  EXPECT_EQ(run.steps, 1);
  EXPECT_EQ(run.tokens, 10);
  EXPECT_EQ(run.ending_steps, 0);
  EXPECT_EQ(run.ending_tokens, 0);
}

TEST(Compare, WhatIsStillHeldCountsAmongTheWorst) {
  std::vector<StepMeasures> steps = {balance_of(20, 40, 20), balance_of(20, 40, 20)};
  steps[0].delays = {{2, 10}};
  steps[0].held_steps = 7;  // trained later, and seen there
  steps[1].held_steps = 5;
  steps[1].held_tokens = 6;
  EXPECT_EQ(measure_run(steps).worst_delay_steps, 5);
  EXPECT_EQ(measure_run(steps).held_tokens, 6);
}

TEST(Compare, NoStepsAndStepsWithoutWorkAreMeasuredAsNothing) {
  EXPECT_EQ(measure_run({}).steps, 0);
  EXPECT_EQ(measure_run({}).imbalance_ppm, ppm_one);
  const RunMeasures idle = measure_run(std::vector{balance_of(0, 0, 0)});
  EXPECT_EQ(idle.imbalance_ppm, 1'000'000);
  EXPECT_EQ(idle.weighted_imbalance_ppm, 1'000'000);
  EXPECT_EQ(idle.gap_ppm, 0);
  EXPECT_EQ(idle.token_ps, 0);
  EXPECT_EQ(speed_up_ppm(idle, idle), 1'000'000);
}

TEST(Compare, SpeedUpIsOfTheTimeOfAToken) {
  RunMeasures first;
  first.token_ps = 300;
  RunMeasures other;
  other.token_ps = 200;
  EXPECT_EQ(speed_up_ppm(first, first), 1'000'000);
  EXPECT_EQ(speed_up_ppm(first, other), 1'500'000);
}

TEST(Compare, BytesAreMeansOfStepsAndTheMostOfAny) {
  std::vector<StepMeasures> steps = {balance_of(1, 1, 1), balance_of(1, 1, 1)};
  steps[0].mean_sent_bytes = 10;
  steps[0].max_sent_bytes = 40;
  steps[1].mean_sent_bytes = 20;
  steps[1].max_sent_bytes = 30;
  EXPECT_EQ(measure_run(steps).mean_sent_bytes, 15);
  EXPECT_EQ(measure_run(steps).max_sent_bytes, 40);
}

TEST(Compare, TimeAndBytesAreThoseOfThePlannedStep) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RandomPlan plan = random_plan(seed);
    const StepMeasures measures = measure_step(plan.inputs, plan.corpus, plan.before, plan.step);
    const StepSummary summary = summarize(plan.inputs, plan.step, plan.buckets);
    EXPECT_EQ(measures.step_ns, summary.step_ns) << seed;
    EXPECT_EQ(measures.tokens, summary.tokens) << seed;
    EXPECT_EQ(measures.mean_sent_bytes, summary.mean_sent_bytes) << seed;
    EXPECT_EQ(measures.max_sent_bytes, summary.max_sent_bytes) << seed;
  }
}

/// Strategies with and without delay, of windows that some documents pass.
std::vector<PlanInputs> all_strategies(SplitMix64& rng) {
  PlanInputs inputs = small_inputs();
  inputs.micro_steps = random_between(rng, 1, 2);
  inputs.limits = {.window_tokens = 16, .max_tokens = random_between(rng, 16, 24)};
  inputs.arrival.overlong = static_cast<Overlong>(random_between(rng, 1, 3));
  std::vector<PlanInputs> all(4, inputs);
  all[1].strategy = Strategy::fixed;
  all[1].delay.repack_window_steps = random_between(rng, 1, 3);
  all[2].strategy = Strategy::wlb;
  all[2].delay = {.max_delay_steps = no_bound, .queue_tokens = {8, 12}};
  all[3].strategy = Strategy::equipoise;
  all[3].delay.max_delay_steps = random_between(rng, 1, 3);
  return all;
}

TEST(Compare, EveryTokenIsTrainedHeldOrNamedAndNoneIsEarly) {
  SplitMix64 rng{7};
  for (int64_t round = 0; round < 60; ++round) {
    std::vector<int64_t> lengths(static_cast<size_t>(random_between(rng, 1, 60)));
    for (int64_t& length : lengths) length = random_between(rng, 0, 5) == 0 ? random_between(rng, 0, 40) : 3;
    for (const PlanInputs& inputs : all_strategies(rng)) {
      const auto steps = measure_all(inputs, make_corpus(lengths, inputs.arrival), random_between(rng, 1, 12));
      const RunMeasures run = measure_run(steps);
      const auto arrived = lengths.begin() + run.documents;
      EXPECT_EQ(run.tokens + run.ending_tokens + run.held_tokens + run.truncated_tokens + run.dropped_tokens,
                std::accumulate(lengths.begin(), arrived, int64_t{0}));
      for (const StepMeasures& step : steps) {
        int64_t trained = 0;
        for (const DelayCount& delay : step.delays) trained += delay.tokens;
        EXPECT_EQ(trained, step.tokens);
        EXPECT_GE(step.heaviest_ns, step.bound_ns);
        for (const DelayCount& delay : step.delays) EXPECT_GE(delay.steps, 0);
      }
      EXPECT_GE(run.imbalance_ppm, run.bound_ppm);
      if (inputs.strategy == Strategy::equipoise) {
        EXPECT_LE(run.worst_delay_steps, inputs.delay.max_delay_steps);
      }
    }
  }
}

}  // namespace
}  // namespace equipoise
