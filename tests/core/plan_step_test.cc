#include <gtest/gtest.h>

#include <map>
#include <string>

#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/verify/verify.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Lengths = std::vector<int64_t>;

/// dp replicas with one micro-step, pool of all; attention costs 1 ns a pair: tiles of 1 x 1.
PlanInputs inputs_for(int64_t dp, int64_t window, Strategy strategy = Strategy::plain) {
  PlanInputs inputs;
  inputs.strategy = strategy;
  inputs.mesh.dp = dp;
  inputs.pool = dp;
  inputs.limits.window_tokens = inputs.limits.max_tokens = window;
  inputs.cost.attention.tile_rows = inputs.cost.attention.tile_keys = 1;
  inputs.cost.attention.tile_ps = {{0, 1000}};
  return inputs;
}

StepPlan first_step(const PlanInputs& inputs, const Lengths& lengths) {
  return plan_step(inputs, make_corpus(lengths, inputs.arrival), {});
}

std::string explain(const Violations& violations) {
  std::string text;
  for (const Violation& violation : violations)
    text += violation.rule + " | " + violation.where + " | " + violation.what + "\n";
  return text;
}

std::string refusal(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  try {
    plan_step(inputs, corpus, state);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanStep, FillsEveryFieldOfTheStep) {
  PlanInputs inputs = inputs_for(4, 8);
  inputs.pool = 2;
  const StepPlan step = first_step(inputs, {8, 1, 8, 1});
  EXPECT_EQ(step.step, 0);
  EXPECT_EQ(step.inputs_hash, hash_inputs(inputs));
  EXPECT_EQ(step.arrived, (std::pair<int64_t, int64_t>{0, 4}));
  EXPECT_EQ(step.documents.size(), 4U);
  EXPECT_EQ(step.sequences.size(), 4U);
  EXPECT_EQ(step.slots, (std::vector<Slot>{{0, 0}, {0, 1}, {0, 2}, {0, 3}}));
  EXPECT_EQ(step.buckets, make_buckets(step.slots, 4, 2));
  EXPECT_EQ(step.state_after, (PackerState{.step = 1, .position = 4, .arrived_tokens = 18, .held = {}}));
  EXPECT_EQ(step.loss_tokens, 7 + 0 + 7 + 0);
}

TEST(PlanStep, BalancesAreHeaviestOverMeanAndTheBoundOverMean) {
  PlanInputs inputs = inputs_for(4, 8);
  inputs.pool = 2;
  const StepPlan step = first_step(inputs, {8, 8, 1, 1});
  // Forward and backward of a causal document of 8 tokens against one of 1: 36 to 1.
  EXPECT_EQ(step.micro_batches.imbalance_ppm, 36 * 4 * ppm_one / 74);
  EXPECT_EQ(step.micro_batches.lower_bound_ppm, step.micro_batches.imbalance_ppm);
  EXPECT_EQ(step.pools.imbalance_ppm, 72 * 2 * ppm_one / 74);
  EXPECT_EQ(step.pools.lower_bound_ppm, ppm_one);
  inputs.strategy = Strategy::libra;
  EXPECT_EQ(first_step(inputs, {8, 8, 1, 1}).pools.imbalance_ppm, ppm_one);
}

TEST(PlanStep, AStepWithoutWorkIsLevel) {
  const StepPlan step = first_step(inputs_for(2, 8), {0, 0});
  EXPECT_EQ(step.micro_batches, (Balance{ppm_one, ppm_one}));
  EXPECT_EQ(step.pools, (Balance{ppm_one, ppm_one}));
  EXPECT_EQ(step.loss_tokens, 0);
  EXPECT_EQ(step.documents.size(), 2U);
}

TEST(PlanStep, APackingCutHidesNoTarget) {
  // 6 + 8 + 6 tokens in two windows of 10: document 1 is cut in the middle, and still has 7 targets.
  EXPECT_EQ(first_step(inputs_for(2, 10), {6, 8, 6}).loss_tokens, 5 + 7 + 5);
}

TEST(PlanStep, TruncationHidesTheTargetOfTheLastRow) {
  PlanInputs inputs = inputs_for(2, 10);
  inputs.arrival.overlong = Overlong::truncate;
  EXPECT_EQ(first_step(inputs, {14, 3}).loss_tokens, 9 + 2);
  inputs.arrival.overlong = Overlong::drop;
  EXPECT_EQ(first_step(inputs, {14, 3}).loss_tokens, 2);
}

TEST(PlanStep, ADocumentsOwnTargetsCountWhereItsLastTokenIsTrained) {
  const PlanInputs inputs = inputs_for(1, 10);
  const Corpus corpus = make_corpus(std::vector<Document>{{DocId{0}, 25, 7}, {DocId{1}, 5, 2}}, inputs.arrival);
  PackerState state;
  Lengths counts;
  while (!is_finished(corpus, state)) {
    const StepPlan step = plan_step(inputs, corpus, state);
    counts.push_back(step.loss_tokens);
    state = step.state_after;
  }
  EXPECT_EQ(counts, (Lengths{0, 0, 7 + 2}));
}

TEST(PlanStep, LibraAndEquipoiseHaveTheSegmentsOfPlain) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    inputs.gradient_sum = GradientSum::fast;  // ulysses may not fit the grid
    const Corpus corpus = make_corpus(random_lengths(rng, inputs), inputs.arrival);
    if (is_finished(corpus, {})) continue;
    inputs.strategy = Strategy::plain;
    const StepPlan plain = plan_step(inputs, corpus, {});
    for (const Strategy strategy : {Strategy::allgather, Strategy::ulysses, Strategy::libra, Strategy::equipoise}) {
      inputs.strategy = strategy;
      EXPECT_EQ(plan_step(inputs, corpus, {}).sequences, plain.sequences);
    }
  }
}

