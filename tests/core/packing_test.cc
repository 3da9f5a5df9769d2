#include "equipoise/packing/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "equipoise/model/workload.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Lengths = std::vector<int64_t>;

/// `sequences` of `window` tokens, as dp replicas with one micro-step.
PlanInputs inputs_for(int64_t sequences, int64_t window, Overlong overlong = Overlong::split) {
  PlanInputs inputs;
  inputs.mesh.dp = sequences;
  inputs.limits.window_tokens = inputs.limits.max_tokens = window;
  inputs.arrival.overlong = overlong;
  return inputs;
}

PackedStep plain_step(const PlanInputs& inputs, const Lengths& lengths) {
  return pack_plain(inputs, make_corpus(lengths, inputs.arrival), {});
}

PackedStep fixed_step(const PlanInputs& inputs, const Lengths& lengths) {
  return pack_fixed(inputs, make_corpus(lengths, inputs.arrival), {});
}

Lengths tokens_of(const PackedStep& step) {
  Lengths tokens;
  for (const Sequence& sequence : step.sequences) tokens.push_back(sequence.tokens());
  return tokens;
}

Lengths segments_of(const PackedStep& step) {
  Lengths counts;
  for (const Sequence& sequence : step.sequences) counts.push_back(static_cast<int64_t>(sequence.segments.size()));
  return counts;
}

int64_t total(const Lengths& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

int64_t untrained_tokens(const Untrained& untrained) {
  int64_t tokens = 0;
  for (const auto& [id, count] : untrained.dropped) tokens += count;
  for (const auto& [id, count] : untrained.truncated) tokens += count;
  return tokens;
}

using Packer = PackedStep (*)(const PlanInputs&, const Corpus&, const PackerState&);

/// Packs until nothing is left, at most `most` steps.
std::vector<PackedStep> pack_all(Packer pack, const PlanInputs& inputs, const Corpus& corpus, int64_t most = 1000) {
  std::vector<PackedStep> steps;
  PackerState state;
  while (!is_finished(corpus, state) && static_cast<int64_t>(steps.size()) < most) {
    steps.push_back(pack(inputs, corpus, state));
    state = steps.back().after;
  }
  EXPECT_TRUE(is_finished(corpus, state));
  return steps;
}

TEST(CaseP1, EightDocumentsOfSevenTokensFillEightSequencesOfEight) {
  const Lengths lengths(8, 7);
  EXPECT_EQ(tokens_of(plain_step(inputs_for(8, 8), lengths)), lengths);
  EXPECT_EQ(tokens_of(fixed_step(inputs_for(8, 8), lengths)), lengths);
}

TEST(CaseP1, WithSevenSequencesTheEighthDocumentWaitsOrIsCutButNoSequencePassesTheCap) {
  const Lengths lengths(8, 7);
  EXPECT_EQ(tokens_of(plain_step(inputs_for(7, 8), lengths)), Lengths(7, 8));
  const PackedStep whole = fixed_step(inputs_for(7, 8), lengths);
  EXPECT_EQ(tokens_of(whole), Lengths(7, 7));
  EXPECT_EQ(whole.after.held, (std::vector<Held>{{DocId{7}, 0, 7, 0, -1}}));
}

TEST(CaseP2, NineEqualDocumentsInOrderGiveTheLastRankItsPart) {
  const PackedStep step = plain_step(inputs_for(4, 40), Lengths(9, 10));
  EXPECT_EQ(segments_of(step), (Lengths{3, 2, 2, 2}));
  int64_t next = 0;
  for (const Sequence& sequence : step.sequences)
    for (const Segment& segment : sequence.segments) EXPECT_EQ(segment.document.value, next++);
}

TEST(CaseP3, FiveDocumentsFillFourSequencesTwoPerReplica) {
  PlanInputs inputs = inputs_for(2, 100);
  inputs.micro_steps = 2;
  for (const Lengths& lengths : {Lengths{10, 10, 10, 10, 10}, {96, 1, 1, 1, 1}, {1, 1, 1, 1, 96}})
    for (const PackedStep& step : {plain_step(inputs, lengths), fixed_step(inputs, lengths)}) {
      const Lengths segments = segments_of(step);
      EXPECT_EQ(segments.size(), 4U);
      EXPECT_EQ(total(segments), 5);
      EXPECT_EQ(std::count(segments.begin(), segments.end(), 0), 0);
    }
}

TEST(CaseP3, ThreeDocumentsLeaveOneSequenceEmptyAndTrainingGoesOn) {
  PlanInputs inputs = inputs_for(2, 100);
  inputs.micro_steps = 2;
  for (const Lengths& lengths : {Lengths{10, 10, 10}, {1, 1, 98}})
    for (const PackedStep& step : {plain_step(inputs, lengths), fixed_step(inputs, lengths)}) {
      Lengths segments = segments_of(step);
      std::sort(segments.begin(), segments.end());
      EXPECT_EQ(segments, (Lengths{0, 1, 1, 1}));
      EXPECT_EQ(step.after.step, 1);
      EXPECT_TRUE(step.after.held.empty());
    }
}

TEST(CaseP11, EachOverlongPolicyLosesWhatItSays) {
  const Lengths lengths = {5, 2, 3, 1};
  const auto step = [&](Overlong policy) { return plain_step(inputs_for(4, 4, policy), lengths); };
  EXPECT_EQ(untrained_tokens(step(Overlong::truncate).untrained), 1);
  EXPECT_EQ(step(Overlong::truncate).untrained.truncated, (std::vector<std::pair<DocId, int64_t>>{{DocId{0}, 1}}));
  EXPECT_EQ(untrained_tokens(step(Overlong::split).untrained), 0);
  EXPECT_EQ(untrained_tokens(step(Overlong::drop).untrained), 5);
  EXPECT_EQ(step(Overlong::drop).untrained.dropped, (std::vector<std::pair<DocId, int64_t>>{{DocId{0}, 5}}));
  EXPECT_EQ(total(tokens_of(step(Overlong::truncate))), 10);
  EXPECT_EQ(total(tokens_of(step(Overlong::split))), 11);
  EXPECT_EQ(total(tokens_of(step(Overlong::drop))), 6);
}

TEST(CaseP11, PolicyErrorNamesTheDocumentAndItsLength) {
  const std::string right =
      "length 5 is above the window of 4 tokens, document 0: "
      "use a larger window, or the over-long policy split, truncate or drop";
  const Corpus corpus = make_corpus(Lengths{5, 2, 3, 1}, {});
  try {
    pack_plain(inputs_for(4, 4, Overlong::error), corpus, {});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), right);
  }
  try {
    check_lengths(corpus, 4, Overlong::error);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), right);
  }
  EXPECT_NO_THROW(check_lengths(corpus, 4, Overlong::split));
  EXPECT_NO_THROW(check_lengths(corpus, 5, Overlong::error));
}

