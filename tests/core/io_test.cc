#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "equipoise/base/errors.h"
#include "io/files.h"
#include "io/hardware_file.h"
#include "io/model_file.h"
#include "io/plan_file.h"
#include "io/verify_file.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

namespace fs = std::filesystem;

/// An empty folder of this test alone.
std::string folder() {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path path = fs::path(::testing::TempDir()) / (std::string("io_test_") + test->name());
  fs::remove_all(path);
  fs::create_directories(path);
  return path.string() + "/";
}

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string text_of(const Violations& violations) {
  std::string text;
  for (const Violation& violation : violations)
    text += violation.rule + ", " + violation.where + ": " + violation.what + "\n";
  return text;
}

/// A plan of one step as a line, with the summary that belongs to it.
PlanLine line_of(const RandomPlan& plan, bool brief) {
  return {plan.inputs, {plan.step, plan.buckets, summarize(plan.inputs, plan.step, plan.buckets)}, brief};
}

/// What a file keeps of a plan: messages are derived from tiles, so they are not in it.
PlannedStep without_exchanges(PlannedStep planned) {
  for (BucketPlan& bucket : planned.buckets)
    for (LayerPlan& layer : bucket.layers) layer.exchange = {};
  return planned;
}

/// Inputs in which no field has its default.
PlanInputs unusual_inputs() {
  PlanInputs inputs;
  inputs.strategy = Strategy::wlb;
  inputs.mesh = {
      .dp = 4, .pp = 3, .cp = 2, .tp = 5, .ranks_per_node = 7, .order = {Axis::dp, Axis::tp, Axis::pp, Axis::cp}};
  inputs.pool = 2;
  inputs.micro_steps = 6;
  inputs.heads = {12, 3, 65};
  inputs.masks = {{MaskKind::full, 0, 2}, {MaskKind::sliding_window, 9, 3}};
  inputs.limits = {100, 208, 8, 1 << 20, 1 << 21, 50};
  inputs.dp_sync = DpSync::micro_step;
  inputs.arrival = {-77, 5, true, Overlong::truncate};
  inputs.delay = {no_bound, 4, {30, 60}};
  inputs.cost.model = "a \"model\"";
  inputs.cost.hardware = "\xC3\xA9tude";
  inputs.cost.layers = 5;
  inputs.cost.element_bytes = 4;
  inputs.cost.statistic_bytes = 8;
  inputs.cost.activation_bytes = 11;
  inputs.cost.attention = {16, 32, 1, 2, 3, {{0, 4}, {5, 6}}, 7, {{1, 8}, {9, 10}}};
  inputs.cost.linear = {{{2, 11}, {3, 12}}, 13};
  inputs.cost.node = {14, 15};
  inputs.cost.network = {16, 17};
  inputs.speeds_ppt = {1000, 999, 998, 997, 996, 995, 994, 993};
  inputs.gradient_sum = GradientSum::invariant;
  inputs.grid_rows = 18;
  inputs.keep_received = true;
  return inputs;
}

TEST(PlanFile, EveryFieldOfTheInputsComesBack) {
  PlanLine line;
  line.inputs = unusual_inputs();
  const RandomPlan plan = random_plan(1);
  line.planned.step.inputs_hash = hash_inputs(line.inputs);
  for (int64_t i = 0; i < line.inputs.sequences(); ++i) line.planned.step.slots.push_back({i / 4, i % 4});
  line.planned.step.sequences.resize(line.planned.step.slots.size());
  line.planned.step.buckets = make_buckets(line.planned.step.slots, 4, 2);
  for (const Bucket& bucket : line.planned.step.buckets)
    line.planned.buckets.push_back(
        {bucket, std::vector<Sequence>(2), std::vector<Sharding>(2), std::vector<LayerPlan>(2)});
  const PlanLine read = read_plan_line(write_plan_line(line), "x");
  EXPECT_EQ(read.inputs, line.inputs);
  EXPECT_EQ(read.planned.step.inputs_hash, hash_inputs(read.inputs));
}

TEST(PlanFile, AStepComesBackAsItWas) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PlanLine line = line_of(random_plan(seed, seed % 2 == 1), false);
    const PlanLine read = read_plan_line(write_plan_line(line), "x");
    EXPECT_EQ(read.inputs, line.inputs) << seed;
    EXPECT_EQ(read.planned.summary, line.planned.summary) << seed;
    EXPECT_EQ(read.planned, without_exchanges(line.planned)) << seed;
    EXPECT_EQ(write_plan_line(read), write_plan_line(line)) << seed;
  }
}

TEST(PlanFile, ABriefLineKeepsAllButShardsAndTiles) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const PlanLine line = line_of(random_plan(seed), true);
    const std::string text = write_plan_line(line);
    EXPECT_EQ(text.find("\"shards\""), std::string::npos);
    EXPECT_EQ(text.find("\"tiles\""), std::string::npos);
    const PlanLine read = read_plan_line(text, "x");
    EXPECT_TRUE(read.brief);
    EXPECT_EQ(read.planned.step, line.planned.step);
    EXPECT_EQ(read.planned.summary, line.planned.summary);
  }
}

