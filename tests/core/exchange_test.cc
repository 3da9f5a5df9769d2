#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/workload.h"
#include "equipoise/sharding/sharding.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

constexpr Mask causal{};

Sequence sequence_of(const std::vector<int64_t>& lengths) {
  Sequence sequence;
  for (const int64_t length : lengths) sequence.segments.push_back({DocId{0}, 0, length});
  return sequence;
}

Exchange exchange_of(const std::vector<Sequence>& sequences, const std::vector<Sharding>& shardings,
                     const std::vector<Tile>& tiles, const Mask& mask, const Heads& heads, int64_t cp) {
  const std::vector<WorkItem> work = attention_work(sequences, shardings, tiles, heads, cp);
  return plan_exchange(sequences, shardings, work, mask, heads, cp);
}

/// One replica a document, cp 1: member r owns sequence r.
Exchange exchange_of(const std::vector<int64_t>& lengths, const std::vector<Tile>& tiles, const Heads& heads,
                     const Mask& mask = causal) {
  std::vector<Sequence> sequences;
  std::vector<Sharding> shardings;
  for (const int64_t length : lengths) {
    sequences.push_back(sequence_of({length}));
    shardings.push_back({ShardingRule::contiguous, {{0, 0, length, 0}}});
  }
  return exchange_of(sequences, shardings, tiles, mask, heads, 1);
}

/// Key row and KV head of a member: (member, replica, segment, row, head).
using Cell = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
/// First and last round of its use; as a message says or as dense counting finds.
using Rounds = std::pair<int64_t, int64_t>;

MemberId owner_of(const BucketPlan& bucket, int64_t cp, int64_t replica, int64_t segment, int64_t row) {
  for (const ShardPiece& piece : bucket.shardings[replica].pieces)
    if (piece.segment == segment && piece.begin_tokens <= row && row < piece.begin_tokens + piece.length_tokens)
      return MemberId{replica * cp + piece.cp_rank};
  return {};
}

bool allowed(const Mask& mask, int64_t row, int64_t key) {
  if (mask.kind == MaskKind::full) return true;
  return key <= row && (mask.kind == MaskKind::causal || key > row - mask.window_tokens);
}

/// Every key cell that a member computes with and does not own, found pair by pair.
std::map<Cell, Rounds> needed_cells(const PlanInputs& inputs, const BucketPlan& bucket, const Mask& mask,
                                    const std::vector<Tile>& tiles) {
  const int64_t cp = inputs.mesh.cp;
  std::map<Cell, Rounds> needed;
  for (const WorkItem& item : attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, cp)) {
    const int64_t length = bucket.sequences[item.replica_in_pool].segments[item.segment].length_tokens;
    for (int64_t row = item.q_begin; row < item.q_begin + item.q_length; ++row)
      for (int64_t key = 0; key < length; ++key) {
        if (!allowed(mask, row, key)) continue;
        if (owner_of(bucket, cp, item.replica_in_pool, item.segment, key) == item.member) continue;
        for (int64_t head = item.head_begin; head < item.head_begin + item.heads; ++head) {
          const Cell cell{item.member.value, item.replica_in_pool, item.segment, key, head / inputs.heads.group()};
          const auto [place, added] = needed.try_emplace(cell, item.round, item.round);
          place->second.first = std::min(place->second.first, item.round);
          place->second.second = std::max(place->second.second, item.round);
        }
      }
  }
  return needed;
}

PlanInputs small_inputs(SplitMix64& rng) {
  PlanInputs inputs = random_inputs(rng);
  inputs.limits.window_tokens = random_between(rng, 4, 24);
  return inputs;
}

TEST(Exchange, EveryKeyThatIsNeededAndNotOwnedTravelsOnceInItsRounds) {
  SplitMix64 rng{1};
  for (int i = 0; i < 150; ++i) {
    const PlanInputs inputs = small_inputs(rng);
    const BucketPlan bucket = random_bucket(rng, inputs);
    for (size_t m = 0; m < inputs.masks.size(); ++m) {
      std::map<Cell, Rounds> needed = needed_cells(inputs, bucket, inputs.masks[m], bucket.layers[m].tiles);
      for (const Message& message : bucket.layers[m].exchange.keys) {
        const RowBlock& b = message.block;
        for (int64_t row = b.begin_tokens; row < b.begin_tokens + b.length_tokens; ++row) {
          ASSERT_EQ(owner_of(bucket, inputs.mesh.cp, b.replica_in_pool, b.segment, row), message.from);
          for (int64_t head = b.head_begin; head < b.head_begin + b.heads; ++head) {
            const auto cell = needed.find({message.to.value, b.replica_in_pool, b.segment, row, head});
            ASSERT_NE(cell, needed.end()) << "sent twice, or not needed";
            ASSERT_EQ(cell->second, Rounds(message.round, message.last_round));
            needed.erase(cell);
          }
        }
      }
      ASSERT_TRUE(needed.empty());
    }
  }
}