TEST(PlanStep, AStateThatDoesNotBelongToTheDocumentsIsRefused) {
  const PlanInputs inputs = inputs_for(2, 10);
  const Corpus corpus = make_corpus(Lengths{6, 8, 6}, inputs.arrival);
  EXPECT_EQ(refusal(inputs, corpus, {.step = 1, .position = 4, .held = {}}),
            "position 4 at step 1 does not fit 3 documents, sampler state: "
            "use the documents, seed and options with which the state was saved");
  for (const Held& held : {Held{DocId{3}, 0, 1, 0, -1}, Held{DocId{-1}, 0, 1, 0, -1}, Held{DocId{0}, 0, 7, 0, -1},
                           Held{DocId{0}, -1, 2, 0, -1}, Held{DocId{0}, 0, 0, 0, -1}, Held{DocId{0}, 0, 1, 2, -1}})
    EXPECT_NE(refusal(inputs, corpus, {.step = 1, .position = 2, .held = {held}}), "");
}

TEST(PlanStep, NothingLeftToPlanIsAnErrorOfTheCaller) {
  const PlanInputs inputs = inputs_for(2, 10);
  EXPECT_EQ(refusal(inputs, make_corpus(Lengths{}, {}), {}),
            "no document is left to plan, step 0: begin another epoch, or give more documents");
}

TEST(CaseP15, ThePlanOfLongDocumentsKeepsTheirWorkExact) {
  PlanInputs inputs = inputs_for(4, 1 << 21, Strategy::equipoise);
  inputs.pool = 2;
  const StepPlan step = first_step(inputs, {46341, 65536, 1 << 20, 1 << 21});
  const int64_t total = 1073767311 + 2147516416 + 549756338176 + 2199024304128;
  EXPECT_EQ(step.micro_batches.imbalance_ppm, mul_div(2199024304128, 4 * ppm_one, total));
}

TEST(CaseP16, AZeroLengthDocumentIsListedAsTrained) {
  const StepPlan step = first_step(inputs_for(2, 8), {3, 0, 2});
  EXPECT_EQ(step.documents.size(), 3U);
  EXPECT_EQ(step.documents[1].length_tokens, 0);
  EXPECT_EQ(step.loss_tokens, 3);
  EXPECT_EQ(explain(check_packing(inputs_for(2, 8), {}, step)), "");
}

TEST(CaseP17, OneDocumentPlansAllSequences) {
  const PlanInputs inputs = inputs_for(4, 8, Strategy::equipoise);
  const StepPlan step = first_step(inputs, {6});
  EXPECT_EQ(step.sequences.size(), 4U);
  EXPECT_EQ(explain(check_packing(inputs, {}, step)), "");
  EXPECT_EQ(explain(check_placement(inputs, step)), "");
}

/// Plans to the end, checks each step, and adds up targets and tokens of each document.
void expect_sound_run(const PlanInputs& inputs, const Corpus& corpus) {
  std::map<int64_t, int64_t> tokens;
  int64_t targets = 0;
  int64_t planned_targets = 0;
  PackerState state;
  while (!is_finished(corpus, state)) {
    const StepPlan step = plan_step(inputs, corpus, state);
    ASSERT_EQ(explain(check_packing(inputs, state, step)), "");
    ASSERT_EQ(explain(check_placement(inputs, step)), "");
    ASSERT_EQ(step, plan_step(inputs, corpus, state));
    EXPECT_GE(step.pools.imbalance_ppm, step.pools.lower_bound_ppm);
    EXPECT_GE(step.micro_batches.imbalance_ppm, step.micro_batches.lower_bound_ppm);
    for (const Sequence& sequence : step.sequences)
      for (const Segment& segment : sequence.segments) tokens[segment.document.value] += segment.length_tokens;
    for (const auto& [id, lost] : step.untrained.dropped) tokens[id.value] += lost;
    for (const auto& [id, lost] : step.untrained.truncated) tokens[id.value] += lost;
    planned_targets += step.loss_tokens;
    state = step.state_after;
  }
  for (const Document& document : corpus.documents) {
    EXPECT_EQ(tokens[document.id.value], document.length_tokens);
    const int64_t extent = admitted_tokens(document, inputs.limits.window_tokens, inputs.arrival.overlong);
    targets += std::max<int64_t>(0, extent - 1);
  }
  EXPECT_EQ(planned_targets, targets);
}