TEST(PlanFile, NoLineThatIsCutOffIsRead) {
  const std::string text = write_plan_line(line_of(random_plan(3), false));
  for (size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_NE(refusal([&] { read_plan_line(text.substr(0, size), "x"); }), "") << size;
}

TEST(PlanFile, AKeyThatComesTwiceIsRefused) {
  std::string text = write_plan_line(line_of(random_plan(3), false));
  text.insert(1, "\"step\":0,");
  EXPECT_EQ(refusal([&] { read_plan_line(text, "line 1 of p"); }),
            "key \"step\" comes twice, line 1 of p: give each key once");
}

TEST(PlanFile, ANewerVersionSaysSo) {
  std::string text = write_plan_line(line_of(random_plan(3), false));
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  EXPECT_EQ(
      refusal([&] { read_plan_line(text, "line 1 of p"); }),
      "version 2 is newer than the 1 this program reads, line 1 of p: use the equipoise that wrote it, or a newer one");
}

TEST(PlanFile, PlansOfEveryStrategyAreValidInFullAndInBrief) {
  const std::string path = folder() + "plan.jsonl";
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomPlan plan = random_plan(seed, seed % 4 == 1);
    if (plan.before != PackerState{}) continue;  // a file begins with step 0
    const bool brief = seed % 4 == 2;
    write(path, write_plan_line(line_of(plan, brief)));
    const FileVerdict verdict = verify_plan_file(path, [](int64_t) {});
    EXPECT_EQ(text_of(verdict.violations), "") << seed;
    EXPECT_EQ(verdict.buckets, static_cast<int64_t>(plan.buckets.size()));
    EXPECT_EQ(verdict.replanned, brief ? 1 : 0);
  }
}

TEST(Files, LinesAreWholeAcrossThePartsInWhichAFileIsRead) {
  const std::string longer(200'000, 'x');
  const std::string path = write(folder() + "lines", "a\n" + longer + "\n\nlast");
  std::vector<std::string> lines;
  read_lines(path, [&](std::string_view line, int64_t number) {
    lines.emplace_back(line);
    EXPECT_EQ(number, static_cast<int64_t>(lines.size()));
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"a", longer, "", "last"}));
}

TEST(Files, AnEndlessFileOfZeroBytesIsLeft) {
  int64_t lines = 0;
  read_lines("/dev/zero", [&](std::string_view, int64_t) { ++lines; });
  EXPECT_EQ(lines, 1);
}

TEST(Files, AnOutputThatIsNotFinishedLeavesTheOldFile) {
  const std::string path = write(folder() + "out", "old");
  {
    OutputFile file(path);
    file.write("new");
  }
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_FALSE(fs::exists(path + ".part"));
}

TEST(Files, AnOutputThatIsFinishedIsThereInWhole) {
  const std::string path = folder() + "out";
  OutputFile file(path);
  file.write("new ");
  file.write("text");
  EXPECT_FALSE(fs::exists(path));
  file.finish();
  EXPECT_EQ(read_bytes(path), "new text");
  EXPECT_FALSE(fs::exists(path + ".part"));
}

TEST(Files, WhatCannotBeReadIsNamedWithTheReason) {
  const std::string here = folder();
  EXPECT_EQ(refusal([&] { read_bytes(here + "none"); }), "the file cannot be opened (No such file or directory), " +
                                                             here + "none: give a file that exists and may be read");
  EXPECT_EQ(refusal([&] { read_bytes(here); }), "this is a folder, " + here + ": give a file, or - for standard input");
}

TEST(HardwareFile, HardwareComesBackAsItWas) {
  const Hardware hardware = find_hardware("h100");
  const std::string path = write(folder() + "h.json", hardware_json(hardware));
  EXPECT_EQ(read_hardware_file(path), hardware);
  EXPECT_EQ(load_hardware(path), hardware);
  EXPECT_EQ(load_hardware("h100"), hardware);
}

TEST(HardwareFile, AWrongFileIsRefusedWithItsKey) {
  const std::string path = folder() + "h.json";
  const auto refusal_of = [&](const std::string& from, const std::string& to) {
    std::string text = hardware_json(find_hardware("h100"));
    text.replace(text.find(from), from.size(), to);
    write(path, text);
    return refusal([&] { read_hardware_file(path); });
  };
  EXPECT_EQ(refusal_of("\"element_bytes\"", "\"element_byte\""),
            "key \"element_bytes\" is missing, " + path + ": give all keys of this format");
  EXPECT_EQ(
      refusal_of("\"call_ns\": ", "\"more\": 1, \"call_ns\": "),
      "key \"attention.more\" is not known, " + path + ": remove it, or use the version of equipoise that wrote it");
  EXPECT_EQ(refusal_of("\"element_bytes\": 2", "\"element_bytes\": \"2\""),
            "key \"element_bytes\" is a string, " + path + ": give an integer of at most 64 bits");
  EXPECT_EQ(refusal_of("\"element_bytes\": 2", "\"element_bytes\": 2.0"),
            "key \"element_bytes\" is 2.0, no integer, " + path + ": give an integer of at most 64 bits");
  EXPECT_EQ(refusal_of("equipoise.hardware", "equipoise.plan"),
            "this is a file of format \"equipoise.plan\", " + path + ": give one of format \"equipoise.hardware\"");
}

TEST(ModelFile, AModelComesBackAsItWas) {
  const ModelShape model = find_model("qwen3-30b-a3b");
  const std::string path = write(folder() + "m.json", model_json(model));
  EXPECT_EQ(read_model_file(path), model);
  EXPECT_EQ(load_model(path), model);
  EXPECT_EQ(load_model("qwen3-30b-a3b"), model);
}

TEST(ModelFile, HeadsThatKvHeadsDoNotDivideAreRefused) {
  ModelShape model = find_model("llama3-8b");
  model.query_heads = 12;
  const std::string path = write(folder() + "m.json", model_json(model));
  EXPECT_EQ(refusal([&] { read_model_file(path); }),
            "key \"kv_heads\" is 8, " + path + ": give a divisor of query_heads 12");
}

}  // namespace
}  // namespace equipoise
