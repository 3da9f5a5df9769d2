#include "equipoise/tiling/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/sharding/sharding.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// What tile_pooled reads, with storage of its own.
struct Instance {
  std::vector<Sequence> sequences = {};
  std::vector<Sharding> shardings = {};
  Mask mask = {};
  Heads heads = {};
  CostTable cost = {};
  std::vector<int64_t> speeds = {};
  int64_t cp = 1;
  int64_t exchange_bytes = no_limit;

  int64_t members() const { return static_cast<int64_t>(sequences.size()) * cp; }
  std::vector<Tile> tile() const {
    return tile_pooled({sequences, shardings, mask, heads, cost, speeds, cp, exchange_bytes}).tiles;
  }
  std::vector<WorkItem> work(const std::vector<Tile>& tiles) const {
    return attention_work(sequences, shardings, tiles, heads, cp);
  }
  Exchange exchange(const std::vector<Tile>& tiles) const {
    return plan_exchange(sequences, shardings, work(tiles), mask, heads, cp);
  }
  /// Predicted attention time of each member.
  std::vector<int64_t> times(const std::vector<Tile>& tiles) const {
    std::vector<int64_t> result;
    for (const PassTime& time : attention_times({cost, mask, heads}, sequences, work(tiles), members())) {
      const size_t member = result.size();
      result.push_back(at_speed(time.total(), speeds.empty() ? 1000 : speeds[member]));
    }
    return result;
  }
};

int64_t max_of(const std::vector<int64_t>& values) { return *std::max_element(values.begin(), values.end()); }
int64_t sum_of(const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (const int64_t value : values) sum += value;
  return sum;
}

Instance random_instance(uint64_t seed) {
  SplitMix64 rng{seed};
  const PlanInputs inputs = random_inputs(rng);
  Instance instance{.mask = inputs.masks[0], .heads = inputs.heads, .cost = inputs.cost, .cp = inputs.mesh.cp};
  if (!inputs.speeds_ppt.empty())
    instance.speeds.assign(inputs.speeds_ppt.begin(), inputs.speeds_ppt.begin() + inputs.members());
  for (int64_t r = 0; r < inputs.pool; ++r) {
    instance.sequences.push_back(random_sequence(rng, 100));
    instance.shardings.push_back(
        seed % 3 == 0 ? random_sharding(rng, instance.sequences.back(), instance.cp)
                      : shard_sequence(ShardingRule::contiguous, instance.sequences.back(), instance.cp));
  }
  return instance;
}

/// Fails unless each (row, head) is at home or in exactly one tile, whose member does not own the row.
void expect_valid(const Instance& instance, const std::vector<Tile>& tiles) {
  std::set<std::array<int64_t, 4>> named;
  const int64_t group = instance.heads.group();
  for (const Tile& tile : tiles) {
    ASSERT_TRUE(tile.q_length > 0 && tile.heads > 0 && tile.round >= 1);
    ASSERT_TRUE(tile.head_begin % group == 0 && tile.heads % group == 0) << "whole KV groups";
    ASSERT_LE(tile.head_begin + tile.heads, instance.heads.query);
    const Segment& segment = instance.sequences[tile.replica_in_pool].segments[tile.segment];
    ASSERT_LE(tile.q_begin + tile.q_length, segment.length_tokens);
    ASSERT_LT(tile.member.value, instance.members());
    for (const ShardPiece& piece : instance.shardings[tile.replica_in_pool].pieces) {
      const bool owns =
          piece.segment == tile.segment && tile.replica_in_pool * instance.cp + piece.cp_rank == tile.member.value &&
          piece.begin_tokens < tile.q_begin + tile.q_length && piece.begin_tokens + piece.length_tokens > tile.q_begin;
      ASSERT_FALSE(owns) << "a tile goes to another member than the owner of its rows";
    }
    for (int64_t i = 0; i < tile.q_length; ++i)
      for (int64_t h = 0; h < tile.heads; ++h)
        ASSERT_TRUE(named.insert({tile.replica_in_pool, tile.segment, tile.q_begin + i, tile.head_begin + h}).second);
  }
  // Pairs, counted by rows, of all work: each pair of each head once.
  int64_t pairs = 0;
  int64_t done = 0;
  for (const Sequence& sequence : instance.sequences)
    for (const Segment& segment : sequence.segments)
      for (int64_t row = 0; row < segment.length_tokens; ++row)
        pairs += instance.heads.query * visible_keys(instance.mask, {row, 1}, segment.length_tokens).length;
  for (const WorkItem& item : instance.work(tiles))
    for (int64_t row = item.q_begin; row < item.q_begin + item.q_length; ++row)
      done += item.heads * visible_keys(instance.mask, {row, 1},
                                        instance.sequences[item.replica_in_pool].segments[item.segment].length_tokens)
                               .length;
  ASSERT_EQ(done, pairs);
}

