#include "equipoise/exchange/loopback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/exchange/program.h"
#include "equipoise/model/work.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/tiling/tiling.h"
#include "tests/core/dense_attention.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

constexpr double scale = 0.7;
constexpr double tolerance = 1e-10;

std::vector<RankProgram> programs_of(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask) {
  std::vector<RankProgram> programs;
  for (int64_t m = 0; m < inputs.members(); ++m)
    programs.push_back(make_rank_program(inputs, bucket, mask, MemberId{m}, 0));
  return programs;
}

std::vector<DenseTensors> dense_results(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask) {
  std::vector<DenseTensors> dense = random_tensors(bucket.sequences, inputs.heads, 11);
  for (size_t r = 0; r < dense.size(); ++r)
    dense_attention(bucket.sequences[r], inputs.masks[mask], inputs.heads, scale, dense[r]);
  return dense;
}

/// Forward and backward of the programs against dense attention of the same bucket.
LargestDifference run(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask,
                      const std::vector<RankProgram>& programs) {
  const std::vector<DenseTensors> dense = dense_results(inputs, bucket, mask);
  std::vector<LoopbackTensors> members = deal_tensors(inputs, bucket, dense);
  loopback_forward(programs, scale, members);
  loopback_backward(programs, scale, members);
  return compare_tensors(inputs, bucket, dense, members);
}

void expect_dense(const PlanInputs& inputs, const BucketPlan& bucket) {
  for (int64_t mask = 0; mask < std::ssize(inputs.masks); ++mask) {
    const LargestDifference difference = run(inputs, bucket, mask, programs_of(inputs, bucket, mask));
    ASSERT_LT(difference.out, tolerance);
    ASSERT_LT(difference.lse, tolerance);
    ASSERT_LT(difference.dq, tolerance);
    ASSERT_LT(difference.dk, tolerance);
    ASSERT_LT(difference.dv, tolerance);
  }
}

/// Random inputs, small enough for dense attention many times over.
PlanInputs small_inputs(SplitMix64& rng) {
  PlanInputs inputs = random_inputs(rng);
  inputs.limits.window_tokens = inputs.limits.max_tokens = random_between(rng, 3, 26);
  inputs.heads.size = 2;
  inputs.masks.resize(1);
  return inputs;
}

PlanInputs pool_inputs(int64_t pool, int64_t cp, const Heads& heads) {
  PlanInputs inputs;
  inputs.mesh.dp = inputs.pool = pool;
  inputs.mesh.cp = cp;
  inputs.heads = heads;
  return inputs;
}

enum class Tiling { owner, ulysses, pooled };

std::vector<Tile> make_tiles(const PlanInputs& inputs, const BucketPlan& bucket, const Mask& mask, Tiling tiling) {
  if (tiling == Tiling::ulysses) return tile_ulysses(bucket.shardings, inputs.heads, inputs.mesh.cp);
  if (tiling == Tiling::owner) return {};
  PooledTiling pool{bucket.sequences, bucket.shardings,  mask,           inputs.heads,
                    inputs.cost,      inputs.speeds_ppt, inputs.mesh.cp, inputs.limits.exchange_bytes};
  pool.grid_rows = inputs.grid();
  return tile_pooled(pool).tiles;
}

BucketPlan plan(const PlanInputs& inputs, const std::vector<Sequence>& sequences, ShardingRule rule, Tiling tiling) {
  BucketPlan bucket;
  bucket.sequences = sequences;
  for (const Sequence& sequence : sequences) bucket.shardings.push_back(shard_sequence(rule, sequence, inputs.mesh.cp));
  for (const Mask& mask : inputs.masks) {
    const std::vector<Tile> tiles = make_tiles(inputs, bucket, mask, tiling);
    const auto work = attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, inputs.mesh.cp);
    bucket.layers.push_back(
        {tiles, plan_exchange(bucket.sequences, bucket.shardings, work, mask, inputs.heads, inputs.mesh.cp)});
  }
  return bucket;
}

