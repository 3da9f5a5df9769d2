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
  const int64_t cut = std::clamp(level * row_block(pool), piece.kept.begin, piece.kept.end());
  if (cut == piece.kept.begin || cut == piece.kept.end()) return cut;
  const int64_t leaves = rows_work(pool, piece.length_tokens, {cut, piece.kept.end() - cut}, pool.heads.kv);
  return leaves < worth_entries * entry_work(pool) ? piece.kept.end() : cut;
}

int64_t kept_work(const PooledTiling& pool, const HomePiece& piece, int64_t cut, int64_t kv_heads) {
  return rows_work(pool, piece.length_tokens, {piece.kept.begin, cut - piece.kept.begin}, kv_heads);
}

/// Work that stays when all pieces are cut at a level. `whole` is each piece's uncut work.
int64_t kept_at_level(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const int64_t> home,
                      std::span<const int64_t> whole, int64_t level) {
  int64_t kept = 0;
  for (size_t i = 0; i < home.size(); ++i) {
    const HomePiece& piece = pieces[home[i]];
    const int64_t cut = cut_row(pool, piece, level);
    kept += cut == piece.kept.end() ? whole[i] : kept_work(pool, piece, cut, pool.heads.kv);
  }
  return kept;
}

void append_columns(int64_t piece, Range kv_heads, Range rows, std::vector<Column>& columns) {
  if (rows.length == 0) return;
  for (int64_t head = kv_heads.begin; head < kv_heads.end(); ++head) columns.push_back({piece, head, rows});
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

std::vector<Column> float_columns(const PooledTiling& pool, std::span<HomePiece> pieces, const Kept& kept) {
  std::vector<Column> columns;
  for (size_t first = 0, end = 0; first < pieces.size(); first = end) {
    const HomePiece& head = pieces[first];
    for (end = first; end < pieces.size() && pieces[end].replica_in_pool == head.replica_in_pool &&
                      pieces[end].segment == head.segment;)
      ++end;
    const bool long_segment = 2 * head.length_tokens > head.share_tokens;
    if (end - first == 1 || !long_segment) continue;
    const bool on_all = static_cast<int64_t>(end - first) >= pool.cp;
    const int64_t part = mul_div(head.length_tokens, on_all ? kept.on_all_ppm : kept.on_few_ppm, ppm_one);
    for (size_t i = first; i < end; ++i) {
      HomePiece& piece = pieces[i];
      const int64_t cut = std::clamp(round_up(part, row_block(pool)), piece.rows.begin, piece.rows.end());
      piece.kept.length = cut - piece.rows.begin;
      append_columns(static_cast<int64_t>(i), {0, pool.heads.kv}, {cut, piece.rows.end() - cut}, columns);
    }
  }
  return columns;
}

std::vector<Column> release_columns(const PooledTiling& pool, std::span<const HomePiece> pieces,
                                    std::span<const int64_t> home, int64_t capacity_ns) {
  const int64_t kv = pool.heads.kv;
  int64_t longest = 0;
  std::vector<int64_t> whole;
  for (const int64_t index : home) {
    longest = std::max(longest, pieces[index].kept.end());
    whole.push_back(rows_work(pool, pieces[index].length_tokens, pieces[index].kept, kv));
  }
  // At level 0 nothing stays; find the highest level that suffices.
  int64_t level = 0;
  int64_t too_high = ceil_div(longest, row_block(pool)) + 1;
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
    const int64_t end = piece.kept.end();
    if (kept <= capacity_ns || low == high) {
      append_columns(index, {0, kv}, {high, end - high}, columns);
      continue;
    }
    kept -= kept_work(pool, piece, high, kv);
    const int64_t heads = heads_cut_low(pool, piece, low, high, capacity_ns - kept);
    append_columns(index, {0, heads}, {low, end - low}, columns);
    append_columns(index, {heads, kv - heads}, {high, end - high}, columns);
    kept += kept_work(pool, piece, low, heads) + kept_work(pool, piece, high, kv - heads);
  }
  return columns;
}

}  // namespace equipoise
