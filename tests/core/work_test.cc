#include "equipoise/model/work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

struct Cell {
  int64_t replica = 0;
  int64_t segment = 0;
  int64_t row = 0;
  int64_t head = 0;
  auto operator<=>(const Cell&) const = default;
};

/// A member and, by use, a row of its tensors or the round in which it computes.
struct Place {
  int64_t member = 0;
  int64_t number = 0;
  auto operator<=>(const Place&) const = default;
};

/// Owner and local row of every token, counted one by one.
std::map<Cell, Place> find_owners(const std::vector<Sharding>& shardings, int64_t cp) {
  std::map<Cell, Place> owners;
  for (size_t r = 0; r < shardings.size(); ++r) {
    const auto replica = static_cast<int64_t>(r);
    std::vector<int64_t> next(cp, 0);
    for (const ShardPiece& piece : shardings[r].pieces)
      for (int64_t i = 0; i < piece.length_tokens; ++i)
        owners[{replica, piece.segment, piece.begin_tokens + i, 0}] = {replica * cp + piece.cp_rank,
                                                                       next[piece.cp_rank]++};
  }
  return owners;
}

/// Who computes every (row, head) and in which round, as the tiles say.
std::map<Cell, Place> expected_work(const std::map<Cell, Place>& owners, const std::vector<Tile>& tiles,
                                    const Heads& heads) {
  std::map<Cell, Place> expected;
  for (const auto& [cell, owner] : owners)
    for (int64_t h = 0; h < heads.query; ++h) expected[{cell.replica, cell.segment, cell.row, h}] = {owner.member, 0};
  for (const Tile& tile : tiles)
    for (int64_t i = 0; i < tile.q_length; ++i)
      for (int64_t h = 0; h < tile.heads; ++h)
        expected[{tile.replica_in_pool, tile.segment, tile.q_begin + i, tile.head_begin + h}] = {tile.member.value,
                                                                                                 tile.round};
  return expected;
}

/// Adds the item to `found`; fails where its shape or owner is wrong or a (row, head) was there before.
void count_item(const WorkItem& item, const Heads& heads, const std::map<Cell, Place>& owners,
                std::map<Cell, Place>& found) {
  ASSERT_GT(item.q_length, 0);
  const bool in_group = item.head_begin / heads.group() == (item.head_begin + item.heads - 1) / heads.group();
  const bool whole_groups = item.head_begin % heads.group() == 0 && item.heads % heads.group() == 0;
  ASSERT_TRUE(in_group || whole_groups);
  for (int64_t i = 0; i < item.q_length; ++i) {
    const Place& owner = owners.at({item.replica_in_pool, item.segment, item.q_begin + i, 0});
    ASSERT_EQ(owner, (Place{item.owner.value, item.owner_row + i}));
    for (int64_t h = 0; h < item.heads; ++h) {
      const Cell cell{item.replica_in_pool, item.segment, item.q_begin + i, item.head_begin + h};
      ASSERT_TRUE(found.emplace(cell, Place{item.member.value, item.round}).second) << "computed twice";
    }
  }
}

TEST(AttentionWork, ComputesEveryRowAndHeadOnceWhereItsTileSays) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    const PlanInputs inputs = random_inputs(rng);
    std::vector<Sequence> sequences;
    std::vector<Sharding> shardings;
    for (int64_t r = 0; r < inputs.pool; ++r) {
      sequences.push_back(random_sequence(rng, 40));
      shardings.push_back(random_sharding(rng, sequences.back(), inputs.mesh.cp));
    }
    const auto tiles = random_tiles(rng, inputs, sequences, shardings);
    const auto owners = find_owners(shardings, inputs.mesh.cp);
    const auto work = attention_work(sequences, shardings, tiles, inputs.heads, inputs.mesh.cp);
    std::map<Cell, Place> found;
    for (const WorkItem& item : work) count_item(item, inputs.heads, owners, found);
    ASSERT_EQ(found, expected_work(owners, tiles, inputs.heads));
    ASSERT_TRUE(std::is_sorted(work.begin(), work.end()));
  }
}

TEST(AttentionWork, KeepsHomeWorkInTallColumns) {
  // One segment of 100 rows on member 0; heads 2 and 3 (one KV head's group) of the last 40 rows go to member 1.
  const Heads heads{.query = 6, .kv = 3, .size = 4};
  const std::vector<Sequence> sequences = {{{{DocId{0}, 0, 100}}}, {}};
  const std::vector<Sharding> shardings = {{ShardingRule::contiguous, {{0, 0, 100, 0}}}, {}};
  const std::vector<Tile> tiles = {{0, 0, 60, 40, 2, 2, MemberId{1}, 1}};
  const std::vector<WorkItem> expected = {{MemberId{0}, 0, 0, 0, 0, 100, 0, 2, MemberId{0}, 0},
                                          {MemberId{0}, 0, 0, 0, 0, 60, 2, 2, MemberId{0}, 0},
                                          {MemberId{0}, 0, 0, 0, 0, 100, 4, 2, MemberId{0}, 0},
                                          {MemberId{1}, 1, 0, 0, 60, 40, 2, 2, MemberId{0}, 60}};
  auto sorted = expected;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(attention_work(sequences, shardings, tiles, heads, 1), sorted);
}

TEST(AttentionWork, CutsTilesWhereTheOwnerChanges) {
  const Heads heads{.query = 2, .kv = 2, .size = 4};
  const std::vector<Sequence> sequences = {{{{DocId{0}, 0, 8}}}, {{{DocId{1}, 0, 2}}}};
  const std::vector<Sharding> shardings = {{ShardingRule::contiguous, {{0, 0, 4, 0}, {0, 4, 4, 1}}},
                                           {ShardingRule::contiguous, {{0, 0, 1, 0}, {0, 1, 1, 1}}}};
  const std::vector<Tile> tiles = {{0, 0, 2, 5, 0, 2, MemberId{2}, 1}};
  const auto work = attention_work(sequences, shardings, tiles, heads, 2);
  ASSERT_EQ(work.size(), 6u);
  EXPECT_EQ(work[3], (WorkItem{MemberId{2}, 1, 0, 0, 2, 2, 0, 2, MemberId{0}, 2}));
  EXPECT_EQ(work[4], (WorkItem{MemberId{2}, 1, 0, 0, 4, 3, 0, 2, MemberId{1}, 0}));
}

}  // namespace
}  // namespace equipoise