Sequence sequence_of(const std::vector<int64_t>& lengths) {
  Sequence sequence;
  for (const int64_t length : lengths) sequence.segments.push_back({DocId{0}, 0, length});
  return sequence;
}

constexpr ShardingRule rules[] = {ShardingRule::sequence_zigzag, ShardingRule::document_zigzag,
                                  ShardingRule::contiguous};
constexpr Tiling tilings[] = {Tiling::owner, Tiling::ulysses, Tiling::pooled};

TEST(Loopback, EqualsDenseAttentionForTilesThatFollowNoRule) {
  SplitMix64 rng{5};
  for (int i = 0; i < 500; ++i) {
    SCOPED_TRACE(i);
    const PlanInputs inputs = small_inputs(rng);
    ASSERT_NO_FATAL_FAILURE(expect_dense(inputs, random_bucket(rng, inputs)));
  }
}

TEST(Loopback, EqualsDenseAttentionUnderEveryShardingAndTiling) {
  SplitMix64 rng{6};
  int64_t tiles[3] = {0, 0, 0};
  for (int i = 0; i < 540; ++i) {
    SCOPED_TRACE(i);
    PlanInputs inputs = small_inputs(rng);
    std::vector<Sequence> sequences;
    for (int64_t r = 0; r < inputs.pool; ++r) sequences.push_back(random_sequence(rng, inputs.limits.window_tokens));
    const Tiling tiling = tilings[i / 3 % 3];
    if (tiling == Tiling::ulysses) inputs.gradient_sum = GradientSum::fast;  // it may cut a group of heads
    const BucketPlan bucket = plan(inputs, sequences, rules[i % 3], tiling);
    tiles[static_cast<size_t>(tiling)] += std::ssize(bucket.layers[0].tiles);
    ASSERT_NO_FATAL_FAILURE(expect_dense(inputs, bucket));
  }
  EXPECT_EQ(tiles[0], 0);
  EXPECT_GT(tiles[1], 500);
  EXPECT_GT(tiles[2], 100);
}

TEST(Loopback, CaseA1ADocumentOfSevenTokensOnTwoRanks) {
  const PlanInputs inputs = pool_inputs(1, 2, {4, 2, 8});
  for (const ShardingRule rule : rules)
    for (const Tiling tiling : tilings) expect_dense(inputs, plan(inputs, {sequence_of({7})}, rule, tiling));
}

TEST(Loopback, CaseA4HeadsThatDivideNothing) {
  const PlanInputs inputs = pool_inputs(1, 2, {28, 7, 2});
  for (const ShardingRule rule : rules)
    for (const Tiling tiling : tilings) expect_dense(inputs, plan(inputs, {sequence_of({7, 9, 3})}, rule, tiling));
}

TEST(Loopback, CaseA5ARankWithNoQueryRowsComputesForOthers) {
  const PlanInputs inputs = pool_inputs(2, 1, {4, 2, 4});
  const Tile tile{.q_begin = 9, .q_length = 11, .head_begin = 0, .heads = 4, .member = MemberId{1}, .round = 2};
  BucketPlan bucket = plan(inputs, {sequence_of({20}), {}}, ShardingRule::contiguous, Tiling::owner);
  bucket.layers[0].tiles = {tile};
  const auto work = attention_work(bucket.sequences, bucket.shardings, {{tile}}, inputs.heads, 1);
  bucket.layers[0].exchange = plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[0], inputs.heads, 1);
  expect_dense(inputs, bucket);
}

