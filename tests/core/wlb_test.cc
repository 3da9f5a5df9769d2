#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "equipoise/packing/arrival.h"
#include "equipoise/packing/packing.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Lengths = std::vector<int64_t>;

/// Linear time only: a token costs 1 us, so that loads can be counted by hand.
PlanInputs linear_inputs(int64_t sequences, int64_t window, int64_t max_tokens, Lengths queues = {}) {
  PlanInputs inputs;
  inputs.strategy = Strategy::wlb;
  inputs.micro_steps = sequences;
  inputs.limits.window_tokens = window;
  inputs.limits.max_tokens = max_tokens;
  inputs.delay.max_delay_steps = no_bound;
  inputs.delay.queue_tokens = std::move(queues);
  inputs.cost.linear.token_ps = {{0, 1'000'000}};
  return inputs;
}

std::vector<std::set<int64_t>> documents_of(const PackedStep& step) {
  std::vector<std::set<int64_t>> documents;
  for (const Sequence& sequence : step.sequences) {
    documents.emplace_back();
    for (const Segment& segment : sequence.segments) documents.back().insert(segment.document.value);
  }
  return documents;
}

TEST(Wlb, PlacesTheLongestFirstOnTheLightestSequence) {
  const PlanInputs inputs = linear_inputs(2, 10, 15);
  const PackedStep step = pack_wlb(inputs, make_corpus(Lengths{3, 8, 5, 4}, inputs.arrival), {});
  EXPECT_EQ(documents_of(step), (std::vector<std::set<int64_t>>{{1, 0}, {2, 3}}));
}

TEST(Wlb, AQueuedOutlierWaitsUntilThereIsOneForEachSequence) {
  const PlanInputs inputs = linear_inputs(2, 10, 20, {8});
  const Corpus corpus = make_corpus(Lengths{9, 2, 2, 2, 5, 9, 1, 1, 1, 8, 8, 4}, inputs.arrival);
  const PackedStep first = pack_wlb(inputs, corpus, {});
  EXPECT_EQ(first.arrived.second, 5);
  EXPECT_EQ(first.after.held, (std::vector<Held>{{DocId{0}, 0, 9, 0, 0}}));
  const PackedStep second = pack_wlb(inputs, corpus, first.after);
  const auto documents = documents_of(second);
  EXPECT_TRUE(documents[0].contains(0) != documents[1].contains(0));  // one outlier each
  EXPECT_TRUE(documents[0].contains(5) != documents[1].contains(5));
  EXPECT_NE(documents[0].contains(0), documents[0].contains(5));
}

TEST(Wlb, WhatFitsNowhereIsLeftAndGoesFirstInTheNextStep) {
  const PlanInputs inputs = linear_inputs(2, 12, 12);
  const Corpus corpus = make_corpus(Lengths{8, 8, 8, 11, 1}, inputs.arrival);
  const PackedStep first = pack_wlb(inputs, corpus, {});
  ASSERT_EQ(first.after.held, (std::vector<Held>{{DocId{2}, 0, 8, 0, -1}}));
  const PackedStep second = pack_wlb(inputs, corpus, first.after);
  EXPECT_TRUE(documents_of(second)[0].contains(2));  // before the longer document 3
}

TEST(Wlb, QueuesDrainWhenNothingMoreArrives) {
  const PlanInputs inputs = linear_inputs(4, 10, 10, {5});
  const Corpus corpus = make_corpus(Lengths{7, 7, 2, 2}, inputs.arrival);
  const PackedStep step = pack_wlb(inputs, corpus, {});
  EXPECT_TRUE(step.after.held.empty());
  EXPECT_TRUE(is_finished(corpus, step.after));
}

TEST(Wlb, AStepTrainsSomethingWhereAllThatArrivedIsAnOutlier) {
  const PlanInputs inputs = linear_inputs(4, 10, 10, {5});
  const Corpus corpus = make_corpus(Lengths{9, 9, 9, 9, 9, 9, 9}, inputs.arrival);
  for (PackerState state; !is_finished(corpus, state);) {
    const PackedStep step = pack_wlb(inputs, corpus, state);
    int64_t tokens = 0;
    for (const Sequence& sequence : step.sequences) tokens += sequence.tokens();
    ASSERT_GT(tokens, 0);
    state = step.after;
  }
}

TEST(Fixed, SequencesOfLikeWorkShareAStep) {
  PlanInputs inputs = linear_inputs(2, 10, 10);
  inputs.strategy = Strategy::fixed;
  inputs.delay = {.max_delay_steps = 0, .repack_window_steps = 2, .queue_tokens = {}};
  const Corpus corpus = make_corpus(Lengths{10, 5, 5, 10, 5, 5}, inputs.arrival);
  const PackedStep first = pack_fixed(inputs, corpus, {});
  EXPECT_EQ(documents_of(first), (std::vector<std::set<int64_t>>{{0}, {3}}));
  EXPECT_EQ(first.arrived.second, 6);
  const PackedStep second = pack_fixed(inputs, corpus, first.after);
  EXPECT_EQ(documents_of(second), (std::vector<std::set<int64_t>>{{1, 4}, {2, 5}}));
  EXPECT_TRUE(is_finished(corpus, second.after));
}

/// Every packing that delays trains each document once, whole, within its caps, whatever arrives.
void expect_all_trained(PlanInputs inputs, const Lengths& lengths,
                        PackedStep (*pack)(const PlanInputs&, const Corpus&, const PackerState&)) {
  const Corpus corpus = make_corpus(lengths, inputs.arrival);
  std::vector<int64_t> trained(lengths.size(), 0);
  int64_t steps = 0;
  for (PackerState state; !is_finished(corpus, state) && steps < 10'000; ++steps) {
    const PackedStep step = pack(inputs, corpus, state);
    ASSERT_EQ(static_cast<int64_t>(step.sequences.size()), inputs.sequences());
    for (const Sequence& sequence : step.sequences) {
      EXPECT_LE(sequence.tokens(), inputs.limits.max_tokens);
      for (const Segment& segment : sequence.segments) trained[segment.document.value] += segment.length_tokens;
    }
    state = step.after;
  }
  EXPECT_LT(steps, 10'000);
  EXPECT_EQ(trained, lengths);
}

TEST(DelayingPackings, TrainEveryDocumentOnceOnRandomStreams) {
  SplitMix64 rng{23};
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t window = random_between(rng, 5, 200);
    Lengths lengths;
    for (int64_t i = random_between(rng, 0, 80); i > 0; --i)
      lengths.push_back(random_between(rng, 0, random_between(rng, 1, window)));
    Lengths queues;
    for (int64_t at = random_between(rng, 1, window); at <= window && queues.size() < 4;
         at += random_between(rng, 1, window))
      queues.push_back(at);
    PlanInputs wlb = linear_inputs(random_between(rng, 1, 6), window, window + random_between(rng, 0, window), queues);
    expect_all_trained(wlb, lengths, pack_wlb);
    wlb.delay.max_delay_steps = random_between(rng, 0, 3);
    expect_all_trained(wlb, lengths, pack_wlb);
    PlanInputs fixed = linear_inputs(random_between(rng, 1, 6), window, window);
    fixed.delay = {.max_delay_steps = 0, .repack_window_steps = random_between(rng, 1, 8), .queue_tokens = {}};
    expect_all_trained(fixed, lengths, pack_fixed);
    if (HasFailure()) FAIL() << "trial " << trial;
  }
}

}  // namespace
}  // namespace equipoise
