#include "equipoise/cost/cost.h"

#include <array>

#include <gtest/gtest.h>

#include "equipoise/base/errors.h"
#include "equipoise/cost/hardware.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// Tiles counted one by one: a tile of tile_rows x tile_keys counts if any of its pairs is allowed.
int64_t count_tiles(const AttentionCost& cost, const Mask& mask, Range rows, int64_t length) {
  const int64_t first_key = visible_keys(mask, rows, length).begin;
  int64_t tiles = 0;
  for (int64_t top = rows.begin; top < rows.end(); top += cost.tile_rows)
    for (int64_t left = first_key; left < length; left += cost.tile_keys) {
      bool used = false;
      for (int64_t row = top; row < std::min(top + cost.tile_rows, rows.end()); ++row)
        for (int64_t key = left; key < std::min(left + cost.tile_keys, length); ++key)
          used |= mask.kind == MaskKind::full ||
                  (key <= row && (mask.kind == MaskKind::causal || row - key < mask.window_tokens));
      tiles += used ? 1 : 0;
    }
  return tiles;
}

TEST(KernelTiles, AreThoseWithAnAllowedPair) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    SplitMix64 rng{seed};
    AttentionCost cost;
    cost.tile_rows = random_between(rng, 1, 12);
    cost.tile_keys = random_between(rng, 1, 12);
    const int64_t length = random_between(rng, 1, 70);
    const int64_t begin = random_between(rng, 0, length - 1);
    const Range rows{begin, random_between(rng, 0, length - begin)};
    Mask mask{.kind = static_cast<MaskKind>(random_between(rng, 0, 2))};
    if (mask.kind == MaskKind::sliding_window) mask.window_tokens = random_between(rng, 1, 80);
    ASSERT_EQ(kernel_tiles(cost, mask, rows, length), count_tiles(cost, mask, rows, length)) << "seed " << seed;
  }
}

TEST(EntryTime, OfAGridIsThatOfItsCellsHoweverRowsAreGrouped) {
  const CostTable table = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  const Heads heads{32, 8, 128};
  constexpr int64_t grid = 512, length = 8192;
  for (const Mask& mask : {Mask{}, Mask{.kind = MaskKind::sliding_window, .window_tokens = 512}}) {
    const AttentionModel model{table, mask, heads, grid};
    PassTime cells, of_one_head;
    for (int64_t begin = 1000, end = 0; begin < 7000; begin = end) {
      end = std::min<int64_t>(7000, (begin / grid + 1) * grid);
      cells += entry_time(model, {begin, end - begin}, length, 32);
      of_one_head += entry_time({table, mask, heads}, {begin, end - begin}, length, 4);
    }
    EXPECT_EQ(entry_time(model, {1000, 6000}, length, 32), cells);
    EXPECT_EQ(entry_time(model, {1000, 6000}, length, 4), of_one_head) << "a kernel entry for each cell";
  }
}

TEST(CaseP12, OneDocumentOf1024CostsMoreThanTwoOf512) {
  const AttentionCost cost;  // 128 x 128
  const Mask causal;
  EXPECT_EQ(attention_pairs(causal, {0, 1024}, 1024), 524800);
  EXPECT_EQ(2 * attention_pairs(causal, {0, 512}, 512), 262656);
  EXPECT_EQ(kernel_tiles(cost, causal, {0, 1024}, 1024), 36);
  EXPECT_EQ(2 * kernel_tiles(cost, causal, {0, 512}, 512), 20);
  const CostTable table = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  EXPECT_EQ(linear_time(table, 1024), linear_time(table, 512 + 512));
}

