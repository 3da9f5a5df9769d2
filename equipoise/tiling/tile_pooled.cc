// Balance first, bytes second: a cap just above the average time decides who gives and who takes; members above it
// release their dearest rows, members below take them where it costs the fewest bytes; then exchanges of equal work
// make the busiest link less busy.

#include <algorithm>

#include "equipoise/cost/cost.h"
#include "equipoise/model/work.h"
#include "equipoise/tiling/improve.h"
#include "equipoise/tiling/make_tiles.h"
#include "equipoise/tiling/pieces.h"
#include "equipoise/tiling/receive.h"
#include "equipoise/tiling/release.h"
#include "equipoise/tiling/tiling.h"

namespace equipoise {
namespace {

/// The cap stands this far above the average: the exchanges need play, and predicted time is not surer than that.
constexpr int64_t slack_ppm = 10'000;

/// A rule of handing out, and the rows of long segments that stay with their owners.
struct Rule {
  HandOut order;
  Kept kept;
};

constexpr Rule rules[] = {{HandOut::from_longest_prefix, {0, 300'000}},
                          {HandOut::from_longest_prefix, {300'000, 300'000}},
                          {HandOut::to_largest_spare, {0, 300'000}},
                          {HandOut::from_longest_prefix, {0, 0}}};

/// How much is searched: rules tried, random exchanges for each member before the best rule is chosen and after, and
/// their patience: the more exchanges, the more of it pays.
struct Budget {
  int64_t rules = 1;
  int64_t tries_before = 0;
  int64_t tries_after = 0;
  int64_t patience_ppm = 0;
};

Budget budget_of(const PooledTiling& pool) {
  if (pool.only_rules) return {.rules = 2};
  // Without context parallelism every segment lies whole on one member: all rules release the same few rows.
  switch (pool.cp == 1 ? Effort::fast : pool.effort) {
    case Effort::fast: return {.rules = 1};
    case Effort::normal: return {.rules = 3, .tries_after = 110, .patience_ppm = 1667};
    case Effort::thorough: return {.rules = 4, .tries_before = 30, .tries_after = 1900, .patience_ppm = 5000};
  }
  return {};
}

int64_t speed_of(const PooledTiling& pool, size_t member) {
  return pool.speeds_ppt.empty() ? 1000 : pool.speeds_ppt[member];
}

int64_t slowest_of(const PooledTiling& pool, std::span<const int64_t> work) {
  int64_t slowest = 0;
  for (size_t m = 0; m < work.size(); ++m) slowest = std::max(slowest, at_speed(work[m], speed_of(pool, m)));
  return slowest;
}

/// Predicted attention of the slowest member with the given tiles.
int64_t slowest_with(const PooledTiling& pool, std::span<const Tile> tiles) {
  const auto items = attention_work(pool.sequences, pool.shardings, tiles, pool.heads, pool.cp);
  const auto members = static_cast<int64_t>(pool.shardings.size()) * pool.cp;
  std::vector<int64_t> work;
  for (const PassTime& time :
       attention_times({pool.cost, pool.mask, pool.heads, pool.grid_rows}, pool.sequences, items, members))
    work.push_back(time.total());
  return slowest_of(pool, work);
}

/// Work of each member where all owners compute their rows.
std::vector<int64_t> home_work(const PooledTiling& pool, std::span<const HomePiece> pieces) {
  std::vector<int64_t> work(pool.shardings.size() * pool.cp, 0);
  for (const HomePiece& piece : pieces) {
    int64_t& owner = work[piece.owner.value];
    owner += piece.home_ns + (owner == 0 ? call_work(pool) : 0);
  }
  return work;
}

/// What each member may take: a time just above the one in which all together, each at its speed, do all of the work.
std::vector<int64_t> capacities(const PooledTiling& pool, std::span<const int64_t> work) {
  int64_t total = 0;
  int64_t speeds = 0;
  for (size_t m = 0; m < work.size(); ++m) {
    total += work[m];
    speeds += speed_of(pool, m);
  }
  const int64_t ideal = mul_div(total, 1000, std::max<int64_t>(1, speeds));
  const int64_t cap = ideal + mul_div(ideal, slack_ppm, ppm_one);
  std::vector<int64_t> capacity;
  for (size_t m = 0; m < work.size(); ++m) capacity.push_back(mul_div(cap, speed_of(pool, m), 1000));
  return capacity;
}

bool is_level(const std::vector<int64_t>& work, const std::vector<int64_t>& capacity) {
  for (size_t m = 0; m < work.size(); ++m)
    if (work[m] > capacity[m]) return false;
  return true;
}

/// All rows that leave their owners by one rule, sorted by piece: what floats, and what overloaded members release.
std::vector<Column> open_columns(const PooledTiling& pool, std::span<HomePiece> pieces,
                                 std::span<const int64_t> capacity, const Kept& floors) {
  std::vector<Column> columns = float_columns(pool, pieces, floors);
  std::vector<std::vector<int64_t>> by_member(capacity.size());
  std::vector<int64_t> kept(capacity.size(), call_work(pool));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const HomePiece& piece = pieces[i];
    by_member[piece.owner.value].push_back(static_cast<int64_t>(i));
    kept[piece.owner.value] +=
        piece.kept == piece.rows ? piece.home_ns : rows_work(pool, piece.length_tokens, piece.kept, pool.heads.kv);
  }
  for (size_t m = 0; m < capacity.size(); ++m) {
    if (kept[m] <= capacity[m]) continue;
    const auto released = release_columns(pool, pieces, by_member[m], capacity[m] - call_work(pool));
    columns.insert(columns.end(), released.begin(), released.end());
  }
  std::sort(columns.begin(), columns.end(), [](const Column& a, const Column& b) {
    return std::pair(a.piece, a.kv_head) < std::pair(b.piece, b.kv_head);
  });
  return columns;
}

/// A board on which all rows are taken, the pieces it speaks of, and what its members may take.
struct Placed {
  std::vector<HomePiece> pieces;
  Board board;
  std::vector<int64_t> capacity;
};

Placed place(const PooledTiling& pool, std::vector<HomePiece> pieces, const std::vector<int64_t>& capacity,
             const Rule& rule) {
  const auto open = open_columns(pool, pieces, capacity, rule.kept);
  const std::span<const HomePiece> shown = pieces;  // stays valid where the pieces are moved
  Placed placed{std::move(pieces), Board(pool, shown, open), capacity};
  hand_out(placed.board, placed.capacity, rule.order);
  return placed;
}

/// The best of the rules, improved as far as the budget goes.
Placed search(const PooledTiling& pool, const std::vector<HomePiece>& home, const std::vector<int64_t>& capacity) {
  const Budget budget = budget_of(pool);
  const auto members = static_cast<int64_t>(capacity.size());
  const auto try_rule = [&](const Rule& rule) {
    Placed placed = place(pool, home, capacity, rule);
    improve(placed.board, placed.capacity, budget.tries_before * members, budget.patience_ppm);
    return placed;
  };
  Placed best = try_rule(rules[0]);
  for (int64_t i = 1; i < budget.rules; ++i) {
    Placed other = try_rule(rules[i]);
    if (most_traffic_ps(other.board) < most_traffic_ps(best.board)) best = std::move(other);
  }
  improve(best.board, best.capacity, budget.tries_after * members, budget.patience_ppm);
  return best;
}

std::vector<int64_t> traffic_of(const Board& board) {
  std::vector<int64_t> traffic;
  for (int64_t m = 0; m < board.members(); ++m) traffic.push_back(board.tally(MemberId{m}).traffic_ps);
  return traffic;
}

}  // namespace

PooledTiles tile_pooled(const PooledTiling& pool) {
  const auto home = list_pieces(pool);
  const auto work = home_work(pool, home);
  const auto capacity = capacities(pool, work);
  const int64_t slowest = slowest_of(pool, work);
  if (!is_level(work, capacity)) {
    const Placed placed = search(pool, home, capacity);
    auto tiles = make_tiles(placed.board);
    const int64_t reached = slowest_with(pool, tiles);
    if (reached < slowest) return {std::move(tiles), reached, traffic_of(placed.board)};
  }
  return {{}, slowest, traffic_of(Board(pool, home, {}))};
}

std::vector<int64_t> pooled_traffic(const PooledTiling& pool) {
  const auto home = list_pieces(pool);
  const auto work = home_work(pool, home);
  const auto capacity = capacities(pool, work);
  return traffic_of(is_level(work, capacity) ? Board(pool, home, {}) : search(pool, home, capacity).board);
}

}  // namespace equipoise
