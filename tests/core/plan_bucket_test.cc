#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/planner.h"
#include "equipoise/sharding/sharding.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// The bucket with everything at home, on the same shards.
BucketPlan everything_home(const PlanInputs& inputs, const BucketPlan& plan) {
  BucketPlan home = plan;
  home.layers.clear();
  for (const Mask& mask : inputs.masks) {
    const auto work = attention_work(plan.sequences, plan.shardings, {}, inputs.heads, inputs.mesh.cp);
    home.layers.push_back(
        {{}, plan_exchange(plan.sequences, plan.shardings, work, mask, inputs.heads, inputs.mesh.cp)});
  }
  return home;
}

TEST(PlanBucket, HoldsWhatTheStagesOfThePresetDecide) {
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(1000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomPlan plan = random_plan(seed);
    const Strategy strategy = plan.inputs.strategy;
    for (const BucketPlan& bucket : plan.buckets) {
      ASSERT_EQ(bucket.layers.size(), plan.inputs.masks.size());
      ASSERT_EQ(bucket.sequences.size(), static_cast<size_t>(plan.inputs.pool));
      for (size_t r = 0; r < bucket.sequences.size(); ++r)
        ASSERT_EQ(bucket.sequences[r], plan.step.sequences[bucket.bucket.sequences[r].value]);
      for (size_t m = 0; m < bucket.layers.size(); ++m) {
        const LayerPlan& layer = bucket.layers[m];
        const bool no_tiles = strategy == Strategy::plain || strategy == Strategy::allgather ||
                              (strategy == Strategy::ulysses && plan.inputs.mesh.cp == 1);
        ASSERT_TRUE(!no_tiles || layer.tiles.empty());
        const auto work =
            attention_work(bucket.sequences, bucket.shardings, layer.tiles, plan.inputs.heads, plan.inputs.mesh.cp);
        ASSERT_EQ(layer.exchange, plan_exchange(bucket.sequences, bucket.shardings, work, plan.inputs.masks[m],
                                                plan.inputs.heads, plan.inputs.mesh.cp));
      }
    }
  }
}

TEST(PlanBucket, IsTheSameWhenPlannedAgain) {
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(500); ++seed) {
    const RandomPlan first = random_plan(seed);
    const RandomPlan second = random_plan(seed);
    ASSERT_EQ(first.buckets, second.buckets) << "seed " << seed;
  }
}

TEST(PlanBucket, OfEquipoiseIsNeverPredictedSlowerThanStayingHome) {
  int64_t moved = 0;
  int64_t stayed = 0;
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(2000); ++seed) {
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.strategy = Strategy::equipoise;
    StepPlan step;
    Bucket bucket{.micro_step = 0, .pool = 0, .sequences = {}};
    for (int64_t r = 0; r < inputs.pool; ++r) {
      step.sequences.push_back(random_sequence(rng, inputs.limits.window_tokens));
      bucket.sequences.push_back(SeqId{r});
    }
    const BucketPlan plan = plan_bucket(inputs, step, bucket);
    const BucketPlan home = everything_home(inputs, plan);
    ASSERT_LE(bucket_time(inputs, plan).total(), bucket_time(inputs, home).total()) << "seed " << seed;
    inputs.strategy = Strategy::libra;
    const BucketPlan trusting = plan_bucket(inputs, step, bucket);
    ASSERT_LE(bucket_time(inputs, plan).total(), bucket_time(inputs, trusting).total()) << "seed " << seed;
    for (size_t m = 0; m < plan.layers.size(); ++m) {
      const bool stays = plan.layers[m].tiles.empty();
      moved += stays ? 0 : 1;
      stayed += stays && !trusting.layers[m].tiles.empty() ? 1 : 0;
    }
  }
  EXPECT_GT(moved, random_runs(500));
  EXPECT_GT(stayed, random_runs(100)) << "an exchange does not always pay";
}

TEST(PlanBucket, OfEquipoiseIsNeverPredictedSlowerThanTheSameSequencesUnderPlainOrAllgather) {
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(1500); ++seed) {
    const RandomPlan plan = random_plan(seed);
    const bool capped = plan.inputs.limits.exchange_bytes != no_limit;
    if (plan.inputs.strategy != Strategy::equipoise || plan.inputs.mesh.cp == 1 || capped) continue;
    for (const BucketPlan& bucket : plan.buckets) {
      for (const Strategy strategy : {Strategy::plain, Strategy::allgather}) {
        PlanInputs other = plan.inputs;
        other.strategy = strategy;
        other.delay.max_delay_steps = 0;
        const BucketPlan rival = plan_bucket(other, plan.step, bucket.bucket);
        ASSERT_LE(bucket_time(plan.inputs, bucket).total(), bucket_time(other, rival).total()) << "seed " << seed;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, random_runs(50));
}

PlanInputs two_replicas(Strategy strategy) {
  PlanInputs inputs;
  inputs.strategy = strategy;
  inputs.mesh = {.dp = 2, .pp = 1, .cp = 2};
  inputs.pool = 2;
  inputs.heads = {8, 4, 64};
  inputs.cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  return inputs;
}

TEST(PlanBucket, SaysHowManyBytesAMemberMustHoldWhereTheCapIsTooSmall) {
  // All-gather cannot choose: each rank of the first replica needs keys of the other one.
  PlanInputs inputs = two_replicas(Strategy::allgather);
  StepPlan step;
  step.sequences = {{{{DocId{0}, 0, 1024}}}, {}};
  const Bucket bucket{0, 0, {SeqId{0}, SeqId{1}}};
  const BucketPlan plan = plan_bucket(inputs, step, bucket);
  inputs.limits.exchange_bytes = most_held_bytes(inputs, plan);
  EXPECT_EQ(plan_bucket(inputs, step, bucket), plan);
  --inputs.limits.exchange_bytes;
  try {
    plan_bucket(inputs, step, bucket);
    FAIL();
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("exchange_bytes " + std::to_string(inputs.limits.exchange_bytes)), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(inputs.limits.exchange_bytes + 1) + " bytes"), std::string::npos) << text;
  }
}