TEST(CaseP12, OneLongDocumentIsTwiceTheWorkOfTwoHalves) {
  EXPECT_EQ(attention_pairs(Mask{}, {0, 1024}, 1024), 524800);
  EXPECT_EQ(2 * attention_pairs(Mask{}, {0, 512}, 512), 262656);
}

TEST(CaseP13, PairsOfTwoMasksAndTheirLayerWeightedSum) {
  const Mask causal{};
  const Mask window{MaskKind::sliding_window, 3, 1};
  const auto pairs = [](const Mask& mask) {
    return attention_pairs(mask, {0, 4}, 4) + attention_pairs(mask, {0, 8}, 8);
  };
  EXPECT_EQ(pairs(causal), 46);
  EXPECT_EQ(pairs(window), 30);
  const std::vector<Mask> masks = {causal, {MaskKind::sliding_window, 3, 5}};
  EXPECT_EQ(layered_pairs(masks, 4) + layered_pairs(masks, 8), 46 + 5 * 30);
}

TEST(CaseP13, PackingBalancesTheLayerWeightedSum) {
  // Causal alone: 8 weighs more than 4 + 4 + 4 (36 against 30), so the last 3 would join the fours. With the windowed
  // layers work is nearly linear: the fours weigh more, and it joins the 8.
  PlanInputs inputs = inputs_for(2, 100);
  const Lengths lengths = {8, 4, 4, 4, 3};
  EXPECT_EQ(tokens_of(fixed_step(inputs, lengths)), (Lengths{8, 15}));
  inputs.masks = {{.layers = 1}, {MaskKind::sliding_window, 3, 5}};
  EXPECT_EQ(tokens_of(fixed_step(inputs, lengths)), (Lengths{11, 12}));
}

TEST(CaseP15, WorkOfLongDocumentsIsExact) {
  const std::vector<std::pair<int64_t, int64_t>> right = {
      {46341, 1073767311}, {65536, 2147516416}, {1 << 20, 549756338176}, {1 << 21, 2199024304128}};
  for (const auto& [length, pairs] : right) {
    EXPECT_EQ(attention_pairs(Mask{}, {0, length}, length), pairs);
    EXPECT_EQ(layered_pairs(std::vector<Mask>{{.layers = 1024}}, length), 1024 * pairs);
  }
}

