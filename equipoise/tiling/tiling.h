#pragma once

#include <span>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Splits heads over the CP group of each sequence: cp rank i computes query heads [i * Hq / cp, (i + 1) * Hq / cp) of
/// every row, so each tile stays within one KV head's group or is whole groups. All in round 1. Cost: O(pieces * cp).
/// Source: DeepSpeed Ulysses.
std::vector<Tile> tile_ulysses(std::span<const Sharding> shardings, const Heads& heads, int64_t cp);

/// What pooled tiling reads: one mask of one bucket.
struct PooledTiling {
  std::span<const Sequence> sequences;  ///< by replica in pool
  std::span<const Sharding> shardings;  ///< by replica in pool
  const Mask& mask;
  const Heads& heads;
  const CostTable& cost;
  std::span<const int64_t> speeds_ppt;  ///< by member; empty: all 1000
  int64_t cp = 1;
  int64_t exchange_bytes = 0;  ///< cap on what a member holds of one round; more rounds are made until it is met
};

/// Levels predicted attention time over the members of a pool by moving the last rows of the longest documents, a KV
/// head's group at a time.
///
/// One fixed rule: cap = (1 + eps) mean of predicted time; each member above the cap releases the last rows of its
/// documents above one common position found by binary search; released (segment, KV head) columns go to members with
/// the largest spare time, each eating down from the top of the column that costs it the fewest new bytes. Guarantee:
/// the slowest member is never predicted slower than with no tiles. Ties by id. Cost: O((pieces + tiles * members)
/// log). Source: Libra, tiled attention pooling; predicted time instead of pairs is ours.
std::vector<Tile> tile_pooled(const PooledTiling& pool);

}  // namespace equipoise