TEST(Exchange, EveryForeignWorkItemBringsItsQueries) {
  SplitMix64 rng{2};
  for (int i = 0; i < 150; ++i) {
    const PlanInputs inputs = small_inputs(rng);
    const BucketPlan bucket = random_bucket(rng, inputs);
    for (const LayerPlan& layer : bucket.layers) {
      std::vector<Message> expected;
      int64_t last_round = 0;
      for (const WorkItem& item :
           attention_work(bucket.sequences, bucket.shardings, layer.tiles, inputs.heads, inputs.mesh.cp)) {
        last_round = std::max(last_round, item.round);
        const RowBlock block{item.replica_in_pool, item.segment,    item.q_begin,
                             item.q_length,        item.head_begin, item.heads};
        if (item.owner != item.member) expected.push_back({item.round, item.owner, item.member, block, item.round});
      }
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(layer.exchange.queries, expected);
      EXPECT_TRUE(std::is_sorted(layer.exchange.keys.begin(), layer.exchange.keys.end()));
      EXPECT_EQ(layer.exchange.rounds, last_round + 1);
    }
  }
}

TEST(Exchange, CaseA8DocumentsWholeOnTheirRanksSendNothing) {
  const Heads heads{8, 4, 2};
  const Exchange pooled = exchange_of(std::vector<int64_t>(8, 1000), {}, heads);
  EXPECT_EQ(pooled, Exchange{});

  const Sequence sequence = sequence_of(std::vector<int64_t>(8, 1000));
  const Sharding whole = shard_sequence(ShardingRule::contiguous, sequence, 8);
  EXPECT_EQ(exchange_of({sequence}, {whole}, {}, causal, heads, 8), Exchange{});
  // The same documents spread over all ranks: every one of them travels.
  const Sharding spread = shard_sequence(ShardingRule::document_zigzag, sequence, 8);
  EXPECT_FALSE(exchange_of({sequence}, {spread}, {}, causal, heads, 8).keys.empty());
}

TEST(Exchange, HeadsThatNeedTheSameRowsShareAMessage) {
  const Tile tile{.segment = 0, .q_begin = 60, .q_length = 40, .head_begin = 2, .heads = 6, .member = MemberId{1}};
  const Exchange exchange = exchange_of({100, 10}, {tile}, {8, 4, 2});
  const Message queries{1, MemberId{0}, MemberId{1}, {0, 0, 60, 40, 2, 6}, 1};
  const Message keys{1, MemberId{0}, MemberId{1}, {0, 0, 0, 100, 1, 3}, 1};
  EXPECT_EQ(exchange.queries, std::vector{queries});
  EXPECT_EQ(exchange.keys, std::vector{keys});
  EXPECT_EQ(exchange.rounds, 2);
}

TEST(Exchange, TilesInsideOneGroupNeedItsKeysOnce) {
  const Tile first{.segment = 0, .q_begin = 50, .q_length = 50, .head_begin = 4, .heads = 1, .member = MemberId{1}};
  const Tile second{.segment = 0, .q_begin = 70, .q_length = 20, .head_begin = 5, .heads = 3, .member = MemberId{1}};
  const Exchange exchange = exchange_of({100, 10}, {first, second}, {8, 2, 2});
  const Message keys{1, MemberId{0}, MemberId{1}, {0, 0, 0, 100, 1, 1}, 1};
  EXPECT_EQ(exchange.keys, std::vector{keys});
}

TEST(Exchange, KeysOfSeveralRoundsAreSentBeforeTheFirstAndStayUntilTheLast) {
  Tile early{
      .segment = 0, .q_begin = 40, .q_length = 20, .head_begin = 0, .heads = 1, .member = MemberId{1}, .round = 1};
  Tile late{
      .segment = 0, .q_begin = 60, .q_length = 40, .head_begin = 0, .heads = 1, .member = MemberId{1}, .round = 3};
  const Exchange exchange = exchange_of({100, 10}, {early, late}, {1, 1, 2});
  const Message shared{1, MemberId{0}, MemberId{1}, {0, 0, 0, 60, 0, 1}, 3};
  const Message rest{3, MemberId{0}, MemberId{1}, {0, 0, 60, 40, 0, 1}, 3};
  EXPECT_EQ(exchange.keys, (std::vector{shared, rest}));
  EXPECT_EQ(exchange.rounds, 4);
}

TEST(Exchange, AWindowBringsOnlyTheKeysThatItShows) {
  const Mask window{MaskKind::sliding_window, 8, 1};
  const Tile tile{.segment = 0, .q_begin = 50, .q_length = 10, .head_begin = 0, .heads = 1, .member = MemberId{1}};
  const Message keys{1, MemberId{0}, MemberId{1}, {0, 0, 43, 17, 0, 1}, 1};
  EXPECT_EQ(exchange_of({100, 10}, {tile}, {1, 1, 2}, window).keys, std::vector{keys});
}

TEST(Exchange, MessagesGrowWithPiecesAndMembersOnly) {
  const int64_t cp = 8;
  Sequence sequence = sequence_of(std::vector<int64_t>(1000, 77));
  const Sharding sharding = shard_sequence(ShardingRule::document_zigzag, sequence, cp);
  const Exchange exchange = exchange_of({sequence}, {sharding}, {}, causal, {8, 8, 2}, cp);
  EXPECT_LE(std::ssize(exchange.keys), std::ssize(sharding.pieces) * (cp - 1));
}

}  // namespace
}  // namespace equipoise