TEST(CaseP15, LongDocumentsArriveAndArePackedWhole) {
  const Lengths lengths = {46341, 65536, 1 << 20, 1 << 21};
  PlanInputs inputs = inputs_for(4, 1 << 21, Overlong::error);
  inputs.masks[0].layers = 1024;
  for (const PackedStep& step : {plain_step(inputs, lengths), fixed_step(inputs, lengths)}) {
    Lengths tokens = tokens_of(step);
    std::sort(tokens.begin(), tokens.end());
    EXPECT_EQ(tokens, lengths);
  }
}

TEST(CaseP16, AZeroLengthDocumentArrivesAnywhereAndAddsNothing) {
  for (const Lengths& lengths : {Lengths{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {0, 0, 0}, {0}})
    for (const Packer pack : {Packer{pack_plain}, Packer{pack_fixed}}) {
      const PlanInputs inputs = inputs_for(2, 8);
      const PackedStep step = pack(inputs, make_corpus(lengths, inputs.arrival), {});
      EXPECT_EQ(step.arrived, (std::pair<int64_t, int64_t>{0, static_cast<int64_t>(lengths.size())}));
      EXPECT_EQ(total(tokens_of(step)), total(lengths));
      EXPECT_EQ(total(segments_of(step)),
                std::count_if(lengths.begin(), lengths.end(), [](int64_t l) { return l > 0; }));
      EXPECT_EQ(untrained_tokens(step.untrained), 0);
    }
}

TEST(CaseP17, NoDocumentIsAPlanOfNoSteps) {
  EXPECT_TRUE(is_finished(make_corpus(Lengths{}, {}), {}));
  EXPECT_TRUE(pack_all(pack_plain, inputs_for(2, 8), make_corpus(Lengths{}, {})).empty());
}

TEST(CaseP17, OneDocumentLeavesAllOtherSequencesEmpty) {
  for (const PackedStep& step : {plain_step(inputs_for(4, 8), {6}), fixed_step(inputs_for(4, 8), {6})})
    EXPECT_EQ(segments_of(step), (Lengths{1, 0, 0, 0}));
}

TEST(CaseP17, WhereAllAreTooLongPolicyErrorNamesTheFirst) {
  try {
    plain_step(inputs_for(4, 8, Overlong::error), {9, 10, 11});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("length 9 is above the window of 8 tokens, document 0"),
              std::string::npos);
  }
}

TEST(CaseP17, WhereAllAreDroppedOneStepSaysSo) {
  const PlanInputs inputs = inputs_for(4, 8, Overlong::drop);
  const auto steps = pack_all(pack_plain, inputs, make_corpus(Lengths{9, 10, 11}, {}));
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(untrained_tokens(steps[0].untrained), 30);
  EXPECT_EQ(total(segments_of(steps[0])), 0);
}