TEST(PlanStep, EveryCheckerIsContentWithEveryStepOfRandomRuns) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 rng{seed};
    PlanInputs inputs = random_inputs(rng);
    if (seed % 3 == 0) inputs.strategy = Strategy::fixed;
    inputs.arrival.overlong = static_cast<Overlong>(random_between(rng, 1, 3));
    ASSERT_NO_THROW(validate(inputs));
    Lengths lengths;
    for (int64_t part = random_between(rng, 1, 4); part > 0; --part)
      for (const int64_t length : random_lengths(rng, inputs)) lengths.push_back(length);
    expect_sound_run(inputs, make_corpus(lengths, inputs.arrival));
  }
}

TEST(CheckCorpus, ADocumentTooLongForThePromisedDelayIsRefusedBeforeTheFirstStep) {
  PlanInputs inputs = inputs_for(2, 100, Strategy::equipoise);
  inputs.delay.max_delay_steps = 2;  // three steps of two sequences hold six pieces
  EXPECT_NO_THROW(check_corpus(inputs, make_corpus(Lengths{5, 600, 7}, inputs.arrival)));
  const Corpus corpus = make_corpus(Lengths{5, 601, 7}, inputs.arrival);
  try {
    check_corpus(inputs, corpus);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("7 pieces of 100 tokens cannot be trained within max_delay 2, in 3 steps of 2 "
                        "sequences, document 1"),
              std::string::npos)
        << error.what();
  }
  inputs.arrival.overlong = Overlong::truncate;
  EXPECT_NO_THROW(check_corpus(inputs, corpus));
}

TEST(CheckState, WhatNoStepCanHaveLeftIsRefusedAndWhatEachStepLeavesIsNot) {
  for (const Strategy strategy : {Strategy::plain, Strategy::fixed, Strategy::wlb, Strategy::equipoise}) {
    PlanInputs inputs = inputs_for(2, 100, strategy);
    inputs.limits.max_tokens = 150;
    if (strategy == Strategy::fixed) inputs.delay.repack_window_steps = 3;
    if (strategy == Strategy::wlb) inputs.delay = {.max_delay_steps = no_bound, .queue_tokens = {50, 80}};
    if (strategy == Strategy::equipoise) inputs.delay.max_delay_steps = 3;
    SplitMix64 rng{5};
    Lengths lengths(60);
    for (int64_t& length : lengths) length = random_between(rng, 1, 190);
    lengths[12] = 500;  // longer than a step: plain holds a part of it
    const Corpus corpus = make_corpus(lengths, inputs.arrival);
    PackerState state;
    while (state.step < 4 || state.held.empty()) {
      state = plan_step(inputs, corpus, state).state_after;
      EXPECT_NO_THROW(check_state(inputs, corpus, state)) << name(strategy);
    }
    const auto refused = [&](const char* why, auto change) {
      PackerState wrong = state;
      change(wrong);
      try {
        check_state(inputs, corpus, wrong);
        ADD_FAILURE() << name(strategy) << ": accepted " << why;
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find(", sampler state: "), std::string::npos) << error.what();
      }
    };
    refused("a piece held twice", [](PackerState& s) { s.held.push_back(s.held.front()); });
    refused("a document to come", [](PackerState& s) { s.held.push_back({DocId{59}, 0, 1, s.step, -1}); });
    refused("a new start", [](PackerState& s) { s.position = 0; });
    refused("other tokens", [](PackerState& s) { ++s.arrived_tokens; });
    refused("a queue that is none", [](PackerState& s) { s.held.front().queue = 1'000'000'000'000; });
    refused("a queue below all", [](PackerState& s) { s.held.front().queue = -2; });
    refused("a future arrival", [](PackerState& s) { s.held.front().since_step = s.step + 1; });
    if (strategy == Strategy::fixed)
      refused("a planned sequence above the window", [](PackerState& s) {
        for (Held& held : s.held) held.queue = 0;
      });
    if (strategy == Strategy::equipoise) refused("a document later than promised", [](PackerState& s) { s.step += 9; });
  }
}

}  // namespace
}  // namespace equipoise
