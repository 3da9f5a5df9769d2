#include "equipoise/sharding/sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "equipoise/cost/hardware.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Counts = std::vector<int64_t>;

Sequence sequence_of(const Counts& lengths) {
  Sequence sequence;
  for (const int64_t length : lengths)
    sequence.segments.push_back({DocId{static_cast<int64_t>(sequence.segments.size())}, 0, length});
  return sequence;
}

/// Positions in the packed sequence that a rank owns, ascending.
Counts positions_of(const Sequence& sequence, const Sharding& sharding, int64_t rank) {
  Counts begins = {0};
  for (const Segment& segment : sequence.segments) begins.push_back(begins.back() + segment.length_tokens);
  Counts positions;
  for (const ShardPiece& piece : sharding.pieces)
    for (int64_t t = 0; t < piece.length_tokens; ++t)
      if (piece.cp_rank == rank) positions.push_back(begins[piece.segment] + piece.begin_tokens + t);
  std::sort(positions.begin(), positions.end());
  return positions;
}

Counts tokens_of(const Sharding& sharding, int64_t cp) {
  Counts tokens(cp, 0);
  for (const ShardPiece& piece : sharding.pieces) tokens[piece.cp_rank] += piece.length_tokens;
  return tokens;
}

/// Causal pairs of each rank, row by row: a row at position p of its segment sees p + 1 keys.
Counts work_of(const Sharding& sharding, int64_t cp) {
  Counts work(cp, 0);
  for (const ShardPiece& piece : sharding.pieces)
    for (int64_t t = 0; t < piece.length_tokens; ++t) work[piece.cp_rank] += piece.begin_tokens + t + 1;
  return work;
}

/// The faulty layout: each document's tokens in the order of per-document ranks, one document after the other, and the
/// whole cut into equal parts.
Counts work_of_document_major_halves(const Sequence& sequence, int64_t cp) {
  const Sharding sharding = shard_sequence(ShardingRule::document_zigzag, sequence, cp);
  Counts keys;  // by place in the layout
  for (std::size_t s = 0; s < sequence.segments.size(); ++s)
    for (int64_t rank = 0; rank < cp; ++rank)
      for (const ShardPiece& piece : sharding.pieces)
        for (int64_t t = 0; t < piece.length_tokens; ++t)
          if (piece.segment == static_cast<int64_t>(s) && piece.cp_rank == rank)
            keys.push_back(piece.begin_tokens + t + 1);
  Counts work(cp, 0);
  const auto part = static_cast<int64_t>(keys.size()) / cp;
  for (std::size_t place = 0; place < keys.size(); ++place) work[static_cast<int64_t>(place) / part] += keys[place];
  return work;
}

TEST(CaseP5, WorkPerRankTellsThreeLayoutsApart) {
  const Sequence sequence = sequence_of({4, 12});
  EXPECT_EQ(work_of(shard_sequence(ShardingRule::document_zigzag, sequence, 2), 2), (Counts{44, 44}));
  EXPECT_EQ(work_of(shard_sequence(ShardingRule::sequence_zigzag, sequence, 2), 2), (Counts{52, 36}));
  EXPECT_EQ(work_of_document_major_halves(sequence, 2), (Counts{26, 62}));
}

TEST(CaseP6, PerDocumentShardingOwnsBothEndsOfEachDocument) {
  const Sequence sequence = sequence_of({8, 8});
  const Sharding sharding = shard_sequence(ShardingRule::document_zigzag, sequence, 2);
  EXPECT_EQ(positions_of(sequence, sharding, 0), (Counts{0, 1, 6, 7, 8, 9, 14, 15}));
  EXPECT_EQ(positions_of(sequence, sharding, 1), (Counts{2, 3, 4, 5, 10, 11, 12, 13}));
}

/// A rule, or a choice between rules.
struct Way {
  const char* name;
  Sharding (*shard)(const PlanInputs&, const Sequence&);
};

template <ShardingRule rule>
Sharding shard_by(const PlanInputs& inputs, const Sequence& sequence) {
  return shard_sequence(rule, sequence, inputs.mesh.cp);
}

constexpr Way all_ways[] = {{"sequence_zigzag", shard_by<ShardingRule::sequence_zigzag>},
                            {"document_zigzag", shard_by<ShardingRule::document_zigzag>},
                            {"contiguous", shard_by<ShardingRule::contiguous>},
                            {"hybrid", shard_hybrid},
                            {"adaptive", shard_adaptive}};