TEST(CaseP15, KernelTilesOfVeryLongDocumentsDoNotWrap) {
  const AttentionCost cost;
  const int64_t blocks = (int64_t{1} << 31) / 128;
  EXPECT_EQ(kernel_tiles(cost, Mask{}, {0, int64_t{1} << 31}, int64_t{1} << 31), blocks * (blocks + 1) / 2);
  const CostTable table = make_cost_table(find_model("llama3.1-405b"), find_hardware("h100"), 1);
  const Heads heads{128, 8, 128};
  const Mask mask;
  const int64_t million = entry_time({table, mask, heads}, {0, 1 << 20}, 1 << 20, 128).forward_ns;
  const int64_t two_million = entry_time({table, mask, heads}, {0, 1 << 21}, 1 << 21, 128).forward_ns;
  EXPECT_GT(million, 0);
  EXPECT_NEAR(static_cast<double>(two_million) / static_cast<double>(million), 4.0, 0.01);
}

TEST(EntryTime, AddsEntryBlocksTilesAndBytes) {
  CostTable cost;
  cost.element_bytes = 2;
  cost.attention = {.tile_rows = 4,
                    .tile_keys = 8,
                    .call_ns = 1'000'000,
                    .entry_ns = 7,
                    .block_ps = 3000,
                    .tile_ps = {{0, 10'000}, {16, 20'000}},
                    .kilobyte_ps = 1'024'000,
                    .backward_ppm = {{0, 2'500'000}}};
  const Heads heads{.query = 8, .kv = 2, .size = 16};
  const Mask mask;
  // Rows 4 to 11 of 20 see keys 0 to 11: 2 row blocks with 1 and 2 tiles; 12 keys are 3/4 of the way to 16, a tile
  // takes 17.5 ns. 8 query heads: 7 + 8 x 2 x 3 + 8 x 3 x 17.5 + bytes (8 rows x 8 heads + 12 keys x 2 heads) x 2 x 16
  // x 2 at 1 ns each.
  const int64_t forward = 7 + 48 + 420 + (64 + 24) * 64;
  EXPECT_EQ(entry_time({cost, mask, heads}, {4, 8}, 20, 8), (PassTime{forward, forward * 5 / 2}));
  // Half of one KV head's group still reads that KV head.
  const int64_t half = 7 + 12 + 105 + (16 + 12) * 64;
  EXPECT_EQ(entry_time({cost, mask, heads}, {4, 8}, 20, 2).forward_ns, half);
  EXPECT_EQ(entry_time({cost, mask, heads}, {4, 0}, 20, 8), PassTime{});
}

TEST(EntryTime, CountsEveryCellOfAGrid) {
  CostTable cost;
  cost.attention = {.tile_rows = 4, .tile_keys = 8, .entry_ns = 7, .tile_ps = {{0, 0}}};
  const Heads heads{.query = 8, .kv = 2, .size = 16};
  const Mask mask;
  EXPECT_EQ(entry_time({cost, mask, heads, 16}, {20, 30}, 50, 8).forward_ns, 7 * 3 * 2) << "rows 20..32..48..50";
  EXPECT_EQ(entry_time({cost, mask, heads, 16}, {16, 16}, 50, 4).forward_ns, 7);
  EXPECT_EQ(entry_time({cost, mask, heads}, {20, 30}, 50, 8).forward_ns, 7);
}

TEST(Hardware, H100PredictsPublishedForwardRates) {
  // TFLOP/s of FlashAttention 3, causal, 64 query and 8 KV heads of 128, one document: aiconfigurator's H100 table.
  const std::pair<int64_t, double> published[] = {{1024, 303}, {2048, 423}, {4096, 566}, {8192, 599}, {16384, 612}};
  const Heads heads{64, 8, 128};
  const Mask mask;
  const CostTable cost = make_cost_table(find_model("llama3-70b"), find_hardware("h100"), 1);
  for (const auto& [length, teraflops] : published) {
    const int64_t ns = cost.attention.call_ns + entry_time({cost, mask, heads}, {0, length}, length, 64).forward_ns;
    const auto pairs = static_cast<double>(attention_pairs(Mask{}, {0, length}, length));
    const double predicted = 4.0 * 64 * 128 * pairs / static_cast<double>(ns) / 1000;
    EXPECT_NEAR(predicted / teraflops, 1.0, 0.25) << length << " tokens: " << predicted;
  }
}

