#include "equipoise/planner/pooled.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/exchange/program.h"
#include "equipoise/model/work.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/sharding/spread.h"
#include "equipoise/verify/verify.h"
#include "tests/core/dense_attention.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

std::string first_of(const Violations& found) {
  return found.empty() ? "" : found[0].rule + ", " + found[0].where + ": " + found[0].what;
}

std::vector<RankProgram> programs_of(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask) {
  std::vector<RankProgram> programs;
  for (int64_t m = 0; m < inputs.members(); ++m)
    programs.push_back(make_rank_program(inputs, bucket, mask, MemberId{m}, 0));
  return programs;
}

/// Forward and backward of a bucket's programs in memory, against dense attention.
double difference_of(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask) {
  const auto programs = programs_of(inputs, bucket, mask);
  auto dense = random_tensors(bucket.sequences, inputs.heads, 3);
  for (size_t r = 0; r < dense.size(); ++r)
    dense_attention(bucket.sequences[r], inputs.masks[mask], inputs.heads, 0.5, dense[r]);
  auto members = deal_tensors(inputs, bucket, dense);
  loopback_forward(programs, 0.5, members);
  loopback_backward(programs, 0.5, members);
  return compare_tensors(inputs, bucket, dense, members).any();
}

TEST(EveryEffort, GivesPlansThatNoCheckerSpeaksOfAndThatComputeAttention) {
  int64_t tiles = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.strategy = seed % 2 == 0 ? Strategy::libra : Strategy::equipoise;
    inputs.effort = efforts[seed % 3];
    const Corpus corpus = make_corpus(random_lengths(rng, inputs), inputs.arrival);
    const StepPlan step = plan_step(inputs, corpus, {});
    std::vector<BucketPlan> buckets;
    for (const Bucket& bucket : step.buckets) buckets.push_back(plan_bucket(inputs, step, bucket));
    ASSERT_EQ(first_of(verify_step(inputs, {}, step, buckets)), "");
    for (const BucketPlan& bucket : buckets)
      for (int64_t mask = 0; mask < std::ssize(inputs.masks); ++mask) {
        tiles += std::ssize(bucket.layers[mask].tiles);
        ASSERT_EQ(first_of(check_bucket_programs(inputs, bucket, mask, programs_of(inputs, bucket, mask))), "");
        if (seed % 5 == 0) {
          ASSERT_LT(difference_of(inputs, bucket, mask), 1e-10);
        }
      }
  }
  EXPECT_GT(tiles, 1000);
}

