#include "equipoise/exchange/entries.h"

#include <algorithm>
#include <tuple>

#include "equipoise/base/errors.h"

// The fewest kernel calls for a member's work. Items are joined first, because every call reads its whole prefix of
// keys (under invariant sums they are cut instead); then each gets its keys, in place where they lie together in the
// member's own tensors, from the arena otherwise.

namespace equipoise {
namespace {

auto place(const WorkItem& item) { return std::tuple(item.round, item.replica_in_pool, item.segment); }

auto rows_then_heads(const WorkItem& item) {
  return std::tuple(place(item), item.q_begin, item.q_length, item.head_begin);
}

template <class Key>
void sort_items(std::vector<PlacedItem>& items, Key key) {
  std::sort(items.begin(), items.end(),
            [key](const PlacedItem& a, const PlacedItem& b) { return key(a.item) < key(b.item); });
}

/// Rows and heads of an item, as an item.
PlacedItem part_of(const PlacedItem& whole, Range rows, Range heads) {
  PlacedItem part = whole;
  const int64_t below = rows.begin - whole.item.q_begin;
  part.item.q_begin = rows.begin;
  part.item.q_length = rows.length;
  part.item.head_begin = heads.begin;
  part.item.heads = heads.length;
  part.item.owner_row += below;
  part.cell += below * whole.row_stride + heads.begin - whole.item.head_begin;
  return part;
}

bool rows_follow(const PlacedItem& a, const PlacedItem& b) {
  return place(a.item) == place(b.item) && a.item.head_begin == b.item.head_begin && a.item.heads == b.item.heads &&
         a.item.q_begin + a.item.q_length == b.item.q_begin && a.store == b.store && a.row_stride == b.row_stride &&
         a.cell + a.item.q_length * a.row_stride == b.cell;
}

/// Whether the union is again whole groups, or lies within one.
bool one_head_range(const WorkItem& a, const WorkItem& b, int64_t group) {
  const bool whole = a.head_begin % group == 0 && (b.head_begin + b.heads) % group == 0;
  return whole || a.head_begin / group == (b.head_begin + b.heads - 1) / group;
}

bool heads_follow(const PlacedItem& a, const PlacedItem& b, int64_t group) {
  return place(a.item) == place(b.item) && a.item.q_begin == b.item.q_begin && a.item.q_length == b.item.q_length &&
         a.item.head_begin + a.item.heads == b.item.head_begin && a.store == b.store && a.row_stride == b.row_stride &&
         a.cell + a.item.heads == b.cell && one_head_range(a.item, b.item, group);
}

/// Replaces every run of items that follow each other by one.
template <class Follows, class Join>
std::vector<PlacedItem> join_runs(const std::vector<PlacedItem>& items, Follows follows, Join join) {
  std::vector<PlacedItem> joined;
  for (const PlacedItem& item : items) {
    if (!joined.empty() && follows(joined.back(), item))
      join(joined.back().item, item.item);
    else
      joined.push_back(item);
  }
  return joined;
}

}  // namespace

std::vector<PlacedItem> join_items(std::vector<PlacedItem> items, const Heads& heads) {
  sort_items(items,
             [](const WorkItem& item) { return std::tuple(place(item), item.head_begin, item.heads, item.q_begin); });
  items = join_runs(items, rows_follow, [](WorkItem& a, const WorkItem& b) { a.q_length += b.q_length; });
  sort_items(items, rows_then_heads);
  return join_runs(
      items, [&](const PlacedItem& a, const PlacedItem& b) { return heads_follow(a, b, heads.group()); },
      [](WorkItem& a, const WorkItem& b) { a.heads += b.heads; });
}

std::vector<PlacedItem> cut_items(const std::vector<PlacedItem>& items, const Heads& heads, int64_t grid_rows) {
  std::vector<PlacedItem> cells;
  for (const PlacedItem& whole : items) {
    const int64_t end = whole.item.q_begin + whole.item.q_length;
    const int64_t head_end = whole.item.head_begin + whole.item.heads;
    EQ_ASSERT(whole.item.head_begin % heads.group() == 0 && head_end % heads.group() == 0);
    for (int64_t row = whole.item.q_begin, next = 0; row < end; row = next) {
      next = std::min(end, (row / grid_rows + 1) * grid_rows);
      for (int64_t head = whole.item.head_begin; head < head_end; head += heads.group())
        cells.push_back(part_of(whole, {row, next - row}, {head, heads.group()}));
    }
  }
  sort_items(cells, rows_then_heads);
  return cells;
}

void append_entries(std::vector<KernelEntry>& entries, const PlacedItem& placed, const KeyPlaces& keys,
                    int64_t length_tokens) {
  const WorkItem& item = placed.item;
  const Range seen = visible_keys(keys.mask, {item.q_begin, item.q_length}, length_tokens);
  KernelEntry entry{.q_store = placed.store,
                    .q_cell = placed.cell,
                    .q_row_stride = placed.row_stride,
                    .rows = item.q_length,
                    .heads = item.heads,
                    .keys = seen.length,
                    .diagonal = item.q_begin - seen.begin};
  const int64_t kv_begin = first_kv_head(keys.heads, item.head_begin);
  const int64_t kv_end = end_kv_head(keys.heads, item.head_begin + item.heads);
  if (const LocalPiece* piece = find_piece(keys.own, item.replica_in_pool, item.segment, seen)) {
    entry.k_cell = (piece->first_row + seen.begin - piece->begin_tokens) * keys.heads.kv + kv_begin;
    entry.k_row_stride = keys.heads.kv;
    entry.k_head_stride = 1;
    entry.kv_heads = kv_end - kv_begin;
    entries.push_back(entry);
    return;
  }
  entry.k_store = Store::foreign;
  entry.k_row_stride = 1;
  for (int64_t kv = kv_begin; kv < kv_end; kv += entry.kv_heads) {
    const ArenaBlock& block = find_block(keys.arena, item.replica_in_pool, item.segment, kv, seen.begin);
    entry.k_cell = block.cell_of(kv, seen.begin);
    entry.k_head_stride = block.keys.length;
    entry.kv_heads = std::min(kv_end, block.head_begin + block.heads) - kv;
    entry.heads = kv_end - kv_begin == 1 ? item.heads : entry.kv_heads * keys.heads.group();
    entries.push_back(entry);
    entry.q_cell += entry.heads;  // heads of one row are adjacent
  }
}

}  // namespace equipoise
