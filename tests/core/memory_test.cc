#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/base/errors.h"
#include "equipoise/exchange/program.h"
#include "equipoise/model/buffers.h"
#include "equipoise/planner/planner.h"
#include "equipoise/sharding/sharding.h"
#include "equipoise/verify/verify.h"
#include "tests/core/random_plans.h"

// Memory of exchange buffers: what one pass lays out, what a bucket needs, and how a limit is met.

namespace equipoise {
namespace {

/// Two members, each with one document of its own: member 0 has 8 tokens, member 1 has 4. 4 query heads on 2 KV heads.
/// A tile gives rows 6 and 7 of the last two heads to member 1.
struct TwoMembers {
  PlanInputs inputs;
  BucketPlan bucket;

  TwoMembers() {
    inputs.mesh.dp = inputs.pool = 2;
    inputs.heads = {4, 2, 8};
    inputs.masks = {Mask{.layers = 3}};
    bucket.bucket.sequences = {SeqId{0}, SeqId{1}};
    bucket.sequences = {Sequence{{{DocId{0}, 0, 8}}}, Sequence{{{DocId{1}, 0, 4}}}};
    bucket.shardings = {{ShardingRule::contiguous, {{0, 0, 8, 0}}}, {ShardingRule::contiguous, {{0, 0, 4, 0}}}};
    const Tile tile{.replica_in_pool = 0,
                    .segment = 0,
                    .q_begin = 6,
                    .q_length = 2,
                    .head_begin = 2,
                    .heads = 2,
                    .member = MemberId{1},
                    .round = 1};
    const Message queries{1, MemberId{0}, MemberId{1}, {0, 0, 6, 2, 2, 2}, 1};
    const Message keys{1, MemberId{0}, MemberId{1}, {0, 0, 0, 8, 1, 1}, 1};
    bucket.layers = {{{tile}, {{queries}, {keys}, 2}}};
  }
  HeldBytes bytes(int64_t member, const NumberBytes& numbers = {2, 4}) const {
    return buffer_bytes(make_rank_program(inputs, bucket, 0, MemberId{member}, 0), numbers);
  }
};

// Guests are 4 cells, the arena is 8, a cell is 8 numbers.
constexpr int64_t guests = 4 * 64;                 // q, out, grad_out, dq of 16 bytes a cell
constexpr int64_t statistics = 64;                 // 4 log-sum-exp of 4 bytes
constexpr int64_t arena = 2 * 128;                 // k, v
constexpr int64_t arena_sums = 2 * 256;            // dk, dv in 4 bytes a number
constexpr int64_t queries_out = 3 * 64 + 16 + 48;  // q, out, grad_out, lse, up to a multiple of 64 with the keys
constexpr int64_t keys_out = 2 * 128;              // k, v
constexpr int64_t returned = 64 + 2 * 128;         // dq, dk, dv

TEST(BufferBytes, AreThoseOfTheBackwardOfAnExample) {
  const TwoMembers two;
  const int64_t own_sums[] = {2 * 8 * 2 * 8 * 4 + 256, 2 * 4 * 2 * 8 * 4};  // dk, dv of its rows; of a returned block
  EXPECT_EQ(two.bytes(1).pass,
            own_sums[1] + arena + arena_sums + guests + statistics + queries_out + keys_out + returned);
  EXPECT_EQ(two.bytes(0).pass, own_sums[0] + queries_out + keys_out + returned) << "it only sends";
  EXPECT_EQ(two.bytes(1).kept, 0);
  EXPECT_EQ(most_held_bytes(two.inputs, two.bucket), two.bytes(1).pass);
}

TEST(BufferBytes, HaveNoOwnSumsWhereResultsAreOfTheirType) {
  const TwoMembers two;
  EXPECT_EQ(two.bytes(0, {4, 4}).pass, 2 * (3 * 64 + keys_out) + 64 + 2 * returned);
}

TEST(BufferBytes, AreFewerWhereWhatCameIsKept) {
  TwoMembers two;
  two.inputs.keep_received = true;
  const int64_t kept = arena + 2 * 64 + statistics;  // k, v, q, out, lse
  EXPECT_EQ(two.bytes(1).kept, kept);
  const int64_t own_sums = 2 * 4 * 2 * 8 * 4;
  EXPECT_EQ(two.bytes(1).pass, own_sums + arena_sums + 2 * 64 + 64 + returned) << "grad_out, dq; grad_out comes";
  EXPECT_EQ(two.bytes(0).kept, 0) << "it only sends";
  EXPECT_EQ(most_held_bytes(two.inputs, two.bucket), two.bytes(1).pass + 3 * kept) << "in each of three layers";
}

TEST(CheckMemory, AMemberHoldsNoMoreThanItsCap) {
  for (const bool keep : {false, true}) {
    TwoMembers two;
    two.inputs.keep_received = keep;
    two.inputs.limits.exchange_bytes = most_held_bytes(two.inputs, two.bucket);
    EXPECT_TRUE(check_memory(two.inputs, two.bucket).empty());
    --two.inputs.limits.exchange_bytes;
    const Violations found = check_memory(two.inputs, two.bucket);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].rule, "exchange within cap");
    EXPECT_EQ(found[0].where, "micro-step 0, pool 0, member 1");
  }
}