TEST(PooledTiling, IsValidNeverSlowerAndTheSameWhenPlannedAgain) {
  int64_t moved = 0;
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(3000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance instance = random_instance(seed);
    const auto tiles = instance.tile();
    expect_valid(instance, tiles);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(tiles.empty() || max_of(instance.times(tiles)) < max_of(instance.times({})));
    ASSERT_EQ(instance.tile(), tiles);
    moved += tiles.empty() ? 0 : 1;
  }
  EXPECT_GT(moved, random_runs(1000)) << "most random pools are unbalanced";
}

TEST(PooledTiling, NeverPassesTheExchangeCapAndUsesMoreRoundsToMeetIt) {
  int64_t tight = 0;
  int64_t several_rounds = 0;
  for (uint64_t seed = 0; seed < random_runs<uint64_t>(2000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance instance = random_instance(seed);
    SplitMix64 rng{seed + 1'000'000};
    const auto free_tiles = instance.tile();
    const int64_t cells = instance.heads.size * instance.cost.element_bytes;
    const auto home = held_bytes(instance.cost, instance.heads, instance.exchange({}), instance.members());
    instance.exchange_bytes = max_of(home) + cells * random_between(rng, 0, 60 * instance.heads.query);
    const auto tiles = instance.tile();
    const auto held = held_bytes(instance.cost, instance.heads, instance.exchange(tiles), instance.members());
    ASSERT_LE(max_of(held), instance.exchange_bytes);
    expect_valid(instance, tiles);
    if (HasFatalFailure()) return;
    tight += tiles != free_tiles ? 1 : 0;
    several_rounds += std::any_of(tiles.begin(), tiles.end(), [](const Tile& tile) { return tile.round > 1; }) ? 1 : 0;
  }
  EXPECT_GT(tight, random_runs(100));
  EXPECT_GT(several_rounds, random_runs(20));
}

TEST(PooledTiling, LeavesABalancedPoolAlone) {
  Instance instance{.heads = {8, 4, 64}, .cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1)};
  for (int64_t r = 0; r < 8; ++r) {
    instance.sequences.push_back({{{DocId{r}, 0, 1000}}});
    instance.shardings.push_back({ShardingRule::contiguous, {{0, 0, 1000, 0}}});
  }
  EXPECT_TRUE(instance.tile().empty());
  EXPECT_TRUE(Instance{}.tile().empty()) << "no members at all";
}

TEST(PooledTiling, GivesASlowRankLessWork) {
  Instance instance{.heads = {8, 4, 64}, .cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1)};
  for (int64_t r = 0; r < 4; ++r) {
    instance.sequences.push_back({{{DocId{r}, 0, 65536}}});
    instance.shardings.push_back({ShardingRule::contiguous, {{0, 0, 65536, 0}}});
  }
  instance.speeds = {1000, 1000, 800, 1000};
  const auto tiles = instance.tile();
  ASSERT_FALSE(tiles.empty());
  for (const Tile& tile : tiles) EXPECT_EQ(tile.replica_in_pool, 2) << "only the slow rank gives";
  const auto times = instance.times(tiles);
  EXPECT_LE(max_of(times) * 1000, *std::min_element(times.begin(), times.end()) * 1030);
}

/// Lengths of a heavy-tailed corpus: 70 % below 1K, each further doubling about half as likely, up to the window.
std::vector<Sequence> heavy_sequences(uint64_t seed, int64_t count, int64_t window) {
  SplitMix64 rng{seed};
  std::vector<Sequence> sequences(count);
  int64_t document = 0;
  for (Sequence& sequence : sequences)
    for (int64_t room = window; room > 0; ++document) {
      int64_t longest = 1024;
      while (longest < window && random_between(rng, 0, 99) < 45) longest *= 2;
      const int64_t length = std::min(room, random_between(rng, longest / 2, longest));
      sequence.segments.push_back({DocId{document}, 0, length});
      room -= length;
    }
  return sequences;
}

/// Query rows x heads that must leave a member so that the rest takes at most `cap_ns`, at least: its dearest row
/// blocks, by kernel tiles alone.
int64_t fewest_moved_cells(const Instance& instance, int64_t member, int64_t cap_ns) {
  const int64_t block = instance.cost.attention.tile_rows;
  std::vector<std::pair<int64_t, int64_t>> blocks;  // tiles of one head, rows
  int64_t tiles = 0;
  for (const Segment& segment : instance.sequences[member].segments)
    for (int64_t row = 0; row < segment.length_tokens; row += block) {
      const Range rows{row, std::min(block, segment.length_tokens - row)};
      blocks.push_back(
          {kernel_tiles(instance.cost.attention, instance.mask, rows, segment.length_tokens), rows.length});
      tiles += blocks.back().first;
    }
  std::sort(blocks.rbegin(), blocks.rend());
  // Time is taken as proportional to tiles: what stays at home is as dear for each tile as the whole.
  const int64_t allowed = mul_div(tiles, cap_ns, instance.times({})[member]);
  int64_t rows = 0;
  for (const auto& [block_tiles, block_rows] : blocks) {
    if (tiles <= allowed) break;
    if (tiles - block_tiles < allowed) {
      rows += block_rows * (tiles - allowed) / block_tiles;
      break;
    }
    tiles -= block_tiles;
    rows += block_rows;
  }
  return rows * instance.heads.query;
}