/// A giant that three of four ranks could hold, beside replicas of short documents.
BucketPlan giant_beside_short_ones(int64_t replicas) {
  BucketPlan plan;
  plan.sequences.resize(replicas);
  plan.sequences[0].segments = {{DocId{0}, 0, 90'000}, {DocId{1}, 0, 20'000}, {DocId{2}, 0, 21'072}};
  for (int64_t r = 1; r < replicas; ++r)
    for (int64_t i = 0; i < 64; ++i) plan.sequences[r].segments.push_back({DocId{64 * r + i}, 0, 2048});
  return plan;
}

PlanInputs one_pool(int64_t replicas, int64_t cp, Effort effort) {
  PlanInputs inputs;
  inputs.strategy = Strategy::libra;
  inputs.mesh = {.dp = replicas, .pp = 1, .cp = cp};
  inputs.pool = replicas;
  inputs.heads = {32, 4, 128};
  inputs.cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  inputs.effort = effort;
  return inputs;
}

int64_t largest_traffic(const PlanInputs& inputs, const BucketPlan& plan) {
  const auto tiles = place_pooled(inputs, plan, inputs.masks[0], inputs.effort);
  return *std::max_element(tiles.traffic_ps.begin(), tiles.traffic_ps.end());
}

TEST(SearchOwners, SpreadsAGiantWhereThatLowersTheLargestTraffic) {
  const PlanInputs inputs = one_pool(4, 4, Effort::thorough);
  BucketPlan plan = giant_beside_short_ones(4);
  BucketPlan contiguous = plan;
  for (const Sequence& sequence : plan.sequences)
    contiguous.shardings.push_back(shard_sequence(ShardingRule::contiguous, sequence, 4));
  plan.shardings = search_owners(inputs, plan);
  EXPECT_NE(plan.shardings[0], contiguous.shardings[0]);
  EXPECT_EQ(plan.shardings[1], contiguous.shardings[1]) << "nobody waits for the short ones";
  EXPECT_LT(largest_traffic(inputs, plan) * 20, largest_traffic(inputs, contiguous) * 19);
}

TEST(SearchOwners, IsContiguousWithNoEffortOrOneRank) {
  const BucketPlan plan = giant_beside_short_ones(2);
  for (const PlanInputs& inputs : {one_pool(2, 4, Effort::fast), one_pool(2, 1, Effort::thorough)}) {
    const auto owners = search_owners(inputs, plan);
    for (size_t r = 0; r < owners.size(); ++r)
      EXPECT_EQ(owners[r], shard_sequence(ShardingRule::contiguous, plan.sequences[r], inputs.mesh.cp));
  }
}

TEST(Spread, OwnsEveryTokenOnceAndEqualTokensOnAllRanks) {
  int64_t spread_out = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    const Sequence sequence = random_sequence(rng, 200);
    const int64_t cp = random_between(rng, 1, 8);
    const int64_t pairs = random_between(rng, 0, 5000);
    EXPECT_EQ(shard_spread(sequence, cp, {}, pairs), shard_sequence(ShardingRule::contiguous, sequence, cp));
    for (const SpreadRule& spread : spreads) {
      const Sharding sharding = shard_spread(sequence, cp, spread, pairs);
      std::vector<int64_t> owned(cp, 0);
      std::vector<int64_t> next(sequence.segments.size(), 0);
      for (const ShardPiece& piece : sharding.pieces) {
        ASSERT_EQ(piece.begin_tokens, next[piece.segment]);
        next[piece.segment] += piece.length_tokens;
        owned[piece.cp_rank] += piece.length_tokens;
      }
      for (size_t s = 0; s < next.size(); ++s) ASSERT_EQ(next[s], sequence.segments[s].length_tokens);
      ASSERT_LE(*std::max_element(owned.begin(), owned.end()) - *std::min_element(owned.begin(), owned.end()), 1);
      spread_out += sharding == shard_spread(sequence, cp, {}, pairs) ? 0 : 1;
    }
  }
  EXPECT_GT(spread_out, 1000);
}

/// Whole row blocks of one KV head, the cells that may change hands.
std::vector<int64_t> cells_of(const PlanInputs& inputs, const BucketPlan& plan, std::vector<int64_t>& home) {
  std::vector<int64_t> cells;
  const int64_t block = inputs.cost.attention.tile_rows;
  for (size_t r = 0; r < plan.sequences.size(); ++r)
    for (const Segment& segment : plan.sequences[r].segments)
      for (int64_t row = 0; row < segment.length_tokens; row += block)
        for (int64_t head = 0; head < inputs.heads.kv; ++head) {
          const Range rows{row, std::min(block, segment.length_tokens - row)};
          cells.push_back(entry_time({inputs.cost, inputs.masks[0], inputs.heads}, rows, segment.length_tokens,
                                     inputs.heads.group())
                              .total());
          home[r] += cells.back();
        }
  return cells;
}

/// The fastest slowest of two members, over all ways to deal the cells.
int64_t best_of_all(const std::vector<int64_t>& cells) {
  int64_t total = 0;
  for (const int64_t cell : cells) total += cell;
  int64_t best = total;
  for (uint64_t first = 0; first < uint64_t{1} << cells.size(); ++first) {
    int64_t work = 0;
    for (size_t i = 0; i < cells.size(); ++i) work += (first >> i & 1) != 0 ? cells[i] : 0;
    best = std::min(best, std::max(work, total - work));
  }
  return best;
}

TEST(PooledTiling, IsWithinARowBlockOfTheOptimumOfTwoMembers) {
  int64_t uneven = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    PlanInputs inputs = one_pool(2, 1, efforts[seed % 3]);
    inputs.heads = {4, 2, 8};
    inputs.cost.attention = {.tile_rows = 4, .tile_keys = 4, .tile_ps = {{0, 1'000'000}}};
    BucketPlan plan;
    for (int64_t r = 0; r < 2; ++r) {
      plan.sequences.push_back({{{DocId{r}, 0, random_between(rng, 1, r == 0 ? 8 : 20)}}});
      plan.shardings.push_back(shard_sequence(ShardingRule::contiguous, plan.sequences.back(), 1));
    }
    std::vector<int64_t> home(2, 0);
    const auto cells = cells_of(inputs, plan, home);
    const int64_t best = best_of_all(cells);
    const int64_t slowest = place_pooled(inputs, plan, inputs.masks[0], inputs.effort).slowest_ns;
    ASSERT_GE(slowest, best);
    ASSERT_LE(slowest, best * 103 / 100 + *std::max_element(cells.begin(), cells.end()));
    ASSERT_LE(slowest, std::max(home[0], home[1]));
    uneven += std::max(home[0], home[1]) > best * 5 / 4 ? 1 : 0;
  }
  EXPECT_GT(uneven, 50);
}

}  // namespace
}  // namespace equipoise
