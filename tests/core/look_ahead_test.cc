#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "equipoise/base/rng.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/deadlines.h"
#include "equipoise/packing/look_ahead.h"
#include "equipoise/packing/packing.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Lengths = std::vector<int64_t>;

/// One pair of one head costs 100 ps, one token 100 ns: a document of 1000 tokens is half attention, half linear.
PlanInputs inputs_for(int64_t sequences, int64_t window, int64_t max_tokens, int64_t max_delay) {
  PlanInputs inputs;
  inputs.micro_steps = sequences;
  inputs.limits.window_tokens = window;
  inputs.limits.max_tokens = max_tokens;
  inputs.delay.max_delay_steps = max_delay;
  inputs.cost.attention.tile_rows = inputs.cost.attention.tile_keys = 1;
  inputs.cost.attention.tile_ps = {{0, 100}};
  inputs.cost.linear.token_ps = {{0, 100'000}};
  return inputs;
}

struct Outcome {
  int64_t steps = 0;
  int64_t worst_delay = 0;
  int64_t lost_ns = 0;  ///< sum over steps of M * slowest - total
  int64_t total_ns = 0;
  std::map<int64_t, int64_t> tokens;  ///< trained, by document
  bool caps_kept = true;
  bool never_idle = true;
};

Outcome run_all(const PlanInputs& inputs, const Corpus& corpus) {
  Outcome run;
  PackerState state;
  std::vector<int64_t> arrived(corpus.documents.size(), 0);
  while (!is_finished(corpus, state)) {
    const PackedStep step = pack_look_ahead(inputs, corpus, state, 1);
    EXPECT_TRUE(step.violations.empty());
    if (!step.violations.empty() || ++run.steps > 100'000) break;
    for (int64_t p = step.arrived.first; p < step.arrived.second; ++p) arrived[corpus.order[p].value] = state.step;
    int64_t slowest_ns = 0;
    int64_t step_tokens = 0;
    for (const Sequence& sequence : step.sequences) {
      int64_t ns = 0;
      for (const Segment& segment : sequence.segments) {
        ns += document_time_ns(inputs, segment.length_tokens);
        run.tokens[segment.document.value] += segment.length_tokens;
        run.worst_delay = std::max(run.worst_delay, state.step - arrived[segment.document.value]);
      }
      run.caps_kept = run.caps_kept && sequence.tokens() <= inputs.limits.max_tokens;
      slowest_ns = std::max(slowest_ns, ns);
      run.total_ns += ns;
      run.lost_ns -= ns;
      step_tokens += sequence.tokens();
    }
    run.lost_ns += slowest_ns * inputs.sequences();
    run.never_idle = run.never_idle && step_tokens > 0;
    state = step.after;
  }
  return run;
}

void expect_promise_kept(const PlanInputs& inputs, const Lengths& lengths) {
  const Outcome run = run_all(inputs, make_corpus(lengths, inputs.arrival));
  EXPECT_LE(run.worst_delay, inputs.delay.max_delay_steps);
  EXPECT_TRUE(run.caps_kept);
  EXPECT_TRUE(run.never_idle);
  for (size_t d = 0; d < lengths.size(); ++d) {
    const auto trained = run.tokens.find(static_cast<int64_t>(d));
    EXPECT_EQ(trained == run.tokens.end() ? 0 : trained->second, lengths[d]) << "document " << d;
  }
}

/// Streams meant to break a bound: lengths that pair with nothing, floods of long ones, long ones after silence.
Lengths adversarial_stream(SplitMix64& rng, int64_t window) {
  const int64_t kind = random_between(rng, 0, 6);
  Lengths lengths;
  for (int64_t i = 0; i < 150; ++i) {
    switch (kind) {
      case 0: lengths.push_back(window); break;
      case 1: lengths.push_back(window / 2 + 1); break;
      case 2: lengths.push_back(window * 76 / 100); break;
      case 3: lengths.push_back(i % 40 < 20 ? window : 1 + i % 3); break;
      case 4: lengths.push_back(random_between(rng, 1, 10) == 1 ? window : random_between(rng, 1, window / 6)); break;
      case 5: lengths.push_back(window / random_between(rng, 1, 4) + random_between(rng, 0, 1) * (window % 3)); break;
      default: lengths.push_back(random_between(rng, 0, window)); break;
    }
    lengths.back() = std::min(lengths.back(), window);
  }
  return lengths;
}

TEST(LookAhead, NoDocumentIsEverLateOnStreamsMeantToBreakTheBound) {
  SplitMix64 rng{7};
  for (int trial = 0; trial < 150; ++trial) {
    const int64_t window = random_between(rng, 20, 3000);
    const int64_t max_tokens = window + window * random_between(rng, 0, 5) / 10;
    const PlanInputs inputs = inputs_for(random_between(rng, 1, 6), window, max_tokens, random_between(rng, 1, 8));
    expect_promise_kept(inputs, adversarial_stream(rng, window));
    if (HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(LookAhead, ACapOnSegmentsDoesNotBreakThePromise) {
  SplitMix64 rng{11};
  for (int trial = 0; trial < 20; ++trial) {
    PlanInputs inputs = inputs_for(3, 1000, 1500, random_between(rng, 1, 4));
    inputs.limits.max_documents = random_between(rng, 1, 5);
    expect_promise_kept(inputs, adversarial_stream(rng, 1000));
    if (HasFailure()) FAIL() << "trial " << trial;
  }
}

TEST(LookAhead, WaitsForACompanionOfALongDocumentAndLosesLessThanPackingAtOnce) {
  // One document of a whole window every third step: alone it makes its step three times as slow as its companions.
  Lengths lengths;
  for (int i = 0; i < 60; ++i) {
    if (i % 3 == 0) lengths.push_back(4000);
    for (int s = 0; s < (i % 3 == 0 ? 40 : 80); ++s) lengths.push_back(100);
  }
  PlanInputs waits = inputs_for(2, 4000, 6000, 8);
  PlanInputs at_once = waits;
  at_once.delay.max_delay_steps = no_bound;  // the greedy without queues
  const Corpus corpus = make_corpus(lengths, waits.arrival);
  const Outcome run = run_all(waits, corpus);
  int64_t greedy_lost_ns = 0;
  for (PackerState state; !is_finished(corpus, state);) {
    const PackedStep step = pack_wlb(at_once, corpus, state);
    std::vector<int64_t> times;
    for (const Sequence& sequence : step.sequences) {
      times.push_back(0);
      for (const Segment& segment : sequence.segments) times.back() += document_time_ns(waits, segment.length_tokens);
    }
    greedy_lost_ns += std::abs(times[0] - times[1]);
    state = step.after;
  }
  EXPECT_LT(run.lost_ns, greedy_lost_ns / 4);
}

TEST(LookAhead, WithSmallMemoryAStepNeverHasMoreThanTwoStepsToChooseFrom) {
  SplitMix64 rng{29};
  Lengths lengths;
  for (int i = 0; i < 4000; ++i) lengths.push_back(random_between(rng, 1, i % 12 == 0 ? 4000 : 250));
  const PlanInputs inputs = inputs_for(4, 4000, 4400, 8);
  const Corpus corpus = make_corpus(lengths, inputs.arrival);
  for (PackerState state; !is_finished(corpus, state);) {
    const PackedStep step = pack_look_ahead(inputs, corpus, state, 1);
    int64_t tokens = 0;
    for (const Held& piece : state.held) tokens += piece.length_tokens;
    for (int64_t p = step.arrived.first; p < step.arrived.second; ++p) tokens += lengths[static_cast<size_t>(p)];
    ASSERT_LE(tokens, 2 * inputs.sequences() * inputs.limits.window_tokens) << "step " << state.step;
    state = step.after;
  }
}

TEST(LookAhead, ADocumentLongerThanAllStepsWithinTheBoundIsAViolationThatNamesIt) {
  const PlanInputs inputs = inputs_for(2, 100, 100, 1);
  const PackedStep step = pack_look_ahead(inputs, make_corpus(Lengths{1000}, inputs.arrival), {}, 1);
  ASSERT_EQ(step.violations.size(), 1);
  EXPECT_EQ(step.violations[0].rule, "delay within bound");
  EXPECT_EQ(step.violations[0].where, "document 0");
}

TEST(LookAhead, NoStateIsHiddenSoAStepFollowsFromTheSavedStateAlone) {
  SplitMix64 rng{3};
  const PlanInputs inputs = inputs_for(4, 1000, 1500, 4);
  const Corpus corpus = make_corpus(adversarial_stream(rng, 1000), inputs.arrival);
  for (PackerState state; !is_finished(corpus, state);) {
    const PackedStep step = pack_look_ahead(inputs, corpus, state, 1);
    const PackerState copy = state;
    EXPECT_EQ(pack_look_ahead(inputs, corpus, copy, 1).sequences, step.sequences);
    state = step.after;
  }
}

TEST(SafeSchedule, FindsRoomWhereFirstFitByDeadlineDoesAndSaysSoWhereItDoesNot) {
  const Caps caps{100, no_limit, 1};
  const auto piece = [](int64_t id, int64_t tokens, int64_t since) {
    return Waiting{{DocId{id}, 0, tokens, since, -1}, tokens};
  };
  const auto fits = schedule_safely({piece(0, 60, 0), piece(1, 60, 0), piece(2, 40, 1)}, 1, caps, 0);
  ASSERT_TRUE(fits.keeps_deadlines);
  EXPECT_EQ(fits.steps_ahead, (Lengths{0, 1, 0}));
  EXPECT_FALSE(schedule_safely({piece(0, 60, 0), piece(1, 60, 0), piece(2, 60, 0)}, 1, caps, 0).keeps_deadlines);
}

}  // namespace
}  // namespace equipoise