TEST(PooledTiling, LevelsHeavyTailedPoolsAndMovesFewRows) {
  const CostTable cost = make_cost_table(find_model("llama3-8b"), find_hardware("h100"), 1);
  for (const int64_t ranks : {8, 16, 64})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Instance instance{.sequences = heavy_sequences(seed, ranks, 131072), .heads = {32, 8, 128}, .cost = cost};
      for (const Sequence& sequence : instance.sequences)
        instance.shardings.push_back(shard_sequence(ShardingRule::contiguous, sequence, 1));
      const auto tiles = instance.tile();
      const auto before = instance.times({});
      const int64_t slowest = max_of(instance.times(tiles));
      const double mean = static_cast<double>(sum_of(before)) / static_cast<double>(ranks);
      EXPECT_GT(static_cast<double>(max_of(before)), 1.3 * mean) << "there is something to balance";
      EXPECT_LE(static_cast<double>(slowest), 1.02 * mean) << ranks << " ranks, seed " << seed;
      int64_t moved = 0;
      for (const Tile& tile : tiles) moved += tile.q_length * tile.heads;
      int64_t fewest = 0;
      for (int64_t member = 0; member < ranks; ++member) fewest += fewest_moved_cells(instance, member, slowest);
      EXPECT_LE(static_cast<double>(moved), 1.2 * static_cast<double>(fewest)) << ranks << " ranks, seed " << seed;
    }
}

/// A CPU: short rows of keys are dearer for each tile, an entry costs something.
CostTable cpu_cost() {
  CostTable cost;
  cost.element_bytes = 4;
  cost.attention.entry_ns = 30'000;
  cost.attention.tile_ps = {{128, 80'000'000}, {512, 60'000'000}, {2048, 46'000'000}, {8192, 40'000'000}};
  cost.attention.backward_ppm = {{0, 2'500'000}};
  return cost;
}

TEST(PooledTiling, LevelsTwoRanksOfSmallDocuments) {
  int64_t unbalanced = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Instance instance{.sequences = heavy_sequences(seed, 2, 8192), .heads = {8, 4, 64}, .cost = cpu_cost()};
    for (const Sequence& sequence : instance.sequences)
      instance.shardings.push_back(shard_sequence(ShardingRule::contiguous, sequence, 1));
    const auto before = instance.times({});
    const double mean = static_cast<double>(sum_of(before)) / 2;
    unbalanced += static_cast<double>(max_of(before)) > 1.1 * mean ? 1 : 0;
    const auto tiles = instance.tile();
    EXPECT_LE(static_cast<double>(max_of(instance.times(tiles))), 1.03 * mean) << "seed " << seed;
    EXPECT_LE(tiles.size(), 12u) << "seed " << seed;
  }
  EXPECT_GT(unbalanced, 20);
}

TEST(Ulysses, SplitsHeadsOverTheContextGroup) {
  // 28 query heads, 7 KV heads: rank 0 gets three whole groups and two heads of the fourth, rank 1 the other two and
  // three groups.
  const std::vector<Sharding> shardings = {{ShardingRule::contiguous, {{0, 0, 5, 0}, {0, 5, 5, 1}}}};
  const auto tiles = tile_ulysses(shardings, {28, 7, 8}, 2);
  const std::vector<Tile> expected = {{0, 0, 0, 5, 14, 2, MemberId{1}, 1},
                                      {0, 0, 0, 5, 16, 12, MemberId{1}, 1},
                                      {0, 0, 5, 5, 0, 12, MemberId{0}, 1},
                                      {0, 0, 5, 5, 12, 2, MemberId{0}, 1}};
  EXPECT_EQ(tiles, expected);
}

TEST(Ulysses, GivesNothingToARankWithoutHeads) {
  // One head on three ranks: it is the last rank's.
  const std::vector<Sharding> shardings = {{ShardingRule::contiguous, {{0, 0, 2, 0}, {0, 2, 2, 1}, {0, 4, 2, 2}}}};
  const std::vector<Tile> expected = {{0, 0, 0, 2, 0, 1, MemberId{2}, 1}, {0, 0, 2, 2, 0, 1, MemberId{2}, 1}};
  EXPECT_EQ(tile_ulysses(shardings, {1, 1, 8}, 3), expected);
}

TEST(Ulysses, GivesEveryRankItsHeadsOfEveryRow) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance instance = random_instance(seed);
    const auto tiles = tile_ulysses(instance.shardings, instance.heads, instance.cp);
    int64_t items = 0;
    for (const WorkItem& item : instance.work(tiles)) {
      const int64_t rank = item.member.value % instance.cp;
      ASSERT_GT(item.heads, 0);
      ASSERT_EQ(item.member.value / instance.cp, item.replica_in_pool);
      ASSERT_GE(item.head_begin, rank * instance.heads.query / instance.cp);
      ASSERT_LE(item.head_begin + item.heads, (rank + 1) * instance.heads.query / instance.cp);
      ++items;
    }
    int64_t rows = 0;
    for (const Sequence& sequence : instance.sequences) rows += sequence.tokens();
    ASSERT_EQ(items > 0, rows > 0);
  }
}

}  // namespace
}  // namespace equipoise
