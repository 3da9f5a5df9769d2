// Random buckets of every strategy, mask and limit: planned, checked by verify/, turned into programs, checked again,
// and run in memory, forward and backward, against dense attention in doubles. EQUIPOISE_SWEEP=100000 sweeps as many
// buckets, EQUIPOISE_SWEEP_SEED=7 others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"
#include "equipoise/exchange/loopback.h"
#include "equipoise/exchange/program.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/study/planned_step.h"
#include "equipoise/verify/verify.h"
#include "tests/core/dense_attention.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

constexpr double scale = 0.4;

struct Instance {
  PlanInputs inputs;
  Corpus corpus;
};

/// Inputs like those of all property tests, but smaller, with more micro-steps and any effort.
Instance random_instance(uint64_t seed) {
  SplitMix64 rng{seed};
  Instance instance{.inputs = random_inputs(rng), .corpus = {}};
  PlanInputs& inputs = instance.inputs;
  inputs.effort = efforts[random_between(rng, 0, 2)];
  inputs.micro_steps = random_between(rng, 1, 3);
  Limits& limits = inputs.limits;
  limits.window_tokens = random_between(rng, 4, 60);
  limits.align_tokens = std::min(limits.align_tokens, limits.window_tokens);
  limits.max_tokens = default_max_tokens(limits.window_tokens, inputs.mesh, limits.align_tokens);
  inputs.heads.query = inputs.heads.kv * random_between(rng, 1, 3);
  inputs.heads.size = random_between(rng, 1, 4);
  instance.corpus = make_corpus(random_lengths(rng, inputs), inputs.arrival);
  return instance;
}

/// Sometimes a cap between nothing and what the step holds without one, on rows of messages, or on tiles.
void set_limits(SplitMix64& rng, const Instance& instance, PlanInputs& inputs) {
  Limits& limits = inputs.limits;
  if (random_between(rng, 0, 3) == 0) limits.max_message_rows = std::max(random_between(rng, 1, 20), inputs.grid());
  if (random_between(rng, 0, 3) == 0) limits.max_tiles = random_between(rng, 1, 4);
  if (random_between(rng, 0, 2) > 0) return;
  int64_t most = 0;
  for (const BucketPlan& bucket : plan_all_buckets(inputs, instance.corpus, {}).buckets)
    most = std::max(most, most_held_bytes(inputs, bucket));
  limits.exchange_bytes = random_between(rng, 0, most);
}

std::string describe(const PlanInputs& inputs, const Corpus& corpus) {
  std::string text;
  for (const auto& [field, value] : input_fields(inputs)) text += field + "=" + value + " ";
  text += "lengths";
  for (const Document& document : corpus.documents) text += " " + std::to_string(document.length_tokens);
  return text;
}

std::string first_of(const Violations& found) {
  return found.empty() ? "" : found[0].rule + ", " + found[0].where + ": " + found[0].what;
}

struct Counts {
  int64_t buckets = 0;
  int64_t tiles = 0;
  int64_t layers = 0;   ///< masks of buckets that were run
  int64_t rounds = 0;   ///< of these, such with more than one round away from home
  int64_t limited = 0;  ///< buckets planned under a cap
  int64_t refused = 0;  ///< steps whose cap is too small
  std::map<Strategy, int64_t> by_strategy;
};

double largest_difference(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask,
                          std::span<const RankProgram> programs) {
  auto dense = random_tensors(bucket.sequences, inputs.heads, static_cast<uint64_t>(mask));
  for (size_t r = 0; r < dense.size(); ++r)
    dense_attention(bucket.sequences[r], inputs.masks[mask], inputs.heads, scale, dense[r]);
  auto members = deal_tensors(inputs, bucket, dense);
  loopback_forward(programs, scale, members);
  loopback_backward(programs, scale, members);
  return compare_tensors(inputs, bucket, dense, members).any();
}

void run_bucket(const PlanInputs& inputs, const BucketPlan& bucket, int64_t step, Counts& counts) {
  for (int64_t mask = 0; mask < std::ssize(inputs.masks); ++mask) {
    std::vector<RankProgram> programs;
    for (int64_t m = 0; m < inputs.members(); ++m)
      programs.push_back(make_rank_program(inputs, bucket, mask, MemberId{m}, step));
    ASSERT_EQ(first_of(check_bucket_programs(inputs, bucket, mask, programs)), "") << "mask " << mask;
    ASSERT_LT(largest_difference(inputs, bucket, mask, programs), 1e-9) << "mask " << mask;
    counts.tiles += std::ssize(bucket.layers[mask].tiles);
    counts.rounds += bucket.layers[mask].exchange.rounds > 2 ? 1 : 0;
    ++counts.layers;
  }
}

void sweep(uint64_t seed, Counts& counts) {
  const Instance instance = random_instance(seed);
  PlanInputs inputs = instance.inputs;
  SCOPED_TRACE("instance " + std::to_string(seed) + ", " + describe(inputs, instance.corpus));
  SplitMix64 rng{~seed};
  PlannedStep planned;
  try {
    set_limits(rng, instance, inputs);
    planned = plan_all_buckets(inputs, instance.corpus, {});
  } catch (const InputError& error) {
    const std::string text = error.what();
    ASSERT_TRUE(text.starts_with("exchange_bytes ") || text.starts_with("max_tiles ")) << text;
    ++counts.refused;
    return;
  }
  SCOPED_TRACE("exchange_bytes " + std::to_string(inputs.limits.exchange_bytes) + ", max_tiles " +
               std::to_string(inputs.limits.max_tiles) + ", max_message_rows " +
               std::to_string(inputs.limits.max_message_rows));
  ASSERT_EQ(first_of(verify_step(inputs, {}, planned.step, planned.buckets)), "");
  for (const BucketPlan& bucket : planned.buckets) {
    run_bucket(inputs, bucket, planned.step.step, counts);
    if (testing::Test::HasFatalFailure()) return;
    counts.limited += inputs.limits.exchange_bytes < no_limit ? 1 : 0;
    ++counts.buckets;
    ++counts.by_strategy[inputs.strategy];
  }
}

int64_t number_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

TEST(BucketSweep, EveryRandomBucketIsValidAndComputesAttention) {
  const int64_t wanted = number_of("EQUIPOISE_SWEEP", random_runs<int64_t>(1000));
  const auto first = static_cast<uint64_t>(number_of("EQUIPOISE_SWEEP_SEED", 0)) << 32;
  Counts counts;
  for (uint64_t seed = first; counts.buckets < wanted; ++seed) {
    sweep(seed, counts);
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%ld buckets, %ld masks of them, %ld tiles, %ld in several rounds; %ld under a cap, %ld steps refused\n",
              counts.buckets, counts.layers, counts.tiles, counts.rounds, counts.limited, counts.refused);
  EXPECT_GT(counts.tiles, wanted);
  EXPECT_GT(counts.limited, wanted / 20);
  for (const auto& [strategy, buckets] : counts.by_strategy) EXPECT_GT(buckets, wanted / 20) << name(strategy);
}

}  // namespace
}  // namespace equipoise
