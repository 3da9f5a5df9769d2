#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/model/work.h"
#include "equipoise/sharding/sharding.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Counts = std::vector<int64_t>;

PlanInputs inputs_of(int64_t cp) {
  PlanInputs inputs;
  inputs.mesh.cp = cp;
  inputs.heads = {32, 8, 128};
  inputs.cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  return inputs;
}

Sequence sequence_of(const Counts& lengths) {
  Sequence sequence;
  for (const int64_t length : lengths)
    sequence.segments.push_back({DocId{static_cast<int64_t>(sequence.segments.size())}, 0, length});
  return sequence;
}

/// Kernel time of the slowest rank through all layers, summed from the work that is planned for each.
int64_t slowest_ns(const PlanInputs& inputs, const Sequence& sequence, const Sharding& sharding) {
  const std::vector<Sequence> sequences = {sequence};
  const std::vector<Sharding> shardings = {sharding};
  const auto work = attention_work(sequences, shardings, {}, inputs.heads, inputs.mesh.cp);
  Counts ranks(inputs.mesh.cp, 0);
  for (const Mask& mask : inputs.masks) {
    const auto times = attention_times({inputs.cost, mask, inputs.heads}, sequences, work, inputs.mesh.cp);
    for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] += mask.layers * times[rank].total();
  }
  return *std::max_element(ranks.begin(), ranks.end());
}

int64_t faster_zigzag_ns(const PlanInputs& inputs, const Sequence& sequence) {
  int64_t best = no_limit;
  for (const ShardingRule rule : {ShardingRule::sequence_zigzag, ShardingRule::document_zigzag})
    best = std::min(best, slowest_ns(inputs, sequence, shard_sequence(rule, sequence, inputs.mesh.cp)));
  return best;
}

/// The ranks that own a piece of each segment.
std::map<int64_t, std::set<int64_t>> owners_of(const Sharding& sharding) {
  std::map<int64_t, std::set<int64_t>> owners;
  for (const ShardPiece& piece : sharding.pieces) owners[piece.segment].insert(piece.cp_rank);
  return owners;
}

/// Heavy-tailed documents of up to 32K tokens together.
Sequence random_documents(SplitMix64& rng) {
  int64_t room = random_between(rng, 1, 32768);
  Counts lengths;
  while (room > 0) {
    const int64_t longest = random_between(rng, 0, 3) == 0 ? room : std::min<int64_t>(room, 2000);
    lengths.push_back(random_between(rng, 1, longest));
    room -= lengths.back();
  }
  return sequence_of(lengths);
}

std::vector<Mask> random_masks(SplitMix64& rng) {
  const std::vector<Mask> kinds = {{}, {MaskKind::full}, {MaskKind::sliding_window, random_between(rng, 1, 8192)}};
  std::vector<Mask> masks = {kinds[random_between(rng, 0, 2)]};
  if (random_between(rng, 0, 3) == 0) masks.push_back(kinds[random_between(rng, 0, 2)]);
  for (Mask& mask : masks) mask.layers = random_between(rng, 1, 4);
  return masks;
}

TEST(Hybrid, NeitherItNorAdaptiveIsPredictedSlowerThanTheFasterZigzag) {
  int64_t faster = 0;
  constexpr uint64_t seeds = 1500;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SplitMix64 rng{seed};
    PlanInputs inputs = inputs_of(random_between(rng, 2, 8));
    inputs.masks = random_masks(rng);
    const Sequence sequence = random_documents(rng);
    const int64_t zigzag = faster_zigzag_ns(inputs, sequence);
    const int64_t hybrid = slowest_ns(inputs, sequence, shard_hybrid(inputs, sequence));
    ASSERT_LE(hybrid, zigzag) << "seed " << seed;
    ASSERT_EQ(slowest_ns(inputs, sequence, shard_adaptive(inputs, sequence)), hybrid) << "seed " << seed;
    faster += hybrid < zigzag ? 1 : 0;
  }
  EXPECT_GT(faster, static_cast<int64_t>(seeds / 2)) << "mixing pays for most sequences";
}

TEST(Hybrid, TimesRanksAsTheWorkPlannedForThemTakes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SplitMix64 rng{seed};
    PlanInputs inputs = inputs_of(random_between(rng, 2, 8));
    inputs.cost.attention.call_ns = 0;  // one call for each rank and layer, whatever the sharding
    inputs.masks = random_masks(rng);
    const Sequence sequence = random_documents(rng);
    const Sharding sharding = shard_hybrid(inputs, sequence);
    ASSERT_EQ(slowest_rank_ns(inputs, sequence, sharding), slowest_ns(inputs, sequence, sharding)) << "seed " << seed;
  }
}

TEST(Hybrid, ShortDocumentsStayWholeAndLongOnesGoOverTheFewestRanksThatFit) {
  // Ranks own 9216 tokens each: a long document needs two of them, and a short one fills each.
  const Sequence sequence = sequence_of({16384, 16384, 1024, 1024, 1024, 1024});
  const auto owners = owners_of(shard_hybrid(inputs_of(4), sequence));
  EXPECT_EQ(owners.at(0), (std::set<int64_t>{0, 1}));
  EXPECT_EQ(owners.at(1), (std::set<int64_t>{2, 3}));
  std::set<int64_t> short_owners;
  for (int64_t segment = 2; segment < 6; ++segment) {
    EXPECT_EQ(owners.at(segment).size(), 1U);
    short_owners.insert(owners.at(segment).begin(), owners.at(segment).end());
  }
  EXPECT_EQ(short_owners.size(), 4U);
}

TEST(Hybrid, ALongDocumentGoesOverMoreRanksWhereThatLevelsWork) {
  // On two of the four ranks the long document would fit, and make both late.
  const auto owners = owners_of(shard_hybrid(inputs_of(4), sequence_of({16384, 4096, 4096, 4096, 4096})));
  EXPECT_EQ(owners.at(0).size(), 4U);
  for (int64_t segment = 1; segment < 5; ++segment) EXPECT_EQ(owners.at(segment).size(), 1U);
}

TEST(Hybrid, CutsALongDocumentBetweenWholeRowBlocks) {
  // 33 blocks of 128 rows and one token more: as equal chunks every one would touch a block more than it fills.
  const Sequence sequence = sequence_of({33 * 128 + 1, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
  const Sharding sharding = shard_hybrid(inputs_of(4), sequence);
  const auto owners = owners_of(sharding);
  EXPECT_GT(owners.at(0).size(), 1U);
  for (const ShardPiece& piece : sharding.pieces)
    EXPECT_EQ(piece.segment == 0 ? piece.begin_tokens % 128 : 0, 0) << piece.begin_tokens;
}

TEST(Hybrid, OneDocumentThatFillsAllRanksIsZigzagOverAll) {
  const Sharding sharding = shard_hybrid(inputs_of(4), sequence_of({131000}));
  EXPECT_EQ(owners_of(sharding).at(0).size(), 4U);
}

TEST(Adaptive, IsNamedByTheRuleThatWonAndTiesGoToTheSequence) {
  const auto winner = [](const Counts& lengths) { return shard_adaptive(inputs_of(2), sequence_of(lengths)).rule; };
  EXPECT_EQ(winner({16384}), ShardingRule::sequence_zigzag);
  EXPECT_EQ(winner({16384, 8192}), ShardingRule::document_zigzag);
  EXPECT_EQ(winner({16384, 1024, 1024}), ShardingRule::hybrid);
}

}  // namespace
}  // namespace equipoise
