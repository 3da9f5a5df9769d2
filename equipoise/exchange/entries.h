#pragma once

#include <span>
#include <vector>

#include "equipoise/exchange/arena.h"
#include "equipoise/model/work.h"

namespace equipoise {

/// One work item of a member and where its queries lie: in the member's own tensors or among the guest queries of its
/// round.
struct PlacedItem {
  WorkItem item;
  Store store = Store::local;
  int64_t cell = 0;        ///< of the first row and head
  int64_t row_stride = 0;  ///< cells
};

/// Joins items that one kernel call can take: first rows that follow each other, then neighbouring heads of the same
/// rows. A whole document of all heads that lies together is one item, however its tiles were cut. Sorted by (round,
/// replica, segment, q_begin, q_length, head_begin).
std::vector<PlacedItem> join_items(std::vector<PlacedItem> items, const Heads& heads);

/// Cuts items at the invariant grid instead: each grid cell is an item of its own, at home and abroad, so that no
/// entry depends on who computes what. Items hold whole grid cells. Sorted in the same way.
std::vector<PlacedItem> cut_items(const std::vector<PlacedItem>& items, const Heads& heads, int64_t grid_rows);

/// Where the keys of one member lie.
struct KeyPlaces {
  const Mask& mask;
  const Heads& heads;
  const OwnRows& own;
  const Arena& arena;
};

/// Appends the kernel entries of one item: one where its keys lie together, else one for each arena block that its KV
/// heads lie in. `length_tokens` is the segment's.
void append_entries(std::vector<KernelEntry>& entries, const PlacedItem& placed, const KeyPlaces& keys,
                    int64_t length_tokens);

}  // namespace equipoise
