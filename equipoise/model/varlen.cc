#include "equipoise/model/varlen.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "equipoise/base/errors.h"

// An entry's mask is bottom right once the rows that see no key and the keys that no row sees are cut off. Where keys
// lie, two sequences share some only if they are in the same lane: the same store and the same first head of it.

namespace equipoise {
namespace {

using Side = PlacedCells VarlenSequence::*;

PlacedCells query_cells(const KernelEntry& entry) {
  return {entry.q_store, entry.q_cell, entry.q_row_stride, entry.heads > 1 ? 1 : 0, entry.rows, entry.heads};
}

PlacedCells key_cells(const KernelEntry& entry) {
  return {entry.k_store, entry.k_cell,  entry.k_row_stride, entry.kv_heads > 1 ? entry.k_head_stride : 0,
          entry.keys,    entry.kv_heads};
}

PlacedCells part_of(PlacedCells cells, int64_t first_row, int64_t rows) {
  cells.cell += first_row * cells.row_stride;
  cells.rows = rows;
  return cells;
}

PlacedCells heads_of(PlacedCells cells, int64_t first_head, int64_t heads) {
  cells.cell += first_head * cells.head_stride;
  cells.heads = heads;
  if (heads == 1) cells.head_stride = 0;
  return cells;
}

/// Rows and keys of an entry that meet, and the rows before them, which see nothing.
struct CutEntry {
  PlacedCells blind;
  VarlenSequence seen;
};

CutEntry cut_entry(const Mask& mask, const KernelEntry& entry) {
  const PlacedCells queries = query_cells(entry), keys = key_cells(entry);
  if (mask.kind == MaskKind::full) {
    const int64_t blind = keys.rows > 0 ? 0 : queries.rows;
    return {part_of(queries, 0, blind), {part_of(queries, blind, queries.rows - blind), keys}};
  }
  EQ_ASSERT(entry.diagonal + entry.rows <= entry.keys);
  const int64_t blind = std::clamp<int64_t>(-entry.diagonal, 0, entry.rows);
  const int64_t end = std::max<int64_t>(0, entry.diagonal + entry.rows);
  const int64_t first_seen = entry.diagonal + blind + 1 - mask.window_tokens;
  const int64_t begin = mask.kind == MaskKind::sliding_window ? std::max<int64_t>(0, first_seen) : 0;
  return {part_of(queries, 0, blind),
          {part_of(queries, blind, entry.rows - blind), part_of(keys, begin, std::max<int64_t>(0, end - begin))}};
}

/// Guests become one sequence for each KV head.
void append_sequences(std::vector<VarlenSequence>& sequences, const VarlenSequence& seen) {
  const int64_t kv_heads = seen.keys.heads;
  if (seen.queries.store == Store::local || kv_heads == 1) {
    sequences.push_back(seen);
    return;
  }
  const int64_t group = seen.queries.heads / kv_heads;
  for (int64_t h = 0; h < kv_heads; ++h)
    sequences.push_back({heads_of(seen.queries, h * group, group), heads_of(seen.keys, h, 1)});
}

auto heads_key(const VarlenSequence& sequence) { return std::pair(sequence.queries.heads, sequence.keys.heads); }

auto lane(const VarlenSequence& sequence) {
  const PlacedCells& keys = sequence.keys;
  return std::pair(keys.store, keys.cell % keys.row_stride);
}

int64_t first_key(const VarlenSequence& sequence) { return sequence.keys.cell / sequence.keys.row_stride; }

auto order(const VarlenSequence& sequence) {
  return std::tuple(heads_key(sequence), lane(sequence), first_key(sequence), sequence.keys.rows,
                    sequence.queries.store, sequence.queries.cell);
}

/// Deals sequences of equal heads, sorted, to as few slots as keep those apart that share keys.
std::vector<std::vector<VarlenSequence>> deal_to_slots(std::span<const VarlenSequence> sorted) {
  std::vector<std::vector<VarlenSequence>> slots;
  std::vector<int64_t> ends;  // of the last keys in the present lane, by slot
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && lane(sorted[i]) != lane(sorted[i - 1])) std::fill(ends.begin(), ends.end(), 0);
    const auto begin = first_key(sorted[i]);
    const auto slot = std::find_if(ends.begin(), ends.end(), [&](int64_t end) { return end <= begin; }) - ends.begin();
    if (slot == std::ssize(ends)) {
      ends.push_back(0);
      slots.emplace_back();
    }
    ends[slot] = begin + sorted[i].keys.rows;
    slots[slot].push_back(sorted[i]);
  }
  return slots;
}

bool follows(const PlacedCells& a, const PlacedCells& b) { return b == part_of(a, a.rows, b.rows); }

bool all_follow(const std::vector<VarlenSequence>& sequences, Side side) {
  return std::adjacent_find(sequences.begin(), sequences.end(), [&](const VarlenSequence& a, const VarlenSequence& b) {
           return !follows(a.*side, b.*side);
         }) == sequences.end();
}

void append_call(std::vector<VarlenCall>& calls, std::vector<VarlenSequence> sequences) {
  if (sequences.empty()) return;
  const bool queries = all_follow(sequences, &VarlenSequence::queries);
  const bool keys = all_follow(sequences, &VarlenSequence::keys);
  calls.push_back({std::move(sequences), queries, keys});
}

/// Long runs that lie in place stay there, all else becomes one call.
void append_calls(std::vector<VarlenCall>& calls, const std::vector<VarlenSequence>& slot) {
  std::vector<VarlenSequence> pooled;
  for (size_t begin = 0, end = 0; begin < slot.size(); begin = end) {
    int64_t rows = 0;
    do rows += slot[end++].queries.rows;
    while (end < slot.size() && follows(slot[end - 1].queries, slot[end].queries) &&
           follows(slot[end - 1].keys, slot[end].keys));
    const auto run = std::span(slot).subspan(begin, end - begin);
    if (rows >= rows_worth_a_call)
      append_call(calls, {run.begin(), run.end()});
    else
      pooled.insert(pooled.end(), run.begin(), run.end());
  }
  append_call(calls, std::move(pooled));
}

}  // namespace

VarlenPlan plan_varlen(const Mask& mask, std::span<const KernelEntry> entries) {
  VarlenPlan plan;
  std::vector<VarlenSequence> sequences;
  for (const KernelEntry& entry : entries) {
    const auto [blind, seen] = cut_entry(mask, entry);
    if (blind.rows > 0) plan.blind.push_back(blind);
    if (seen.queries.rows > 0) append_sequences(sequences, seen);
  }
  std::sort(sequences.begin(), sequences.end(),
            [](const VarlenSequence& a, const VarlenSequence& b) { return order(a) < order(b); });
  for (auto begin = sequences.begin(); begin != sequences.end();) {
    const auto end = std::find_if(begin, sequences.end(),
                                  [&](const VarlenSequence& s) { return heads_key(s) != heads_key(*begin); });
    for (const auto& slot : deal_to_slots({begin, end})) append_calls(plan.calls, slot);
    begin = end;
  }
  return plan;
}

}  // namespace equipoise
