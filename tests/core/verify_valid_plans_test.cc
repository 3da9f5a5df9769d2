#include <gtest/gtest.h>

#include <map>

#include "equipoise/exchange/program.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/verify/verify.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

std::string first_of(const Violations& found) {
  return found.empty() ? "" : found[0].rule + ", " + found[0].where + ": " + found[0].what;
}

Violations check_programs(const PlanInputs& inputs, const StepPlan& step, const BucketPlan& bucket) {
  Violations found;
  for (int64_t mask = 0; mask < std::ssize(inputs.masks); ++mask) {
    std::vector<RankProgram> programs;
    for (int64_t member = 0; member < inputs.members(); ++member)
      programs.push_back(make_rank_program(inputs, bucket, mask, MemberId{member}, step.step));
    for (Violation& violation : check_bucket_programs(inputs, bucket, mask, programs))
      found.push_back(std::move(violation));
  }
  return found;
}

TEST(ValidPlans, NoCheckerSpeaksOfARandomPlanOfAnyPreset) {
  std::map<Strategy, int64_t> plans;
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(2400); ++seed) {
    const RandomPlan plan = random_plan(seed);
    ASSERT_EQ(first_of(verify_step(plan.inputs, plan.before, plan.step, plan.buckets)), "") << "seed " << seed;
    for (const BucketPlan& bucket : plan.buckets)
      ASSERT_EQ(first_of(check_programs(plan.inputs, plan.step, bucket)), "") << "seed " << seed;
    ++plans[plan.inputs.strategy];
  }
  for (const Strategy strategy :
       {Strategy::plain, Strategy::allgather, Strategy::ulysses, Strategy::libra, Strategy::equipoise})
    EXPECT_GT(plans[strategy], random_runs(200)) << name(strategy);
}

TEST(ValidPlans, NoCheckerSpeaksOfARandomPlanWithTilesThatFollowNoRule) {
  int64_t tiles = 0;
  for (uint64_t seed = 10000; seed < 10000 + random_runs<uint64_t>(1000); ++seed) {
    const RandomPlan plan = random_plan(seed, true);
    ASSERT_EQ(first_of(verify_step(plan.inputs, plan.before, plan.step, plan.buckets)), "") << "seed " << seed;
    for (const BucketPlan& bucket : plan.buckets) {
      ASSERT_EQ(first_of(check_programs(plan.inputs, plan.step, bucket)), "") << "seed " << seed;
      for (const LayerPlan& layer : bucket.layers) tiles += std::ssize(layer.tiles);
    }
  }
  EXPECT_GT(tiles, random_runs(10'000));
}

TEST(ValidPlans, NoCheckerSpeaksOfARunOfThePresetThatHoldsDocuments) {
  int64_t held = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.strategy = Strategy::fixed;
    inputs.delay.repack_window_steps = random_between(rng, 1, 3);
    std::vector<int64_t> lengths;
    for (int64_t part = 0; part < 3; ++part)
      for (const int64_t length : random_lengths(rng, inputs)) lengths.push_back(length);
    const Corpus corpus = make_corpus(lengths, inputs.arrival);
    for (PackerState state; !is_finished(corpus, state);) {
      const StepPlan step = plan_step(inputs, corpus, state);
      std::vector<BucketPlan> buckets;
      for (const Bucket& bucket : step.buckets) buckets.push_back(plan_bucket(inputs, step, bucket));
      ASSERT_EQ(first_of(verify_step(inputs, state, step, buckets)), "") << "seed " << seed << ", step " << step.step;
      state = step.state_after;
      held += std::ssize(state.held);
    }
  }
  EXPECT_GT(held, 100);
}

}  // namespace
}  // namespace equipoise
