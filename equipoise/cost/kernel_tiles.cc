// A kernel works in tiles of rows x keys and skips those that the mask hides whole. Both ends of a row block's keys
// move by a fixed step from block to block, so their sums are sums of floor((a i + b) / m), which a Euclid-like
// recursion gives without walking the blocks.

#include <algorithm>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"

namespace equipoise {
namespace {

/// Sum over i = 0 .. n - 1 of floor((a i + b) / m), for n, a, b >= 0 and m > 0.
int64_t floor_sum(int64_t n, int64_t a, int64_t b, int64_t m) {
  int64_t sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const int64_t top = a * n + b;
    if (top < m) break;
    // Count the lattice points below the line by columns instead of rows.
    n = top / m;
    b = top % m;
    std::swap(a, m);
  }
  return sum;
}

/// Sum over the row blocks of the key block in which their visible keys end, for masks that end at the row itself.
int64_t sum_key_ends(const AttentionCost& cost, Range rows, int64_t first_key) {
  const int64_t whole_blocks = rows.length / cost.tile_rows;
  int64_t ends = floor_sum(whole_blocks, cost.tile_rows, rows.begin + cost.tile_rows - first_key + cost.tile_keys - 1,
                           cost.tile_keys);
  if (rows.length % cost.tile_rows != 0) ends += ceil_div(rows.end() - first_key, cost.tile_keys);
  return ends;
}

/// Sum over the row blocks of the key block in which a sliding window begins.
int64_t sum_key_begins(const AttentionCost& cost, int64_t window, Range rows, int64_t first_key) {
  const int64_t blocks = ceil_div(rows.length, cost.tile_rows);
  const int64_t before = std::max<int64_t>(0, window - 1 - rows.begin);  // rows whose window begins before key 0
  const int64_t skipped = ceil_div(before, cost.tile_rows);
  if (skipped >= blocks) return 0;
  const int64_t first = rows.begin + skipped * cost.tile_rows - window + 1 - first_key;
  return floor_sum(blocks - skipped, cost.tile_rows, first, cost.tile_keys);
}

}  // namespace

int64_t kernel_tiles(const AttentionCost& cost, const Mask& mask, Range rows, int64_t length_tokens) {
  if (rows.length <= 0) return 0;
  if (mask.kind == MaskKind::full)
    return ceil_div(rows.length, cost.tile_rows) * ceil_div(length_tokens, cost.tile_keys);
  if (mask.kind == MaskKind::causal) return sum_key_ends(cost, rows, 0);
  const int64_t first_key = visible_keys(mask, rows, length_tokens).begin;
  return sum_key_ends(cost, rows, first_key) - sum_key_begins(cost, mask.window_tokens, rows, first_key);
}

}  // namespace equipoise
