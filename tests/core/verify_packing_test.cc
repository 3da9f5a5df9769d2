#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/verify/verify.h"

// Packing and placement, checked on plans small enough to read.

namespace equipoise {
namespace {

/// Two sequences of at most 8 tokens.
PlanInputs two_windows() {
  PlanInputs inputs;
  inputs.strategy = Strategy::plain;
  inputs.mesh.dp = 2;
  inputs.pool = 2;
  inputs.limits.window_tokens = inputs.limits.max_tokens = 8;
  return inputs;
}

Document document(int64_t id, int64_t length) { return {DocId{id}, length, std::max<int64_t>(0, length - 1)}; }

/// Documents 0 (5 tokens), 1 (6 tokens, cut by packing), 2 (empty) and 3 (4 tokens) arrive in the first step.
StepPlan first_step() {
  StepPlan step;
  step.arrived = {0, 4};
  step.documents = {document(0, 5), document(1, 6), document(2, 0), document(3, 4)};
  step.sequences = {{{{DocId{0}, 0, 5}, {DocId{1}, 0, 3}}}, {{{DocId{1}, 3, 3}, {DocId{3}, 0, 4}}}};
  step.slots = {{0, 0}, {0, 1}};
  step.buckets = {{0, 0, {SeqId{0}, SeqId{1}}}};
  step.state_after = {.step = 1, .position = 4, .arrived_tokens = 15, .held = {}};
  step.loss_tokens = 4 + 5 + 3;
  return step;
}

/// The rules that speak, in order.
std::vector<std::string> rules(const Violations& found) {
  std::vector<std::string> names;
  for (const Violation& violation : found)
    if (names.empty() || names.back() != violation.rule) names.push_back(violation.rule);
  return names;
}

std::vector<std::string> packing_rules(const StepPlan& step, const PlanInputs& inputs = two_windows(),
                                       const PackerState& before = {}) {
  return rules(check_packing(inputs, before, step));
}

using Rules = std::vector<std::string>;

TEST(CheckPacking, AcceptsDocumentsCutAtSequenceBordersAndEmptyOnes) {
  EXPECT_EQ(packing_rules(first_step()), Rules{});
}

TEST(CheckPacking, NamesTheTokensThatAreLost) {
  StepPlan step = first_step();
  step.sequences[1].segments[0] = {DocId{1}, 4, 2};
  const Violations found = check_packing(two_windows(), {}, step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "token trained once");
  EXPECT_EQ(found[0].where, "document 1 of step 0");
  EXPECT_EQ(found[0].what, "tokens [3, 4) are neither trained nor held");
}

TEST(CheckPacking, NamesTheTokensThatAreTrainedTwice) {
  StepPlan step = first_step();
  step.sequences[1].segments[0] = {DocId{1}, 2, 4};
  const Violations found = check_packing(two_windows(), {}, step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].what, "tokens [2, 3) are trained or held twice");
}

TEST(CheckPacking, HoldsSequencesToTheirCap) {
  StepPlan step = first_step();
  step.sequences[0].segments[1].length_tokens = 4;
  step.sequences[1].segments[0] = {DocId{1}, 4, 2};
  EXPECT_EQ(packing_rules(step), Rules{"tokens within cap"});
  PlanInputs inputs = two_windows();
  inputs.limits.max_documents = 1;
  EXPECT_EQ(packing_rules(first_step(), inputs), Rules{"segments within cap"});
}

TEST(CheckPacking, CountsTargetsAcrossACutOfPacking) {
  StepPlan step = first_step();
  step.loss_tokens = 4 + 2 + 2 + 3;  // as if the cut hid the target of token 2
  EXPECT_EQ(packing_rules(step), Rules{"loss tokens counted"});
}

TEST(CheckPacking, ATruncatedDocumentHasNoTargetAtItsCut) {
  PlanInputs inputs = two_windows();
  inputs.arrival.overlong = Overlong::truncate;
  StepPlan step;
  step.arrived = {0, 1};
  step.documents = {document(0, 20)};
  step.sequences = {{{{DocId{0}, 0, 8}}}, {}};
  step.state_after = {.step = 1, .position = 1, .arrived_tokens = 8, .held = {}};
  step.untrained.truncated = {{DocId{0}, 12}};
  step.loss_tokens = 7;
  EXPECT_EQ(packing_rules(step, inputs), Rules{});
  step.loss_tokens = 8;
  EXPECT_EQ(packing_rules(step, inputs), Rules{"loss tokens counted"});
  step.loss_tokens = 7;
  step.untrained.truncated[0].second = 11;
  EXPECT_EQ(packing_rules(step, inputs), Rules{"untrained counted"});
  inputs.arrival.overlong = Overlong::error;
  step.state_after.arrived_tokens = 0;
  EXPECT_EQ(packing_rules(step, inputs)[0], "overlong refused");
}

TEST(CheckPacking, ASequenceIsEmptyOnlyForWantOfDocuments) {
  StepPlan step;
  step.arrived = {0, 2};
  step.documents = {document(0, 3), document(1, 3)};
  step.sequences = {{{{DocId{0}, 0, 3}, {DocId{1}, 0, 3}}}, {}};
  step.state_after = {.step = 1, .position = 2, .arrived_tokens = 6, .held = {}};
  step.loss_tokens = 4;
  EXPECT_EQ(packing_rules(step), Rules{"sequence empty"});
  step.arrived.second = step.state_after.position = 1;
  step.state_after.arrived_tokens = 3;
  step.documents.pop_back(), step.sequences[0].segments.pop_back(), step.loss_tokens = 2;
  EXPECT_EQ(packing_rules(step), Rules{});
}

TEST(CheckPacking, ArrivalsGoOnWhereTheLastStepEnded) {
  EXPECT_EQ(packing_rules(first_step(), two_windows(), {.step = 0, .position = 1, .held = {}}),
            Rules{"arrivals in order"});
  StepPlan step = first_step();
  std::swap(step.documents[0], step.documents[1]);
  EXPECT_EQ(packing_rules(step), (Rules{"documents listed", "documents in order"}));
}

/// Step 1 of whole documents: document 0 waited since step 0, document 1 arrives.
StepPlan second_step(bool old_waits) {
  StepPlan step;
  step.step = 1;
  step.arrived = {1, 2};
  step.documents = {document(0, 6), document(1, 6)};
  const int64_t trained = old_waits ? 1 : 0;
  step.sequences = {{{{DocId{trained}, 0, 6}}}};
  step.state_after = {
      .step = 2, .position = 2, .arrived_tokens = 12, .held = {{DocId{1 - trained}, 0, 6, old_waits ? 0 : 1, -1}}};
  step.loss_tokens = 5;
  return step;
}

PlanInputs one_whole_window() {
  PlanInputs inputs = two_windows();
  inputs.strategy = Strategy::fixed;
  inputs.mesh.dp = inputs.pool = 1;
  return inputs;
}

TEST(CheckPacking, NoDocumentIsPassedByALaterOneBeyondItsDelay) {
  PlanInputs inputs = one_whole_window();
  const PackerState before{.step = 1, .position = 1, .arrived_tokens = 6, .held = {{DocId{0}, 0, 6, 0, -1}}};
  EXPECT_EQ(packing_rules(second_step(false), inputs, before), Rules{});
  EXPECT_EQ(packing_rules(second_step(true), inputs, before), Rules{"delay within bound"});
  inputs.delay.repack_window_steps = 2;
  EXPECT_EQ(packing_rules(second_step(true), inputs, before), Rules{});
  inputs.strategy = Strategy::wlb;
  EXPECT_EQ(packing_rules(second_step(true), inputs, before), Rules{"delay within bound"});
  inputs.delay.max_delay_steps = no_bound;
  EXPECT_EQ(packing_rules(second_step(true), inputs, before), Rules{});
}

TEST(CheckPacking, LookingAheadIsNeverLate) {
  PlanInputs inputs = one_whole_window();
  inputs.strategy = Strategy::equipoise;
  inputs.delay.max_delay_steps = 1;
  const PackerState before{.step = 1, .position = 1, .arrived_tokens = 6, .held = {{DocId{0}, 0, 6, 0, -1}}};
  EXPECT_EQ(packing_rules(second_step(false), inputs, before), Rules{});
  EXPECT_EQ(packing_rules(second_step(true), inputs, before), Rules{"delay within bound"});
}

TEST(CheckPacking, AHeldDocumentKeepsTheStepInWhichItArrived) {
  const PackerState before{.step = 1, .position = 1, .arrived_tokens = 6, .held = {{DocId{0}, 0, 6, 0, -1}}};
  PlanInputs inputs = one_whole_window();
  inputs.strategy = Strategy::wlb;
  inputs.delay.max_delay_steps = no_bound;
  StepPlan step = second_step(true);
  step.state_after.held[0].since_step = 1;
  EXPECT_EQ(packing_rules(step, inputs, before), Rules{"held since"});
}

TEST(CheckPacking, WholeDocumentsAreNotCut) {
  PlanInputs inputs = two_windows();
  inputs.strategy = Strategy::fixed;
  EXPECT_EQ(packing_rules(first_step(), inputs), Rules{"document kept whole"});
}

TEST(CheckPacking, HugeNumbersAreRefusedAndDoNotWrap) {
  StepPlan step = first_step();
  step.documents[1].length_tokens = INT64_MAX;
  step.sequences[0].segments[1].length_tokens = INT64_MAX;
  step.sequences[1].segments[0].begin_tokens = INT64_MIN;
  step.arrived.first = INT64_MIN;
  step.state_after.held = {{DocId{0}, INT64_MAX, INT64_MAX, INT64_MIN, INT64_MAX}};
  const Rules found = packing_rules(step);
  for (const char* rule : {"documents listed", "segment in document", "arrivals in order"})
    EXPECT_NE(std::find(found.begin(), found.end(), rule), found.end()) << rule;
}

TEST(CheckPlacement, AcceptsOneSequenceASlotAndNothingElse) {
  const PlanInputs inputs = two_windows();
  StepPlan step = first_step();
  EXPECT_EQ(rules(check_placement(inputs, step)), Rules{});
  step.slots[1].replica = 0;
  EXPECT_EQ(rules(check_placement(inputs, step)), (Rules{"slot used once", "buckets follow slots"}));
  step.slots[1].replica = 2;
  EXPECT_EQ(rules(check_placement(inputs, step)), (Rules{"slot in mesh", "buckets follow slots"}));
}

TEST(CheckPlacement, AcceptsAnyPermutationWithItsBuckets) {
  StepPlan step = first_step();
  std::swap(step.slots[0], step.slots[1]);
  EXPECT_EQ(rules(check_placement(two_windows(), step)), Rules{"buckets follow slots"});
  std::swap(step.buckets[0].sequences[0], step.buckets[0].sequences[1]);
  EXPECT_EQ(rules(check_placement(two_windows(), step)), Rules{});
}

TEST(VerifyStep, NamesOtherInputsAndABucketOfAnotherStep) {
  const PlanInputs inputs = two_windows();
  StepPlan step = first_step();
  step.inputs_hash = hash_inputs(inputs);
  BucketPlan bucket{step.buckets[0], step.sequences, {}, {{{}, {}}}};
  for (int64_t replica = 0; replica < 2; ++replica) {
    bucket.shardings.push_back({ShardingRule::contiguous, {}});
    for (int64_t s = 0; s < 2; ++s)
      bucket.shardings.back().pieces.push_back({s, 0, step.sequences[replica].segments[s].length_tokens, 0});
  }
  EXPECT_EQ(rules(verify_step(inputs, {}, step, {&bucket, 1})), Rules{});
  ++step.inputs_hash;
  EXPECT_EQ(rules(verify_step(inputs, {}, step, {&bucket, 1})), Rules{"inputs hash"});
  --step.inputs_hash;
  std::swap(bucket.sequences[0], bucket.sequences[1]);
  EXPECT_EQ(rules(verify_step(inputs, {}, step, {&bucket, 1})), Rules{"bucket follows step"});
}

}  // namespace
}  // namespace equipoise