TEST(CheckMemory, CountsWhatTheProgramsLayOutInRandomBuckets) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.keep_received = seed % 3 == 0;
    inputs.cost.element_bytes = int64_t{1} << random_between(rng, 0, 3);
    const BucketPlan bucket = random_bucket(rng, inputs);
    inputs.limits.exchange_bytes = most_held_bytes(inputs, bucket);
    ASSERT_TRUE(check_memory(inputs, bucket).empty());
    if (--inputs.limits.exchange_bytes < 0) continue;
    ASSERT_FALSE(check_memory(inputs, bucket).empty());
  }
}

/// Buffers that are live at once, while a round computes and the next is dispatched.
std::vector<Buffer> live_buffers(const PassBuffers& buffers, size_t r) {
  std::vector<Buffer> live = {buffers.k,        buffers.v,      buffers.dk,    buffers.dv,
                              buffers.returned, buffers.own_dk, buffers.own_dv};
  for (size_t i = r; i < std::min(r + 2, buffers.rounds.size()); ++i) {
    const RoundBuffers& round = buffers.rounds[i];
    live.insert(live.end(),
                {round.q, round.out, round.lse, round.grad_out, round.dq, round.dispatch.send, round.dispatch.receive});
  }
  if (r > 0) live.insert(live.end(), {buffers.rounds[r - 1].give_back.send, buffers.rounds[r - 1].give_back.receive});
  return live;
}

/// Sorted, each ends before the next begins, and none passes its block.
void expect_apart(std::vector<Buffer> live, const PassBuffers& buffers) {
  std::erase_if(live, [](const Buffer& buffer) { return buffer.bytes == 0; });
  std::sort(live.begin(), live.end(),
            [](const Buffer& a, const Buffer& b) { return std::pair(a.kept, a.offset) < std::pair(b.kept, b.offset); });
  for (size_t i = 0; i < live.size(); ++i) {
    ASSERT_EQ(live[i].offset % buffer_alignment, 0);
    ASSERT_LE(live[i].offset + live[i].bytes, live[i].kept ? buffers.kept_bytes : buffers.pass_bytes);
    if (i > 0 && live[i].kept == live[i - 1].kept) {
      ASSERT_LE(live[i - 1].offset + live[i - 1].bytes, live[i].offset);
    }
  }
}

