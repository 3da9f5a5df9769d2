#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/planner/presets.h"

namespace equipoise {
namespace {

/// dp 6, cp 2, 4 layers in two masks.
PlanInputs sound_inputs() {
  PlanInputs inputs;
  inputs.mesh = {.dp = 6, .pp = 1, .cp = 2, .tp = 1};
  inputs.pool = 3;
  inputs.heads = {.query = 8, .kv = 2, .size = 64};
  inputs.masks = {{.layers = 1}, {MaskKind::sliding_window, 16, 3}};
  inputs.limits.window_tokens = 100;
  inputs.limits.max_tokens = 100;
  inputs.cost.layers = 4;
  return inputs;
}

/// The text of the InputError that validate() throws, or "" if it is content.
std::string refusal(const PlanInputs& inputs) {
  try {
    validate(inputs);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

using Change = std::function<void(PlanInputs&)>;

std::string refusal_of(const Change& change) {
  PlanInputs inputs = sound_inputs();
  change(inputs);
  return refusal(inputs);
}

TEST(Validate, SoundInputsPass) {
  EXPECT_EQ(refusal(sound_inputs()), "");
  EXPECT_EQ(refusal(PlanInputs{}), "");
}

TEST(Validate, APoolThatDoesNotDivideDpIsRefusedWithTheDivisors) {
  EXPECT_EQ(refusal_of([](PlanInputs& inputs) { inputs.pool = 4; }),
            "pool 4 does not divide dp 6, field pool: use one of 1, 2, 3, 6");
  EXPECT_EQ(refusal_of([](PlanInputs& inputs) { inputs.pool = 0; }),
            "pool 0 does not divide dp 6, field pool: use one of 1, 2, 3, 6");
}

TEST(Validate, AWindowSmallerThanTheContextGroupIsRefused) {
  EXPECT_EQ(refusal_of([](PlanInputs& inputs) { inputs.limits.window_tokens = 1; }),
            "window 1 is smaller than the context group of 2 ranks, field window: "
            "give a window of at least one token for each rank of the group");
}

TEST(Validate, QueryHeadsThatKvHeadsDoNotDivideAreRefused) {
  EXPECT_EQ(
      refusal_of([](PlanInputs& inputs) { inputs.heads = {.query = 12, .kv = 8, .size = 64}; }),
      "12 query heads are no multiple of 8 KV heads, field heads: give a number of query heads that KV heads divide");
}

TEST(Validate, MasksMustCoverTheLayersOfTheModel) {
  EXPECT_EQ(refusal_of([](PlanInputs& inputs) { inputs.cost.layers = 5; }),
            "masks are given for 4 layers and the model has 5, field masks: let the masks' layers sum to the model's");
}

TEST(Validate, SpeedsAreOneForEachRankOfDpTimesCp) {
  EXPECT_EQ(refusal_of([](PlanInputs& inputs) { inputs.speeds_ppt = {1000, 1000}; }),
            "2 speeds are given for 12 ranks of dp x cp, field speeds: "
            "give one speed for each replica and cp rank, or none");
  EXPECT_EQ(refusal_of([](PlanInputs& inputs) { inputs.speeds_ppt.assign(12, 900); }), "");
}

/// One impossible value a row, and the field that the refusal must name.
struct BadValue {
  const char* field;
  Change change;
};

void expect_refusals(const std::vector<BadValue>& rows) {
  for (const BadValue& row : rows) {
    const std::string text = refusal_of(row.change);
    EXPECT_NE(text.find(", field " + std::string(row.field) + ": "), std::string::npos)
        << row.field << " got: " << text;
  }
}

TEST(Validate, EveryImpossibleMeshAndModelIsRefusedByTheNameOfItsField) {
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<BadValue> rows = {
      {"dp", [](PlanInputs& i) { i.mesh.dp = 0; }},
      {"dp", [](PlanInputs& i) { i.mesh.dp = huge; }},
      {"pp", [](PlanInputs& i) { i.mesh.pp = -1; }},
      {"cp", [](PlanInputs& i) { i.mesh.cp = 0; }},
      {"tp", [](PlanInputs& i) { i.mesh.tp = 0; }},
      {"ranks_per_node", [](PlanInputs& i) { i.mesh.ranks_per_node = 0; }},
      {"mesh", [](PlanInputs& i) { i.mesh.pp = i.mesh.tp = i.mesh.cp = int64_t{1} << 23; }},
      {"mesh_order", [](PlanInputs& i) { i.mesh.order[0] = Axis::dp; }},
      {"pool", [](PlanInputs& i) { i.pool = -3; }},
      {"pool", [](PlanInputs& i) { i.pool = 12; }},
      {"micro_steps", [](PlanInputs& i) { i.micro_steps = 0; }},
      {"micro_steps", [](PlanInputs& i) { i.micro_steps = huge; }},
      {"heads.query", [](PlanInputs& i) { i.heads.query = 0; }},
      {"heads.kv", [](PlanInputs& i) { i.heads.kv = 0; }},
      {"heads.size", [](PlanInputs& i) { i.heads.size = huge; }},
      {"masks", [](PlanInputs& i) { i.masks.clear(); }},
      {"masks[0].layers", [](PlanInputs& i) { i.masks[0].layers = 0; }},
      {"masks[1].window", [](PlanInputs& i) { i.masks[1].window_tokens = 0; }},
      {"masks[0].window", [](PlanInputs& i) { i.masks[0].window_tokens = 4; }},
  };
  expect_refusals(rows);
}

TEST(Validate, EveryImpossibleLimitAndOptionIsRefusedByTheNameOfItsField) {
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<BadValue> rows = {
      {"window", [](PlanInputs& i) { i.limits.window_tokens = 0; }},
      {"window", [](PlanInputs& i) { i.limits.window_tokens = i.limits.max_tokens = int64_t{1} << 40; }},
      {"max_tokens", [](PlanInputs& i) { i.limits.max_tokens = 99; }},
      {"max_tokens", [](PlanInputs& i) { i.limits.max_tokens = huge; }},
      {"align", [](PlanInputs& i) { i.limits.align_tokens = 0; }},
      {"align", [](PlanInputs& i) { i.limits.align_tokens = 129; }},
      {"max_tokens", [](PlanInputs& i) { i.limits.align_tokens = 3; }},
      {"exchange_bytes", [](PlanInputs& i) { i.limits.exchange_bytes = 0; }},
      {"activation_bytes", [](PlanInputs& i) { i.limits.activation_bytes = -1; }},
      {"max_documents", [](PlanInputs& i) { i.limits.max_documents = 0; }},
      {"epoch", [](PlanInputs& i) { i.arrival.epoch = -1; }},
      {"max_delay", [](PlanInputs& i) { i.delay.max_delay_steps = -2; }},
      {"repack_window", [](PlanInputs& i) { i.delay.repack_window_steps = 0; }},
      {"queues", [](PlanInputs& i) { i.delay.queue_tokens = {0}; }},
      {"queues", [](PlanInputs& i) { i.delay.queue_tokens = {50, 50}; }},
      {"grid_rows", [](PlanInputs& i) { i.grid_rows = 0; }},
      {"speeds[3]", [](PlanInputs& i) { i.speeds_ppt = std::vector<int64_t>(12, 1000), i.speeds_ppt[3] = 0; }},
  };
  expect_refusals(rows);
}

TEST(Validate, EveryImpossibleCostIsRefusedByTheNameOfItsField) {
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<BadValue> rows = {
      {"cost.layers", [](PlanInputs& i) { i.cost.layers = 0; }},
      {"cost.element_bytes", [](PlanInputs& i) { i.cost.element_bytes = 0; }},
      {"cost.attention.tile_rows", [](PlanInputs& i) { i.cost.attention.tile_rows = 0; }},
      {"cost.attention.tile_ps", [](PlanInputs& i) { i.cost.attention.tile_ps.clear(); }},
      {"cost.attention.tile_ps[1]", [](PlanInputs& i) { i.cost.attention.tile_ps = {{5, 1}, {5, 2}}; }},
      {"cost.attention.backward_ppm[0].y", [](PlanInputs& i) { i.cost.attention.backward_ppm = {{0, -1}}; }},
      {"cost.linear.token_ps[0].x", [](PlanInputs& i) { i.cost.linear.token_ps = {{-1, 0}}; }},
      {"cost.node.latency_ns", [](PlanInputs& i) { i.cost.node.latency_ns = -1; }},
      {"cost.network.kilobyte_ps", [](PlanInputs& i) { i.cost.network.kilobyte_ps = huge; }},
  };
  expect_refusals(rows);
}

TEST(DefaultPool, IsTheLargestDivisorOfDpUpToEight) {
  EXPECT_EQ(default_pool(1), 1);
  EXPECT_EQ(default_pool(6), 6);
  EXPECT_EQ(default_pool(7), 7);
  EXPECT_EQ(default_pool(12), 6);
  EXPECT_EQ(default_pool(13), 1);
  EXPECT_EQ(default_pool(64), 8);
}

TEST(DefaultMaxTokens, IsTheWindowWithItsPadding) {
  EXPECT_EQ(default_max_tokens(100, {.cp = 3}, 1), 100) << "nothing is padded";
  EXPECT_EQ(default_max_tokens(100, {.cp = 2}, 4), 104);
  EXPECT_EQ(default_max_tokens(104, {.cp = 2}, 4), 104);
  EXPECT_EQ(default_max_tokens(100, {.cp = 3, .tp = 5}, 5), 120) << "an odd number is padded in pairs";
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(default_max_tokens(huge, {.cp = huge}, huge), huge) << "left for validate() to refuse";
  EXPECT_EQ(default_max_tokens(100, {.cp = 2}, 0), 100);
}

TEST(Validate, SaysHowMuchRoomPaddingNeeds) {
  EXPECT_EQ(refusal_of([](PlanInputs& i) { i.limits.align_tokens = 129; }),
            "align 129 is above the window of 100 tokens, field align: give at most 128, or a larger window");
  EXPECT_EQ(
      refusal_of([](PlanInputs& i) { i.limits.align_tokens = 8; }),
      "max_tokens 100 has no room for the padding of 2 ranks to rows of align 8, field max_tokens: give a multiple "
      "of 16, such as 112");
  EXPECT_EQ(refusal_of([](PlanInputs& i) { i.limits.align_tokens = 50; }), "");
}

TEST(Validate, OnlyTheDivisorsOfSixReplicasMakePools) {
  std::vector<int64_t> accepted;
  for (int64_t pool = 0; pool <= 8; ++pool)
    if (refusal_of([&](PlanInputs& inputs) { inputs.pool = pool; }).empty()) accepted.push_back(pool);
  EXPECT_EQ(accepted, (std::vector<int64_t>{1, 2, 3, 6}));
}

/// One change of each value that decides a plan.
std::vector<Change> all_changes() {
  return {
      [](PlanInputs& i) { i.strategy = Strategy::plain; },
      [](PlanInputs& i) { i.mesh.dp = 12; },
      [](PlanInputs& i) { i.mesh.ranks_per_node = 4; },
      [](PlanInputs& i) { std::swap(i.mesh.order[0], i.mesh.order[1]); },
      [](PlanInputs& i) { i.pool = 6; },
      [](PlanInputs& i) { i.micro_steps = 2; },
      [](PlanInputs& i) { i.heads.size = 128; },
      [](PlanInputs& i) { i.masks[1].window_tokens = 17; },
      [](PlanInputs& i) { i.limits.window_tokens = 90; },
      [](PlanInputs& i) { i.limits.max_tokens = 110; },
      [](PlanInputs& i) { i.limits.align_tokens = 2; },
      [](PlanInputs& i) { i.limits.exchange_bytes = 1000; },
      [](PlanInputs& i) { i.limits.activation_bytes = 1000; },
      [](PlanInputs& i) { i.limits.max_documents = 1000; },
      [](PlanInputs& i) { i.dp_sync = DpSync::micro_step; },
      [](PlanInputs& i) { i.arrival.seed = 1; },
      [](PlanInputs& i) { i.arrival.epoch = 1; },
      [](PlanInputs& i) { i.arrival.shuffle = true; },
      [](PlanInputs& i) { i.arrival.overlong = Overlong::drop; },
      [](PlanInputs& i) { i.delay.max_delay_steps = 3; },
      [](PlanInputs& i) { i.delay.repack_window_steps = 2; },
      [](PlanInputs& i) { i.delay.queue_tokens = {50}; },
      [](PlanInputs& i) { i.speeds_ppt.assign(12, 999); },
      [](PlanInputs& i) { i.effort = Effort::thorough; },
      [](PlanInputs& i) { i.gradient_sum = GradientSum::invariant; },
      [](PlanInputs& i) { i.grid_rows = 64; },
      [](PlanInputs& i) { i.keep_received = true; },
      [](PlanInputs& i) { i.cost.model = "other"; },
      [](PlanInputs& i) { i.cost.hardware = "other"; },
      [](PlanInputs& i) { i.cost.layers = 5; },
      [](PlanInputs& i) { i.cost.element_bytes = 4; },
      [](PlanInputs& i) { i.cost.statistic_bytes = 8; },
      [](PlanInputs& i) { i.cost.activation_bytes = 7; },
      [](PlanInputs& i) { i.cost.attention.tile_rows = 64; },
      [](PlanInputs& i) { i.cost.attention.tile_keys = 64; },
      [](PlanInputs& i) { i.cost.attention.call_ns = 7; },
      [](PlanInputs& i) { i.cost.attention.entry_ns = 7; },
      [](PlanInputs& i) { i.cost.attention.block_ps = 7; },
      [](PlanInputs& i) { i.cost.attention.tile_ps = {{0, 7}}; },
      [](PlanInputs& i) { i.cost.attention.kilobyte_ps = 7; },
      [](PlanInputs& i) { i.cost.attention.backward_ppm = {{0, 7}}; },
      [](PlanInputs& i) { i.cost.linear.token_ps = {{0, 7}}; },
      [](PlanInputs& i) { i.cost.linear.backward_ppm = 7; },
      [](PlanInputs& i) { i.cost.node.latency_ns = 7; },
      [](PlanInputs& i) { i.cost.network.kilobyte_ps = 7; },
  };
}

TEST(InputFields, EachFieldStandsOnceAndTheHashCoversIt) {
  const std::vector<Change> changes = all_changes();
  const PlanInputs sound = sound_inputs();
  const auto fields = input_fields(sound);
  std::set<std::string> names;
  for (const auto& [field, value] : fields) names.insert(field);
  EXPECT_EQ(names.size(), fields.size());
  EXPECT_EQ(fields.size(), changes.size());

  std::set<std::string> changed;
  for (const Change& change : changes) {
    PlanInputs inputs = sound;
    change(inputs);
    ASSERT_NE(hash_inputs(inputs), hash_inputs(sound));
    const auto other = input_fields(inputs);
    for (std::size_t f = 0; f < fields.size(); ++f)
      if (other[f] != fields[f]) changed.insert(fields[f].first);
  }
  EXPECT_EQ(changed, names);
}

TEST(Names, EveryNameIsReadBack) {
  for (const char* text : {"plain", "allgather", "ulysses", "fixed", "wlb", "libra", "equipoise"})
    EXPECT_EQ(name(parse_strategy(text)), text);
  for (const char* text : {"step", "micro_step"}) EXPECT_EQ(name(parse_dp_sync(text)), text);
  for (const char* text : {"fast", "normal", "thorough"}) EXPECT_EQ(name(parse_effort(text)), text);
  for (const char* text : {"fast", "invariant"}) EXPECT_EQ(name(parse_gradient_sum(text)), text);
  for (const char* text : {"error", "split", "truncate", "drop"}) EXPECT_EQ(name(parse_overlong(text)), text);
}

TEST(Names, AnUnknownNameIsRefusedWithTheChoices) {
  try {
    parse_overlong("cut");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "overlong 'cut' is not known, field overlong: use one of error, split, truncate, drop");
  }
}

TEST(Presets, AnOptionThatAStrategyDoesNotHaveIsRefused) {
  const auto refused = [](Strategy strategy, Delay delay) {
    PlanInputs inputs = sound_inputs();
    inputs.strategy = strategy;
    inputs.delay = std::move(delay);
    try {
      stages_of(inputs);
    } catch (const InputError&) {
      return true;
    }
    return false;
  };
  const Delay waits{.max_delay_steps = 2, .repack_window_steps = 1, .queue_tokens = {}};
  const Delay no_end{.max_delay_steps = no_bound, .repack_window_steps = 1, .queue_tokens = {}};
  const Delay repacks{.max_delay_steps = 0, .repack_window_steps = 2, .queue_tokens = {}};
  const Delay queues{.max_delay_steps = no_bound, .repack_window_steps = 1, .queue_tokens = {50}};
  EXPECT_TRUE(refused(Strategy::plain, waits));
  EXPECT_FALSE(refused(Strategy::equipoise, waits));
  EXPECT_TRUE(refused(Strategy::equipoise, no_end));
  EXPECT_FALSE(refused(Strategy::wlb, no_end));
  EXPECT_FALSE(refused(Strategy::fixed, repacks));
  EXPECT_TRUE(refused(Strategy::libra, repacks));
  EXPECT_FALSE(refused(Strategy::wlb, queues));
  EXPECT_TRUE(refused(Strategy::equipoise, queues));
}

TEST(Presets, OnlyEquipoiseWithADelayLooksAhead) {
  PlanInputs inputs = sound_inputs();
  inputs.strategy = Strategy::equipoise;
  EXPECT_EQ(stages_of(inputs).packing, PackingRule::plain);
  inputs.delay.max_delay_steps = 1;
  EXPECT_EQ(stages_of(inputs).packing, PackingRule::look_ahead);
}

}  // namespace
}  // namespace equipoise