TEST(Corpus, ImpossibleLengthsAreRefusedByDocument) {
  const auto refusal = [](const Lengths& lengths) -> std::string {
    try {
      make_corpus(lengths, {});
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({4, -5}), "length -5 is negative, document 1: give lengths of at least 0 tokens");
  EXPECT_EQ(refusal({int64_t{1} << 41}),
            "length 2199023255552 is absurd, document 0: give lengths of at most 1099511627776 tokens");
  EXPECT_NE(refusal(Lengths((1 << 20) + 1, int64_t{1} << 40)).find("document 1048576"), std::string::npos);
}

TEST(Corpus, DocumentsMayCarryTheirOwnTargets) {
  EXPECT_NO_THROW(make_corpus(std::vector<Document>{{DocId{0}, 5, 2}}, {}));
  EXPECT_THROW(make_corpus(std::vector<Document>{{DocId{0}, 5, 6}}, {}), InputError);
  EXPECT_THROW(make_corpus(std::vector<Document>{{DocId{0}, 5, -1}}, {}), InputError);
  EXPECT_THROW(make_corpus(std::vector<Document>{{DocId{1}, 5, 2}}, {}), InputError);
}

TEST(Corpus, ShufflingIsFisherYatesFromTheLastIndexDown) {
  const Arrival arrival{.seed = 5, .epoch = 2, .shuffle = true};
  std::vector<int64_t> right = {0, 1, 2, 3, 4, 5, 6};
  SplitMix64 random{7};
  for (uint64_t i = 6; i > 0; --i) std::swap(right[i], right[random.next() % (i + 1)]);
  const Corpus corpus = make_corpus(Lengths{9, 8, 7, 6, 5, 4, 3}, arrival);
  for (std::size_t i = 0; i < right.size(); ++i) EXPECT_EQ(corpus.order[i].value, right[i]);
  EXPECT_NE(right, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(corpus.documents[2].length_tokens, 7);
}

TEST(PackPlain, ADocumentIsCutAtTheSequenceBorderOnly) {
  const PackedStep step = plain_step(inputs_for(2, 10), {6, 8, 6});
  EXPECT_EQ(step.sequences[0].segments, (std::vector<Segment>{{DocId{0}, 0, 6}, {DocId{1}, 0, 4}}));
  EXPECT_EQ(step.sequences[1].segments, (std::vector<Segment>{{DocId{1}, 4, 4}, {DocId{2}, 0, 6}}));
}

TEST(PackPlain, PiecesOfADocumentLargerThanAStepWaitForLaterSteps) {
  const PlanInputs inputs = inputs_for(2, 10);
  const Corpus corpus = make_corpus(Lengths{45, 3}, {});
  const auto steps = pack_all(pack_plain, inputs, corpus);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].after.held,
            (std::vector<Held>{{DocId{0}, 20, 10, 0, -1}, {DocId{0}, 30, 10, 0, -1}, {DocId{0}, 40, 5, 0, -1}}));
  EXPECT_EQ(steps[0].arrived, (std::pair<int64_t, int64_t>{0, 1}));
  EXPECT_EQ(steps[1].arrived, (std::pair<int64_t, int64_t>{1, 1}));
  EXPECT_EQ(steps[2].sequences[0].segments, (std::vector<Segment>{{DocId{0}, 40, 5}}));
  EXPECT_EQ(steps[2].sequences[1].segments, (std::vector<Segment>{{DocId{1}, 0, 3}}));
}

TEST(PackPlain, ArrivalsAreTheLongestRunThatFits) {
  EXPECT_EQ(plain_step(inputs_for(2, 10), {9, 9, 2, 0, 1}).arrived, (std::pair<int64_t, int64_t>{0, 4}));
  EXPECT_EQ(plain_step(inputs_for(2, 10), {9, 9, 3, 0, 1}).arrived, (std::pair<int64_t, int64_t>{0, 2}));
}

TEST(PackFixed, TheLongestGoFirstOntoTheLightestSequenceWithRoom) {
  // 8 and 7 open the sequences, 4 joins the 7, 3 the 8; 2 finds no room. Then all is in arrival order again.
  const PackedStep step = fixed_step(inputs_for(2, 12), {2, 7, 3, 8, 4});
  EXPECT_EQ(step.sequences[0].segments, (std::vector<Segment>{{DocId{2}, 0, 3}, {DocId{3}, 0, 8}}));
  EXPECT_EQ(step.sequences[1].segments, (std::vector<Segment>{{DocId{1}, 0, 7}, {DocId{4}, 0, 4}}));
  EXPECT_EQ(step.after.held, (std::vector<Held>{{DocId{0}, 0, 2, 0, -1}}));
}

TEST(PackFixed, WhatWaitedIsPlacedFirst) {
  const PlanInputs inputs = inputs_for(2, 10);
  const Corpus corpus = make_corpus(Lengths{6, 4, 9, 7}, {});
  const PackerState state{.step = 1, .position = 2, .held = {{DocId{1}, 0, 4, 0, -1}}};
  const PackedStep step = pack_fixed(inputs, corpus, state);
  EXPECT_EQ(step.sequences[0].segments, (std::vector<Segment>{{DocId{2}, 0, 9}}));
  EXPECT_EQ(step.sequences[1].segments, (std::vector<Segment>{{DocId{1}, 0, 4}}));
  EXPECT_EQ(step.after.held, (std::vector<Held>{{DocId{3}, 0, 7, 1, -1}}));
}

TEST(PackFixed, YoungerDocumentsDoNotOvertakeAHeldOneThatFindsNoRoom) {
  const PlanInputs inputs = inputs_for(1, 10);
  const Corpus corpus = make_corpus(Lengths{6, 5, 3}, {});
  const std::vector<Held> held = {{DocId{0}, 0, 6, 0, -1}, {DocId{1}, 0, 5, 1, -1}, {DocId{2}, 0, 3, 2, -1}};
  const PackedStep step = pack_fixed(inputs, corpus, {.step = 3, .position = 3, .held = held});
  EXPECT_EQ(step.after.held, std::vector<Held>(held.begin() + 1, held.end()));
}