TEST(LayOutBuffers, KeepsApartWhatIsLiveAtOnce) {
  int64_t several_rounds = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.keep_received = seed % 2 == 0;
    const BucketPlan bucket = random_bucket(rng, inputs);
    for (const RankProgram& program : make_rank_programs(inputs, bucket, 0, 0)) {
      const PassBuffers forward = lay_out_buffers(program, {2, 4}, Pass::forward);
      const PassBuffers backward = lay_out_buffers(program, {2, 4}, Pass::backward);
      ASSERT_EQ(forward.kept_bytes, backward.kept_bytes);
      ASSERT_EQ(forward.kept_bytes > 0, inputs.keep_received && (program.arena_cells > 0 || backward.kept_bytes > 0));
      for (const PassBuffers* buffers : {&forward, &backward})
        for (size_t r = 0; r < program.rounds.size(); ++r) {
          expect_apart(live_buffers(*buffers, r), *buffers);
          if (HasFatalFailure()) return;
        }
      if (inputs.keep_received) {
        ASSERT_EQ(forward.k, backward.k);
        for (size_t r = 0; r < program.rounds.size(); ++r) ASSERT_EQ(forward.rounds[r].out, backward.rounds[r].out);
      }
      several_rounds += program.rounds.size() > 2 ? 1 : 0;
    }
  }
  EXPECT_GT(several_rounds, 500);
}

/// One giant document beside an empty sequence, or random ones.
struct Instance {
  PlanInputs inputs;
  StepPlan step;
  Bucket bucket{.micro_step = 0, .pool = 0, .sequences = {}};
};

Instance random_instance(uint64_t seed) {
  SplitMix64 rng{seed};
  Instance instance{.inputs = random_inputs(rng), .step = {}};
  instance.inputs.strategy = seed % 2 == 0 ? Strategy::libra : Strategy::equipoise;
  instance.inputs.keep_received = seed % 3 == 0;
  for (int64_t r = 0; r < instance.inputs.pool; ++r) {
    instance.step.sequences.push_back(random_sequence(rng, instance.inputs.limits.window_tokens));
    instance.bucket.sequences.push_back(SeqId{r});
  }
  return instance;
}

BucketPlan contiguous_home(const PlanInputs& inputs, BucketPlan plan) {
  for (size_t r = 0; r < plan.sequences.size(); ++r)
    plan.shardings[r] = shard_sequence(ShardingRule::contiguous, plan.sequences[r], inputs.mesh.cp);
  return stay_home(inputs, plan);
}

TEST(PlanBucket, MeetsALimitOnExchangeMemoryWithFewerTilesOrNone) {
  int64_t fewer = 0, none = 0, refused = 0;
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(1000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance instance = random_instance(seed);
    const auto& [inputs, step, bucket] = instance;
    const BucketPlan unlimited = plan_bucket(inputs, step, bucket);
    const int64_t home = most_held_bytes(inputs, contiguous_home(inputs, unlimited));
    const int64_t most = most_held_bytes(inputs, unlimited);
    SplitMix64 rng{seed};
    instance.inputs.limits.exchange_bytes = std::max<int64_t>(1, random_between(rng, home * 3 / 4, most));
    try {
      const BucketPlan plan = plan_bucket(inputs, step, bucket);
      ASSERT_LE(most_held_bytes(inputs, plan), inputs.limits.exchange_bytes);
      ASSERT_TRUE(check_memory(inputs, plan).empty());
      const bool tiles = std::any_of(plan.layers.begin(), plan.layers.end(),
                                     [](const LayerPlan& layer) { return !layer.tiles.empty(); });
      fewer += tiles && most > inputs.limits.exchange_bytes ? 1 : 0;
      none += tiles ? 0 : 1;
    } catch (const InputError&) {
      ++refused;
      ASSERT_LT(inputs.limits.exchange_bytes, home);
    }
  }
  EXPECT_GT(fewer, random_runs(50));
  EXPECT_GT(none, random_runs(50));
  EXPECT_GT(refused, random_runs(10));
}

}  // namespace
}  // namespace equipoise
