#include "equipoise/tiling/board.h"

#include <gtest/gtest.h>

#include "equipoise/cost/cost.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/tiling/make_tiles.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// A random pool with storage of its own.
struct Pool {
  PlanInputs inputs;
  BucketPlan bucket;
  std::vector<int64_t> nodes;

  PooledTiling tiling() const {
    return {.sequences = bucket.sequences,
            .shardings = bucket.shardings,
            .mask = inputs.masks[0],
            .heads = inputs.heads,
            .cost = inputs.cost,
            .speeds_ppt = {},
            .cp = inputs.mesh.cp,
            .exchange_bytes = no_limit,
            .nodes = nodes};
  }
};

Pool random_pool(SplitMix64& rng) {
  Pool pool;
  pool.inputs = random_inputs(rng);
  pool.inputs.masks.resize(1);
  if (pool.inputs.masks[0].kind == MaskKind::sliding_window) pool.inputs.masks[0] = {};
  pool.bucket = random_bucket(rng, pool.inputs);
  for (int64_t m = 0; m < pool.inputs.members(); ++m) pool.nodes.push_back(random_between(rng, 0, 1));
  return pool;
}

Range random_part(SplitMix64& rng, Range rows) {
  const int64_t begin = random_between(rng, rows.begin, rows.end() - 1);
  return {begin, random_between(rng, begin + 1, rows.end()) - begin};
}

/// Gives random rows of random columns to random members.
void shuffle_rows(SplitMix64& rng, Board& board) {
  for (int64_t i = 0; i < 30 && board.columns() > 0; ++i) {
    const int64_t column = random_between(rng, 0, board.columns() - 1);
    const Range rows = random_part(rng, {0, board.text_of(column).length_tokens});
    board.give(column, rows, MemberId{random_between(rng, 0, board.members() - 1)});
  }
}

Exchange exchange_of(const Pool& pool, const std::vector<Tile>& tiles) {
  const auto& [inputs, bucket, nodes] = pool;
  const auto work = attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, inputs.mesh.cp);
  return plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[0], inputs.heads, inputs.mesh.cp);
}

/// Traffic of each member by the messages themselves, on all four trips.
std::vector<int64_t> traffic_of(const Pool& pool, const Exchange& exchange) {
  const CostTable& cost = pool.inputs.cost;
  const int64_t cell = pool.inputs.heads.size * cost.element_bytes;
  const int64_t group = pool.inputs.heads.group();
  std::vector<int64_t> traffic(pool.inputs.members(), 0);
  const auto add = [&](const Message& message, int64_t rows, int64_t row_bytes) {
    const bool near = pool.nodes[message.from.value] == pool.nodes[message.to.value];
    const int64_t row_ps = row_bytes * (near ? cost.node : cost.network).kilobyte_ps / 1024;
    traffic[message.from.value] += rows * row_ps;
    traffic[message.to.value] += rows * row_ps;
  };
  for (const Message& query : exchange.queries)
    add(query, query.block.length_tokens * query.block.heads / group, group * (6 * cell + 2 * cost.statistic_bytes));
  for (const Message& key : exchange.keys) add(key, key.block.length_tokens * key.block.heads, 6 * cell);
  return traffic;
}

TEST(Board, CountsTheTrafficAndTheKeysOfTheMessagesThatFollow) {
  int64_t moved = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    const Pool pool = random_pool(rng);
    const PooledTiling tiling = pool.tiling();
    const auto pieces = list_pieces(tiling);
    Board board(tiling, pieces, {});
    shuffle_rows(rng, board);
    const Exchange exchange = exchange_of(pool, make_tiles(board));
    const auto traffic = traffic_of(pool, exchange);
    std::vector<int64_t> key_bytes(board.members(), 0);
    for (const Message& key : exchange.keys)
      key_bytes[key.to.value] +=
          2 * pool.inputs.heads.size * pool.inputs.cost.element_bytes * key.block.length_tokens * key.block.heads;
    for (int64_t m = 0; m < board.members(); ++m) {
      ASSERT_EQ(board.tally(MemberId{m}).traffic_ps, traffic[m]) << "member " << m;
      ASSERT_EQ(board.tally(MemberId{m}).key_bytes, key_bytes[m]) << "member " << m;
    }
    moved += std::ssize(exchange.queries);
  }
  EXPECT_GT(moved, 5000);
}

TEST(Board, IsWhatItWasWhenAllRowsGoHome) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SplitMix64 rng{seed};
    const Pool pool = random_pool(rng);
    const PooledTiling tiling = pool.tiling();
    const auto pieces = list_pieces(tiling);
    const Board before(tiling, pieces, {});
    Board board = before;
    shuffle_rows(rng, board);
    for (int64_t column = 0; column < board.columns(); ++column)
      for (const OwnedRows& piece : board.pieces_of(column)) board.give(column, piece.rows, piece.owner);
    EXPECT_TRUE(make_tiles(board).empty());
    for (int64_t m = 0; m < board.members(); ++m) {
      ASSERT_EQ(board.tally(MemberId{m}).work_ns, before.tally(MemberId{m}).work_ns);
      ASSERT_EQ(board.tally(MemberId{m}).traffic_ps, before.tally(MemberId{m}).traffic_ps);
    }
  }
}

}  // namespace
}  // namespace equipoise
