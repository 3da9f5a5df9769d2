// Balance first, bytes second: a cap just above the average time decides who gives and who takes; members above it
// release their dearest rows, members below take them where it costs the fewest bytes. Where the cap cannot be met (row
// blocks are coarse, memory is short) it is raised and all is done again.

#include <algorithm>
#include <optional>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"
#include "equipoise/model/work.h"
#include "equipoise/tiling/make_tiles.h"
#include "equipoise/tiling/pieces.h"
#include "equipoise/tiling/receive.h"
#include "equipoise/tiling/release.h"

namespace equipoise {
namespace {

/// The cap stands this far above the average, in parts per million, and where it cannot be met the distance grows by a
/// quarter.
constexpr int64_t first_slack_ppm = 5'000;

int64_t speed_of(const PooledTiling& pool, size_t member) {
  return pool.speeds_ppt.empty() ? 1000 : pool.speeds_ppt[member];
}

/// Predicted attention work of each member with the given tiles, at nominal speed.
std::vector<int64_t> work_with(const PooledTiling& pool, std::span<const Tile> tiles) {
  const auto items = attention_work(pool.sequences, pool.shardings, tiles, pool.heads, pool.cp);
  const auto members = static_cast<int64_t>(pool.shardings.size()) * pool.cp;
  std::vector<int64_t> work;
  for (const PassTime& time : attention_times({pool.cost, pool.mask, pool.heads}, pool.sequences, items, members))
    work.push_back(time.total());
  return work;
}

int64_t slowest_ns(const PooledTiling& pool, std::span<const int64_t> work) {
  int64_t slowest = 0;
  for (size_t m = 0; m < work.size(); ++m) slowest = std::max(slowest, at_speed(work[m], speed_of(pool, m)));
  return slowest;
}

/// The time in which all members together, each at its speed, do all of the work.
int64_t ideal_ns(const PooledTiling& pool, std::span<const int64_t> work) {
  int64_t total = 0;
  int64_t speeds = 0;
  for (size_t m = 0; m < work.size(); ++m) {
    total += work[m];
    speeds += speed_of(pool, m);
  }
  return mul_div(total, 1000, speeds);
}

/// Home work: whose pieces they are, and what their owner does when only what is kept stays.
struct Homes {
  std::vector<HomePiece> pieces;
  std::vector<Column> floating;
  std::vector<std::vector<int64_t>> by_member;  ///< indices into pieces
  std::vector<int64_t> kept_ns;                 ///< by member
};

Homes list_homes(const PooledTiling& pool) {
  Homes homes;
  homes.pieces = list_pieces(pool);
  homes.floating = float_columns(pool, homes.pieces);
  homes.by_member.resize(pool.shardings.size() * pool.cp);
  homes.kept_ns.assign(homes.by_member.size(), call_work(pool));
  for (size_t i = 0; i < homes.pieces.size(); ++i) {
    const HomePiece& piece = homes.pieces[i];
    homes.by_member[piece.owner.value].push_back(static_cast<int64_t>(i));
    homes.kept_ns[piece.owner.value] += rows_work(pool, piece, piece.kept, pool.heads.kv);
  }
  return homes;
}

/// Tiles that bring every member to at most `cap_ns`, by the estimates of release and receive.
std::optional<std::vector<Tile>> level_to(const PooledTiling& pool, const Homes& homes, int64_t cap_ns) {
  std::vector<Column> columns = homes.floating;
  std::vector<int64_t> spare(homes.kept_ns.size());
  for (size_t m = 0; m < spare.size(); ++m) {
    const int64_t capacity = mul_div(cap_ns, speed_of(pool, m), 1000);
    spare[m] = capacity - homes.kept_ns[m];
    if (spare[m] >= 0) continue;
    const auto released = release_columns(pool, homes.pieces, homes.by_member[m], capacity - call_work(pool));
    columns.insert(columns.end(), released.begin(), released.end());
  }
  const auto taken = receive_columns(pool, homes.pieces, columns, spare);
  if (!taken) return std::nullopt;
  return make_tiles(pool, homes.pieces, *taken);
}

}  // namespace

std::vector<Tile> tile_pooled(const PooledTiling& pool) {
  const auto work = work_with(pool, {});
  const int64_t slowest = slowest_ns(pool, work);
  if (slowest == 0) return {};
  const int64_t ideal = ideal_ns(pool, work);
  const Homes homes = list_homes(pool);
  for (int64_t slack_ppm = first_slack_ppm;; slack_ppm += ceil_div(slack_ppm, 4)) {
    const int64_t cap = ideal + mul_div(ideal, slack_ppm, ppm_one);
    if (cap >= slowest) return {};
    const auto tiles = level_to(pool, homes, cap);
    if (tiles && slowest_ns(pool, work_with(pool, *tiles)) < slowest) return *tiles;
  }
}

}  // namespace equipoise