TEST(Loopback, CaseA5ARankThatComputesNothingGetsTheGradientsOfItsKeys) {
  const PlanInputs inputs = pool_inputs(2, 1, {4, 2, 4});
  const Tile tile{.q_begin = 0, .q_length = 20, .head_begin = 0, .heads = 4, .member = MemberId{1}, .round = 1};
  BucketPlan bucket = plan(inputs, {sequence_of({20}), sequence_of({6})}, ShardingRule::contiguous, Tiling::owner);
  bucket.layers[0].tiles = {tile};
  const auto work = attention_work(bucket.sequences, bucket.shardings, {{tile}}, inputs.heads, 1);
  bucket.layers[0].exchange = plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[0], inputs.heads, 1);
  EXPECT_TRUE(programs_of(inputs, bucket, 0)[0].rounds[0].entries.empty());
  expect_dense(inputs, bucket);
}

TEST(Loopback, KeysOfAnEarlierRoundServeLaterOnes) {
  const PlanInputs inputs = pool_inputs(2, 2, {4, 2, 4});
  BucketPlan bucket =
      plan(inputs, {sequence_of({24, 5}), sequence_of({6})}, ShardingRule::document_zigzag, Tiling::owner);
  bucket.layers[0].tiles = {
      {.q_begin = 6, .q_length = 8, .head_begin = 0, .heads = 4, .member = MemberId{2}, .round = 1},
      {.q_begin = 14, .q_length = 6, .head_begin = 0, .heads = 2, .member = MemberId{2}, .round = 2},
      {.q_begin = 14, .q_length = 10, .head_begin = 2, .heads = 1, .member = MemberId{2}, .round = 3}};
  const auto work = attention_work(bucket.sequences, bucket.shardings, bucket.layers[0].tiles, inputs.heads, 2);
  bucket.layers[0].exchange = plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[0], inputs.heads, 2);
  int64_t later = 0;
  for (const Message& message : bucket.layers[0].exchange.keys) later += message.last_round > message.round;
  EXPECT_GT(later, 0);
  expect_dense(inputs, bucket);
}

/// A bucket in which queries and keys travel in two rounds.
struct Example {
  PlanInputs inputs = pool_inputs(2, 2, {4, 2, 4});
  BucketPlan bucket;
  std::vector<RankProgram> programs;

  Example() {
    bucket = plan(inputs, {sequence_of({19, 5}), sequence_of({6})}, ShardingRule::document_zigzag, Tiling::owner);
    bucket.layers[0].tiles = {
        {.q_begin = 10, .q_length = 9, .head_begin = 0, .heads = 4, .member = MemberId{2}, .round = 1}};
    const auto work = attention_work(bucket.sequences, bucket.shardings, bucket.layers[0].tiles, inputs.heads, 2);
    bucket.layers[0].exchange =
        plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[0], inputs.heads, 2);
    programs = programs_of(inputs, bucket, 0);
  }
};

TEST(Loopback, FeelsEveryNumberOfAProgram) {
  // Each change keeps the programs matched: only the results can tell.
  using Change = std::function<void(std::vector<RankProgram>&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"query row", [](auto& p) { p[0].rounds[1].send_queries[0].first_row -= 1; }},
      {"key row", [](auto& p) { p[0].rounds[1].send_keys[0].first_row += 1; }},
      {"arena cell", [](auto& p) { p[2].rounds[1].receive_keys[0].cell += 1; }},
      {"own row", [](auto& p) { p[0].own_keys[0].first_row += 1; }},
      {"diagonal", [](auto& p) { p[2].rounds[1].entries[0].diagonal -= 1; }},
      {"query cell", [](auto& p) { p[2].rounds[1].entries[0].q_cell += 1; }},
      {"keys", [](auto& p) { p[2].rounds[1].entries[0].keys -= 1; }},
      {"key head", [](auto& p) { p[2].rounds[1].entries[0].k_head_stride = 0; }},
      {"entry", [](auto& p) { p[2].rounds[1].entries.pop_back(); }},
      {"own keys", [](auto& p) { p[0].own_keys.pop_back(); }}};
  const Example example;
  ASSERT_LT(run(example.inputs, example.bucket, 0, example.programs).any(), tolerance);
  for (const auto& [what, change] : changes) {
    std::vector<RankProgram> programs = example.programs;
    change(programs);
    EXPECT_GT(run(example.inputs, example.bucket, 0, programs).any(), 1e-6) << what;
  }
}