class EverySharding : public testing::TestWithParam<Way> {
 protected:
  static Sharding shard(const Sequence& sequence, int64_t cp) {
    PlanInputs inputs;
    inputs.mesh.cp = cp;
    inputs.cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
    inputs.heads = {8, 2, 128};
    return GetParam().shard(inputs, sequence);
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, EverySharding, testing::ValuesIn(all_ways),
                         [](const auto& way) { return way.param.name; });

TEST_P(EverySharding, CaseP7LengthsThatTwoCpDoesNotDivideStillGiveEqualTokens) {
  const Sequence sequence = sequence_of({7, 9});
  EXPECT_EQ(tokens_of(shard(sequence, 2), 2), (Counts{8, 8}));
}

TEST_P(EverySharding, CaseP8FourDocumentsGiveEightRanksEqualTokensWithoutPadding) {
  const Sharding sharding = shard(sequence_of({137, 2041, 89, 5}), 8);
  EXPECT_EQ(tokens_of(sharding, 8), Counts(8, 284));
  EXPECT_EQ(rank_rows(sharding, {.cp = 8}, 1), Counts(8, 284));
  std::set<int64_t> owners;
  for (const ShardPiece& piece : sharding.pieces)
    if (piece.segment == 3) owners.insert(piece.cp_rank);
  EXPECT_LE(owners.size(), 5U) << "a document shorter than the group leaves ranks without a piece of it";
}

TEST_P(EverySharding, CaseP9TenTokensOnThreeRanksAreAllOwnedOnce) {
  const Sequence sequence = sequence_of({10});
  const Sharding sharding = shard(sequence, 3);
  EXPECT_EQ(tokens_of(sharding, 3), (Counts{4, 3, 3}));
  Counts owned;
  for (int64_t rank = 0; rank < 3; ++rank)
    for (const int64_t position : positions_of(sequence, sharding, rank)) owned.push_back(position);
  std::sort(owned.begin(), owned.end());
  EXPECT_EQ(owned, (Counts{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_P(EverySharding, CaseP10RowsAreWhatSequenceParallelismNeedsAndNoMore) {
  struct Row {
    int64_t cp, tp, total;
  };
  for (const auto& [cp, tp, total] : {Row{2, 4, 8}, Row{3, 2, 6}, Row{8, 8, 64}})
    for (int64_t tokens = 1; tokens <= 2 * total; ++tokens) {
      SCOPED_TRACE(testing::Message() << cp << " ranks, tp " << tp << ", " << tokens << " tokens");
      const Sharding sharding = shard(sequence_of({tokens - tokens / 3, tokens / 3}), cp);
      const Counts rows = rank_rows(sharding, {.cp = cp, .tp = tp}, tp);
      if (sharding.rule == ShardingRule::sequence_zigzag) {
        EXPECT_EQ(rows, Counts(cp, (tokens + total - 1) / total * total / cp));
      } else {
        const Counts owned = tokens_of(sharding, cp);
        for (int64_t rank = 0; rank < cp; ++rank) EXPECT_EQ(rows[rank], (owned[rank] + tp - 1) / tp * tp);
      }
    }
}

TEST(SequenceZigzag, ChunksFollowThePackedSequenceAndCutSegments) {
  const Sharding sharding = shard_sequence(ShardingRule::sequence_zigzag, sequence_of({4, 4}), 2);
  EXPECT_EQ(sharding.pieces, (std::vector<ShardPiece>{{0, 0, 2, 0}, {0, 2, 2, 1}, {1, 0, 2, 1}, {1, 2, 2, 0}}));
}

TEST(DocumentZigzag, NeighbouringChunksOfOneRankAreOnePiece) {
  const Sharding sharding = shard_sequence(ShardingRule::document_zigzag, sequence_of({8}), 2);
  EXPECT_EQ(sharding.pieces, (std::vector<ShardPiece>{{0, 0, 2, 0}, {0, 2, 4, 1}, {0, 6, 2, 0}}));
}

TEST(Contiguous, EqualDocumentsStayWholeOnTheirRanks) {
  const Sharding sharding = shard_sequence(ShardingRule::contiguous, sequence_of(Counts(8, 1000)), 8);
  ASSERT_EQ(sharding.pieces.size(), 8U);
  for (int64_t s = 0; s < 8; ++s) EXPECT_EQ(sharding.pieces[s], (ShardPiece{s, 0, 1000, s}));
}

TEST(Contiguous, ALongDocumentIsCutEvenlyOverTheFewestRanks) {
  // Ranks hold 10 tokens each: 24 tokens need three ranks, 8 on each, and the short ones fill up.
  const Sharding sharding = shard_sequence(ShardingRule::contiguous, sequence_of({24, 10, 2, 2, 2}), 4);
  EXPECT_EQ(sharding.pieces,
            (std::vector<ShardPiece>{
                {0, 0, 8, 0}, {0, 8, 8, 1}, {0, 16, 8, 2}, {1, 0, 10, 3}, {2, 0, 2, 0}, {3, 0, 2, 1}, {4, 0, 2, 2}}));
}

TEST(Contiguous, ASegmentWithNoRoomAnywhereIsCutOverTheLargestRooms) {
  const Sharding sharding = shard_sequence(ShardingRule::contiguous, sequence_of({6, 6, 4}), 2);
  EXPECT_EQ(tokens_of(sharding, 2), (Counts{8, 8}));
  EXPECT_EQ(sharding.pieces, (std::vector<ShardPiece>{{0, 0, 6, 0}, {1, 0, 6, 1}, {2, 0, 2, 0}, {2, 2, 2, 1}}));
}

TEST(Contiguous, TheRankWithMoreWorkTakesTheEarlierRange) {
  // Rank 0 has the document of 9 tokens (45 pairs), rank 1 two of 4 (20 pairs): the last document's first rows go to
  // rank 0.
  const Sharding sharding = shard_sequence(ShardingRule::contiguous, sequence_of({9, 4, 4, 3}), 2);
  EXPECT_EQ(sharding.pieces,
            (std::vector<ShardPiece>{{0, 0, 9, 0}, {1, 0, 4, 1}, {2, 0, 4, 1}, {3, 0, 1, 0}, {3, 1, 2, 1}}));
}

TEST_P(EverySharding, AnEmptySequenceHasNoPieces) { EXPECT_TRUE(shard({}, 4).pieces.empty()); }

TEST_P(EverySharding, OneRankOwnsEachSegmentAsOnePiece) {
  EXPECT_EQ(shard(sequence_of({5, 1, 7}), 1).pieces,
            (std::vector<ShardPiece>{{0, 0, 5, 0}, {1, 0, 1, 0}, {2, 0, 7, 0}}));
}

TEST_P(EverySharding, OwnsEveryTokenOnceWithLevelRanksWhateverTheLengths) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SplitMix64 rng{seed};
    const int64_t cp = random_between(rng, 1, 9);
    const int64_t longest = random_between(rng, 0, 3) == 0 ? 3000 : 20;
    Counts lengths(random_between(rng, 0, 12));
    for (int64_t& length : lengths) length = random_between(rng, 1, random_between(rng, 0, 4) == 0 ? 200 : longest);
    const Sharding sharding = shard(sequence_of(lengths), cp);
    Counts next(lengths.size(), 0);  // pieces are in order and leave no gap
    const ShardPiece* previous = nullptr;
    for (const ShardPiece& piece : sharding.pieces) {
      ASSERT_EQ(piece.begin_tokens, next.at(piece.segment));
      ASSERT_GT(piece.length_tokens, 0);
      next[piece.segment] += piece.length_tokens;
      if (previous != nullptr) {
        ASSERT_LT(*previous, piece);
        ASSERT_FALSE(previous->segment == piece.segment && previous->cp_rank == piece.cp_rank);
      }
      previous = &piece;
    }
    ASSERT_EQ(next, lengths);
    const Counts tokens = tokens_of(sharding, cp);
    const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
    ASSERT_LE(*most - *least, 1);
  }
}

TEST(DocumentZigzag, WorkIsLevelWhereLengthsDivide) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SplitMix64 rng{seed};
    const int64_t cp = random_between(rng, 1, 8);
    Counts lengths(random_between(rng, 1, 8));
    for (int64_t& length : lengths) length = 2 * cp * random_between(rng, 1, 20);
    const Counts work = work_of(shard_sequence(ShardingRule::document_zigzag, sequence_of(lengths), cp), cp);
    EXPECT_EQ(work, Counts(cp, work[0])) << seed;
  }
}

TEST(Contiguous, ASegmentIsCutIntoOneRangeForEachOfItsRanks) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SplitMix64 rng{seed};
    const int64_t cp = random_between(rng, 1, 8);
    const Sequence sequence = random_sequence(rng, 300);
    std::set<std::pair<int64_t, int64_t>> owners;
    const Sharding sharding = shard_sequence(ShardingRule::contiguous, sequence, cp);
    for (const ShardPiece& piece : sharding.pieces) owners.insert({piece.segment, piece.cp_rank});
    EXPECT_EQ(owners.size(), sharding.pieces.size()) << seed;
  }
}

}  // namespace
}  // namespace equipoise