TEST(PlanBucket, KeepsWorkAtHomeRatherThanPassTheCap) {
  PlanInputs inputs = two_replicas(Strategy::libra);
  inputs.mesh = {.dp = 2};
  inputs.limits.exchange_bytes = 2 * 65536 * 4 * 64 * 4;  // sums of dk, dv of the document
  StepPlan step;
  step.sequences = {{{{DocId{0}, 0, 65536}}}, {}};
  const Bucket bucket{0, 0, {SeqId{0}, SeqId{1}}};
  EXPECT_TRUE(plan_bucket(inputs, step, bucket).layers[0].tiles.empty());
  inputs.limits.exchange_bytes = no_limit;
  EXPECT_FALSE(plan_bucket(inputs, step, bucket).layers[0].tiles.empty());
}

TEST(PlanBucket, GivesTheSmallestTilesBackWhereTheirNumberIsLimited) {
  PlanInputs inputs = two_replicas(Strategy::libra);
  inputs.mesh = {.dp = 4};
  inputs.pool = 4;
  StepPlan step;
  step.sequences = {{{{DocId{0}, 0, 65536}, {DocId{1}, 0, 30000}}}, {{{DocId{2}, 0, 60000}}}, {}, {}};
  const Bucket bucket{0, 0, {SeqId{0}, SeqId{1}, SeqId{2}, SeqId{3}}};
  const std::vector<Tile> all = plan_bucket(inputs, step, bucket).layers[0].tiles;
  inputs.limits.max_tiles = 1;
  const std::vector<Tile> few = plan_bucket(inputs, step, bucket).layers[0].tiles;
  EXPECT_LT(few.size(), all.size());
  EXPECT_GT(few.size(), 1U);
  std::set<MemberId> members;
  for (const Tile& tile : few) EXPECT_TRUE(members.insert(tile.member).second) << "one each";
  inputs = two_replicas(Strategy::ulysses);
  inputs.limits.max_tiles = 1;
  try {
    plan_bucket(inputs, step, {0, 0, {SeqId{0}, SeqId{1}}});
    FAIL() << "heads cannot be split otherwise";
  } catch (const InputError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("max_tiles 1 is too small, micro-step 0, pool 0"))
        << error.what();
  }
}

TEST(PlanBucket, CutsMessagesOfMoreRowsThanAreAllowed) {
  PlanInputs inputs = two_replicas(Strategy::libra);
  StepPlan step;
  step.sequences = {{{{DocId{0}, 0, 65536}}}, {}};
  const Bucket bucket{0, 0, {SeqId{0}, SeqId{1}}};
  const Exchange whole = plan_bucket(inputs, step, bucket).layers[0].exchange;
  inputs.limits.max_message_rows = 1000;
  const Exchange cut = plan_bucket(inputs, step, bucket).layers[0].exchange;
  const auto cells = [](const std::vector<Message>& messages) {
    int64_t sum = 0;
    for (const Message& message : messages) sum += message.block.length_tokens * message.block.heads;
    return sum;
  };
  for (const auto list : {&Exchange::queries, &Exchange::keys}) {
    EXPECT_GT((cut.*list).size(), (whole.*list).size());
    EXPECT_EQ(cells(cut.*list), cells(whole.*list));
    EXPECT_TRUE(std::is_sorted((cut.*list).begin(), (cut.*list).end()));
    for (const Message& message : cut.*list) EXPECT_LE(message.block.length_tokens, 1000);
  }
}

TEST(PlanBucket, UsesTheSpeedsOfItsOwnPool) {
  PlanInputs inputs = two_replicas(Strategy::libra);
  inputs.mesh = {.dp = 4};
  inputs.speeds_ppt = {1000, 1000, 500, 1000};
  StepPlan step;
  for (int64_t s = 0; s < 4; ++s) step.sequences.push_back({{{DocId{s}, 0, 65536}}});
  EXPECT_TRUE(plan_bucket(inputs, step, {0, 0, {SeqId{0}, SeqId{1}}}).layers[0].tiles.empty());
  const auto tiles = plan_bucket(inputs, step, {0, 1, {SeqId{2}, SeqId{3}}}).layers[0].tiles;
  ASSERT_FALSE(tiles.empty());
  for (const Tile& tile : tiles) EXPECT_EQ(tile.member, MemberId{1}) << "the fast rank takes";
}

TEST(CaseA8, DocumentsThatAreWholeOnTheirRankNeedNoExchange) {
  for (const Strategy strategy : {Strategy::libra, Strategy::equipoise}) {
    PlanInputs inputs = two_replicas(strategy);
    inputs.mesh = {.dp = 8};
    inputs.pool = 8;
    StepPlan step;
    Bucket bucket;
    bucket.pool = 0;
    for (int64_t s = 0; s < 8; ++s) {
      step.sequences.push_back({{{DocId{s}, 0, 1000}}});
      bucket.sequences.push_back(SeqId{s});
    }
    const Exchange exchange = plan_bucket(inputs, step, bucket).layers[0].exchange;
    EXPECT_TRUE(exchange.keys.empty());
    EXPECT_TRUE(exchange.queries.empty());
  }
}

}  // namespace
}  // namespace equipoise