/// The message of the error that the programs cause.
std::string refusal(const Example& example, const std::vector<RankProgram>& programs) {
  try {
    run(example.inputs, example.bucket, 0, programs);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Loopback, ASendWithoutItsReceiveNamesRoundSenderAndReceiver) {
  Example example;
  example.programs[2].rounds[1].receive_queries.pop_back();
  EXPECT_EQ(
      refusal(example, example.programs),
      "query block 1 is sent as a block of 1 rows x 4 heads that returns in round 1 and received as nothing, round 1, "
      "member 1 to member 2: run the programs of all members, made from one bucket plan");
}

TEST(Loopback, ProgramsThatDoNotMatchAreRefused) {
  using Change = std::function<void(std::vector<RankProgram>&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"round 1, member 0 to member 2",
       [](auto& p) { p[0].rounds[1].send_keys.erase(p[0].rounds[1].send_keys.begin()); }},
      {"round 1, member 0 to member 2", [](auto& p) { p[2].rounds[1].receive_keys[0].rows += 1; }},
      {"round 1, member 0 to member 2", [](auto& p) { p[0].rounds[1].send_keys[0].heads = 1; }},
      {"round 1, member 0 to member 2", [](auto& p) { p[0].rounds[1].send_keys[0].peer = 3; }},
      {"round 1, member 0 to member 4", [](auto& p) { p[0].rounds[1].send_keys[0].peer = 4; }},
      {"round 0, member 0 to member 1", [](auto& p) { p[1].rounds[0].receive_keys[0].return_round = 1; }},
      {"round 1, member 3", [](auto& p) { p[3].rounds[1].keys_move = false; }},
      {"round 1, member 0 to member 2",
       [](auto& p) {
         for (auto& x : p) x.rounds[1].queries_move = false;
       }},
      {"round 1, member 0 to member 2",
       [](auto& p) {
         for (auto& x : p) x.rounds[1].key_gradients_move = false;
       }},
      {"member 2", [](auto& p) { p[2].rounds.pop_back(); }},
      {"place 0 of 4 programs", [](auto& p) { std::swap(p[0], p[1]); }},
      {"place 0 of 3 programs", [](auto& p) { p.pop_back(); }},
      {"cell", [](auto& p) { p[2].rounds[1].entries[0].k_cell += 1000; }}};
  const Example example;
  for (const auto& [where, change] : changes) {
    std::vector<RankProgram> programs = example.programs;
    change(programs);
    EXPECT_NE(refusal(example, programs).find(where), std::string::npos) << refusal(example, programs);
  }
}

TEST(Loopback, TensorsOfAnotherSizeAreRefused) {
  const Example example;
  const std::vector<DenseTensors> dense = dense_results(example.inputs, example.bucket, 0);
  for (const auto field : {&LoopbackTensors::q, &LoopbackTensors::k, &LoopbackTensors::v}) {
    std::vector<LoopbackTensors> members = deal_tensors(example.inputs, example.bucket, dense);
    (members[1].*field).push_back(0.0);
    EXPECT_THROW(loopback_forward(example.programs, scale, members), InputError);
  }
  for (const auto field : {&LoopbackTensors::grad_out, &LoopbackTensors::out, &LoopbackTensors::lse}) {
    std::vector<LoopbackTensors> members = deal_tensors(example.inputs, example.bucket, dense);
    loopback_forward(example.programs, scale, members);
    (members[1].*field).pop_back();
    EXPECT_THROW(loopback_backward(example.programs, scale, members), InputError);
  }
}

TEST(Loopback, NothingToRunIsFine) {
  std::vector<LoopbackTensors> none;
  EXPECT_NO_THROW(loopback_forward({}, scale, none));
  EXPECT_NO_THROW(loopback_backward({}, scale, none));
}

}  // namespace
}  // namespace equipoise