TEST(Hardware, LinearTimeAndActivationsFollowTheModelsShape) {
  const struct {
    const char* name;
    double megaflops;  // of one token in one layer, forward
    int64_t activation_bytes;
  } known[] = {{"llama2-7b", 404.8, 131712}, {"llama2-13b", 634.4, 165024},    {"llama2-70b", 1711.3, 274688},
               {"llama3-8b", 436.2, 139392}, {"llama3-70b", 1711.3, 274688},   {"llama3.1-405b", 6375.3, 520704},
               {"qwen3-8b", 385.9, 127104},  {"qwen3-30b-a3b", 113.2, 137344}, {"qwen3-235b-a22b", 444.6, 272640},
               {"llama-34b", 1417.7, 238848}};
  for (const auto& model : known) {
    const CostTable cost = make_cost_table(find_model(model.name), find_hardware("h100"), 1);
    EXPECT_EQ(cost.activation_bytes, model.activation_bytes) << model.name;
    const double ps = static_cast<double>(evaluate(cost.linear.token_ps, 100'000));
    EXPECT_NEAR(ps * 560 / 1e6, model.megaflops, 0.1) << model.name;
    EXPECT_EQ(cost.model, model.name);
    EXPECT_EQ(cost.hardware, "h100");
  }
}

TEST(Hardware, TensorParallelRanksShareLinearWorkAndHeads) {
  const ModelShape model = find_model("qwen3-30b-a3b");
  EXPECT_EQ(heads_of(model, 2), (Heads{16, 2, 128}));
  EXPECT_EQ(heads_of(model, 8), (Heads{4, 1, 128}));
  EXPECT_THROW(heads_of(model, 5), InputError);
  const Hardware h100 = find_hardware("h100");
  const int64_t one = make_cost_table(model, h100, 1).linear.token_ps.back().y;
  EXPECT_NEAR(static_cast<double>(make_cost_table(model, h100, 4).linear.token_ps.back().y), one / 4.0, 1);
}

TEST(Hardware, UnknownNamesListTheKnownOnes) {
  try {
    find_model("llama9");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("'llama9'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("qwen3-30b-a3b"), std::string::npos);
  }
  EXPECT_THROW(find_hardware("abacus"), InputError);
  ModelShape odd = find_model("llama3-8b");
  odd.kv_heads = 6;
  odd.query_heads = 24;
  EXPECT_THROW(heads_of(odd, 4), InputError);
}

/// Two replicas, cp 1: member 0 owns 8 rows and gives rows 4 to 7 of its only KV head to member 1, which owns 2 rows.
struct TwoMembers {
  PlanInputs inputs;
  BucketPlan bucket;

  TwoMembers() {
    inputs.mesh = {.dp = 2};
    inputs.pool = 2;
    inputs.heads = {.query = 2, .kv = 1, .size = 4};
    inputs.masks = {Mask{.layers = 3}};
    CostTable& cost = inputs.cost;
    cost.layers = 3;
    cost.attention.tile_rows = cost.attention.tile_keys = 1;
    cost.attention.tile_ps = {{0, 1000}};  // one ns a pair and head
    cost.attention.backward_ppm = {{0, 3 * ppm_one}};
    cost.attention.call_ns = 5;
    cost.linear.token_ps = {{0, 10'000}};
    cost.node = {.latency_ns = 100, .kilobyte_ps = 1'024'000};       // 1 ns a byte
    cost.network = {.latency_ns = 1000, .kilobyte_ps = 10'240'000};  // 10 ns a byte
    bucket.bucket.sequences = {SeqId{0}, SeqId{1}};
    bucket.sequences = {{{{DocId{0}, 0, 8}}}, {{{DocId{1}, 0, 2}}}};
    bucket.shardings = {{ShardingRule::contiguous, {{0, 0, 8, 0}}}, {ShardingRule::contiguous, {{0, 0, 2, 0}}}};
    const MemberId zero{0};
    const MemberId one{1};
    bucket.layers = {{{{0, 0, 4, 4, 0, 2, one, 1}},
                      {{{1, zero, one, {0, 0, 4, 4, 0, 2}, 1}}, {{1, zero, one, {0, 0, 0, 8, 0, 1}, 1}}, 2}}};
  }
};

TEST(MemberLoads, CountWorkAndBytesOfBothPasses) {
  TwoMembers two;
  const auto loads = member_loads(two.inputs, two.bucket, 0);
  ASSERT_EQ(loads.size(), 2u);
  // Pairs: 36 of the first document, 26 of them moved; 3 of the second. Two query heads.
  EXPECT_EQ(loads[0].pairs, 20);
  EXPECT_EQ(loads[1].pairs, 58);
  EXPECT_EQ(loads[0].attention(), (PassTime{20 + 5, 60 + 5}));
  EXPECT_EQ(loads[1].attention(), (PassTime{58 + 10, 174 + 10}));
  EXPECT_EQ(loads[0].linear, (PassTime{80, 160}));
  EXPECT_EQ(loads[1].linear, (PassTime{20, 40}));
  // Rows of 4 elements of 2 bytes. Out: q 8 cells of 8 bytes, k and v 16 of 8. Back: o 64 and lse 8 x 4.
  EXPECT_EQ(loads[0].sent_bytes, 64 + 128);
  EXPECT_EQ(loads[0].received_bytes, 64 + 32);
  EXPECT_EQ(loads[1].sent_bytes, 64 + 32);
  EXPECT_EQ(loads[1].received_bytes, 64 + 128);
  // Backward out: q, o, do 192, lse 32, k and v 128; back: dq 64, dk and dv 128.
  EXPECT_EQ(loads[0].exchange(), (PassTime{100 + 192 + 100 + 96, 100 + 352 + 100 + 192}));
  EXPECT_EQ(loads[1].exchange(), loads[0].exchange());
}

TEST(MemberLoads, UseTheSlowLinkBetweenNodesAndTheSpeedOfEachRank) {
  TwoMembers two;
  two.inputs.mesh.ranks_per_node = 1;
  two.inputs.speeds_ppt = {1000, 500};
  const auto loads = member_loads(two.inputs, two.bucket, 0);
  EXPECT_EQ(loads[0].exchange().forward_ns, 1000 + 1920 + 1000 + 960);
  EXPECT_EQ(loads[1].attention().forward_ns, 2 * (58 + 10));
  EXPECT_EQ(loads[1].linear.forward_ns, 2 * 20);
}

TEST(LayerTime, HidesWhatTravelsWhileAMemberComputes) {
  TwoMembers two;
  // Forward: guests are there after 292, when both members are done at home; 57 later they go back in 196.
  const LayerTime layer = layer_time(two.inputs, two.bucket, 0);
  EXPECT_EQ(layer.linear, (PassTime{80, 160}));
  EXPECT_EQ(layer.attention, (PassTime{68, 184}));
  EXPECT_EQ(layer.exposed, (PassTime{292 + 57 + 196 - 68, 452 + 161 + 292 - 184}));
}

TEST(LayerTime, ExposesOnlyTheFirstDispatchAndTheLastReturnOfManyRounds) {
  // One computes 100 in each round, the other nothing; an exchange takes 40.
  MemberLoad busy;
  busy.rounds.assign(4, {.dispatch = {40, 40}, .attention = {100, 100}, .give_back = {40, 40}});
  MemberLoad idle = busy;
  for (RoundTimes& round : idle.rounds) round.attention = {};
  EXPECT_EQ(layer_time(std::array{busy, idle}).exposed, (PassTime{80, 80}));
  // One after another each round exposes both.
  busy.rounds = {{.dispatch = {160, 0}, .attention = {400, 0}, .give_back = {160, 0}}};
  EXPECT_EQ(layer_time(std::array{busy}).exposed, (PassTime{320, 0}));
}

TEST(LayerTime, WaitsForTheSlowestInEveryExchange) {
  // Each computes long where the other does not, and the return of round 0 needs both.
  MemberLoad first;
  first.rounds = {{.attention = {100, 0}, .give_back = {10, 0}}, {.attention = {1, 0}}};
  MemberLoad second;
  second.rounds = {{.attention = {1, 0}, .give_back = {10, 0}}, {.attention = {50, 0}, .give_back = {10, 0}}};
  // Round 0 is returned at 110; then that of round 1 may begin.
  EXPECT_EQ(layer_time(std::array{first, second}).exposed.forward_ns, 120 - 101);
}

TEST(BucketTime, IsLayersTimesThatOfALayer) {
  TwoMembers two;
  const PassTime layer = layer_time(two.inputs, two.bucket, 0).all();
  EXPECT_EQ(bucket_time(two.inputs, two.bucket), (PassTime{3 * layer.forward_ns, 3 * layer.backward_ns}));
  EXPECT_EQ(replica_times(two.inputs, two.bucket)[0], replica_times(two.inputs, two.bucket)[1]);
}

TEST(BucketTime, ReplicasThatExchangeNothingDoNotWaitForEachOther) {
  TwoMembers two;
  two.bucket.layers[0].tiles.clear();
  two.bucket.layers[0].exchange = {};
  const auto loads = member_loads(two.inputs, two.bucket, 0);
  const auto times = replica_times(two.inputs, two.bucket);
  for (size_t replica = 0; replica < 2; ++replica)
    EXPECT_EQ(times[replica].total(), 3 * (loads[replica].linear.total() + loads[replica].attention().total()));
  EXPECT_NE(times[0], times[1]);
  EXPECT_EQ(bucket_time(two.inputs, two.bucket).total(), std::max(times[0].total(), times[1].total()));
}

TEST(HeldBytes, AreAllKeysAndTheFullestRoundsQueries) {
  TwoMembers two;
  Exchange exchange = two.bucket.layers[0].exchange;
  EXPECT_EQ(held_bytes(two.inputs.cost, two.inputs.heads, exchange, 2), (std::vector<int64_t>{0, 128 + 64}));
  exchange.queries.push_back({2, MemberId{0}, MemberId{1}, {0, 0, 2, 2, 0, 2}, 2});
  exchange.rounds = 3;
  EXPECT_EQ(held_bytes(two.inputs.cost, two.inputs.heads, exchange, 2), (std::vector<int64_t>{0, 128 + 64}));
}

TEST(StepTime, FollowsWhatReplicasWaitFor) {
  // Two pools, three micro-steps: (5, 1), (2, 2), (1, 7).
  const std::vector<std::vector<PassTime>> buckets = {{{2, 3}}, {{1, 0}}, {{1, 1}}, {{2, 0}}, {{0, 1}}, {{3, 4}}};
  EXPECT_EQ(step_time_ns(DpSync::step, buckets, 2), 10);
  EXPECT_EQ(step_time_ns(DpSync::micro_step, buckets, 2), 5 + 2 + 7);
  // One pool of two replicas, two micro-steps: (5, 1), (2, 7).
  const std::vector<std::vector<PassTime>> apart = {{{2, 3}, {1, 0}}, {{1, 1}, {3, 4}}};
  EXPECT_EQ(step_time_ns(DpSync::step, apart, 1), 1 + 7);
  EXPECT_EQ(step_time_ns(DpSync::micro_step, apart, 1), 5 + 7);
}

TEST(SequenceWork, WeighsEachMaskByItsLayers) {
  TwoMembers two;
  const Sequence sequence{{{DocId{0}, 0, 4}, {DocId{1}, 0, 8}}};
  two.inputs.masks = {Mask{.layers = 2}, Mask{.kind = MaskKind::sliding_window, .window_tokens = 3, .layers = 1}};
  // Pairs 46 and 30, two heads, forward and three times that backward.
  EXPECT_EQ(sequence_work_ns(two.inputs, sequence), (2 * 46 + 30) * 2 * 4);
  EXPECT_EQ(sequence_work_ns(two.inputs, {}), 0);
}

}  // namespace
}  // namespace equipoise