TEST(PackFixed, WhatArrivesFillsTheWindowBesideWhatIsHeldSoThatNothingPilesUp) {
  const PlanInputs inputs = inputs_for(2, 100);
  SplitMix64 rng{5};
  Lengths lengths(2000);
  for (int64_t& length : lengths) length = random_between(rng, 1, 60);
  for (const PackedStep& step : pack_all(pack_fixed, inputs, make_corpus(lengths, {}))) {
    int64_t held_tokens = 0;
    for (const Held& piece : step.after.held) held_tokens += piece.length_tokens;
    ASSERT_LE(held_tokens, 100);
  }
}

/// What any packing must give, counted without its code: each admitted token of each document exactly once over all
/// steps, caps kept, M sequences in each step, empty ones only where pieces are fewer.
void expect_sound(const PlanInputs& inputs, const Corpus& corpus, const std::vector<PackedStep>& steps) {
  std::vector<std::vector<int>> trained;
  for (const Document& document : corpus.documents) trained.emplace_back(document.length_tokens, 0);
  std::vector<int64_t> lost(corpus.documents.size(), 0);
  int64_t position = 0;
  for (const PackedStep& step : steps) {
    EXPECT_EQ(step.arrived.first, position);
    position = step.arrived.second;
    EXPECT_EQ(static_cast<int64_t>(step.sequences.size()), inputs.sequences());
    for (const Sequence& sequence : step.sequences) {
      EXPECT_LE(sequence.tokens(), inputs.limits.window_tokens);
      EXPECT_LE(static_cast<int64_t>(sequence.segments.size()), inputs.limits.max_documents);
      for (const Segment& segment : sequence.segments)
        for (int64_t t = 0; t < segment.length_tokens; ++t)
          ++trained.at(segment.document.value).at(segment.begin_tokens + t);
    }
    const Lengths segments = segments_of(step);
    if (std::count(segments.begin(), segments.end(), 0) > 0) {
      EXPECT_LT(total(segments), inputs.sequences());
      EXPECT_TRUE(step.after.held.empty());
    }
    for (const auto& [id, tokens] : step.untrained.dropped) lost[id.value] += tokens;
    for (const auto& [id, tokens] : step.untrained.truncated) lost[id.value] += tokens;
  }
  for (const Document& document : corpus.documents) {
    const std::vector<int>& counts = trained[document.id.value];
    const auto kept = static_cast<std::ptrdiff_t>(document.length_tokens - lost[document.id.value]);
    EXPECT_TRUE(std::all_of(counts.begin(), counts.begin() + kept, [](int count) { return count == 1; }));
    EXPECT_TRUE(std::all_of(counts.begin() + kept, counts.end(), [](int count) { return count == 0; }));
  }
}

TEST(Packing, EveryTokenIsTrainedOnceOrCountedWhateverTheInput) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 rng{seed};
    PlanInputs inputs = inputs_for(random_between(rng, 1, 6), random_between(rng, 1, 40));
    inputs.micro_steps = random_between(rng, 1, 2);
    inputs.arrival.overlong = static_cast<Overlong>(random_between(rng, 1, 3));
    inputs.arrival.shuffle = random_between(rng, 0, 1) == 1;
    inputs.delay.max_delay_steps = random_between(rng, -1, 2);
    if (random_between(rng, 0, 3) == 0) inputs.limits.max_documents = random_between(rng, 1, 4);
    Lengths lengths(random_between(rng, 0, 60));
    for (int64_t& length : lengths) length = random_between(rng, 0, random_between(rng, 0, 9) == 0 ? 300 : 15);
    const Corpus corpus = make_corpus(lengths, inputs.arrival);
    for (const Packer pack : {Packer{pack_plain}, Packer{pack_fixed}})
      expect_sound(inputs, corpus, pack_all(pack, inputs, corpus));
  }
}

TEST(PackFixed, DocumentsWithinTheWindowAreNeverCut) {
  SplitMix64 rng{3};
  const PlanInputs inputs = inputs_for(3, 50);
  Lengths lengths(400);
  for (int64_t& length : lengths) length = random_between(rng, 1, 50);
  for (const PackedStep& step : pack_all(pack_fixed, inputs, make_corpus(lengths, inputs.arrival)))
    for (const Sequence& sequence : step.sequences)
      for (const Segment& segment : sequence.segments)
        EXPECT_EQ(segment.length_tokens, lengths[segment.document.value]);
}

}  // namespace
}  // namespace equipoise
