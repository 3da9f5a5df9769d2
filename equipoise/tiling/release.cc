// Late rows see the most keys, so of all rows they take the most work with them. A common position x for all pieces of
// a member, the rows above it leaving, is therefore the release of the fewest rows; x is a number of row blocks.

#include "equipoise/tiling/release.h"

#include <algorithm>

namespace equipoise {
namespace {

/// A tile is worth its entry only if it carries this many times the entry's own cost.
constexpr int64_t worth_entries = 4;

/// First row that leaves the piece at a level; its end where nothing does.
int64_t cut_row(const PooledTiling& pool, const HomePiece& piece, int64_t level) {
  const int64_t cut = std::clamp(level * pool.cost.attention.tile_rows, piece.rows.begin, piece.rows.end());
  if (cut == piece.rows.begin || cut == piece.rows.end()) return cut;
  const int64_t leaves = rows_work(pool, piece, {cut, piece.rows.end() - cut}, pool.heads.kv);
  return leaves < worth_entries * entry_work(pool) ? piece.rows.end() : cut;
}

int64_t kept_work(const PooledTiling& pool, const HomePiece& piece, int64_t cut, int64_t kv_heads) {
  return rows_work(pool, piece, {piece.rows.begin, cut - piece.rows.begin}, kv_heads);
}

/// Work that stays when all pieces are cut at a level. `whole` is each piece's uncut work.
int64_t kept_at_level(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const int64_t> home,
                      std::span<const int64_t> whole, int64_t level) {
  int64_t kept = 0;
  for (size_t i = 0; i < home.size(); ++i) {
    const HomePiece& piece = pieces[home[i]];
    const int64_t cut = cut_row(pool, piece, level);
    kept += cut == piece.rows.end() ? whole[i] : kept_work(pool, piece, cut, pool.heads.kv);
  }
  return kept;
}

void append_columns(const HomePiece& piece, int64_t index, Range kv_heads, int64_t cut, std::vector<Column>& columns) {
  if (cut == piece.rows.end()) return;
  for (int64_t head = kv_heads.begin; head < kv_heads.end(); ++head)
    columns.push_back({index, head, {cut, piece.rows.end() - cut}});
}

/// The fewest KV heads of a piece that must be cut at `low` instead of `high`, so that at most `allowed_ns` of it
/// stays. All if none suffice.
int64_t heads_cut_low(const PooledTiling& pool, const HomePiece& piece, int64_t low, int64_t high, int64_t allowed_ns) {
  const int64_t kv = pool.heads.kv;
  for (int64_t heads = 1; heads < kv; ++heads)
    if (kept_work(pool, piece, low, heads) + kept_work(pool, piece, high, kv - heads) <= allowed_ns) return heads;
  return kv;
}

}  // namespace

std::vector<Column> release_columns(const PooledTiling& pool, std::span<const HomePiece> pieces,
                                    std::span<const int64_t> home, int64_t capacity_ns) {
  const int64_t kv = pool.heads.kv;
  int64_t longest = 0;
  std::vector<int64_t> whole;
  for (const int64_t index : home) {
    longest = std::max(longest, pieces[index].rows.end());
    whole.push_back(rows_work(pool, pieces[index], pieces[index].rows, kv));
  }
  // At level 0 nothing stays; find the highest level that suffices.
  int64_t level = 0;
  int64_t too_high = ceil_div(longest, pool.cost.attention.tile_rows) + 1;
  while (too_high - level > 1) {
    const int64_t middle = level + (too_high - level) / 2;
    (kept_at_level(pool, pieces, home, whole, middle) <= capacity_ns ? level : too_high) = middle;
  }
  // One block higher is too much to keep: come down piece by piece.
  int64_t kept = kept_at_level(pool, pieces, home, whole, level + 1);
  std::vector<Column> columns;
  for (const int64_t index : home) {
    const HomePiece& piece = pieces[index];
    const int64_t low = cut_row(pool, piece, level);
    const int64_t high = cut_row(pool, piece, level + 1);
    if (kept <= capacity_ns || low == high) {
      append_columns(piece, index, {0, kv}, high, columns);
      continue;
    }
    kept -= kept_work(pool, piece, high, kv);
    const int64_t heads = heads_cut_low(pool, piece, low, high, capacity_ns - kept);
    append_columns(piece, index, {0, heads}, low, columns);
    append_columns(piece, index, {heads, kv - heads}, high, columns);
    kept += kept_work(pool, piece, low, heads) + kept_work(pool, piece, high, kv - heads);
  }
  return columns;
}

}  // namespace equipoise
