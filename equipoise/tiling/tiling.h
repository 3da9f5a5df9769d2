#pragma once

#include <span>
#include <vector>

#include "equipoise/model/effort.h"
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
  int64_t exchange_bytes = 0;           ///< a member's cap: keys and values it receives, and queries of one round
  std::span<const int64_t> nodes = {};  ///< by member, the node it stands in; empty: all in one
  Effort effort = Effort::normal;
  bool only_rules = false;  ///< rules of handing out are compared, nothing is improved: to compare owners
  int64_t grid_rows = 0;    ///< cells of the invariant grid stay whole; 0: no grid
};

/// Tiles and how good they are.
struct PooledTiles {
  std::vector<Tile> tiles = {};
  int64_t slowest_ns = 0;                ///< predicted attention of the slowest member, forward and backward
  std::vector<int64_t> traffic_ps = {};  ///< by member: sent and received, both passes, each byte on its own link
};

/// Levels predicted attention time over the members of a pool, then makes the largest traffic of a member small.
///
/// A cap just above the average predicted time (forward and backward) decides who gives: members above it release the
/// last rows of their pieces above one common position, found by binary search; besides, the later rows of long
/// segments that lie on several ranks float, whoever owns them. These columns, one for each piece and KV head, are
/// handed to members with room (tiling/receive.h). Where effort allows, two rules of handing out are tried and the
/// better is improved by random exchanges (tiling/improve.h).
///
/// Rows are cut at multiples of the kernel's row block, or of the grid's, from the segment's begin. All tiles are in
/// round 1, unless a member's queries would pass exchange_bytes. Guarantee: the slowest member is predicted faster than
/// with no tiles, or there are none. A member whose home work alone holds no more than exchange_bytes stays within it;
/// tiles cannot change what home work itself must hold. Ties by id; equal inputs give equal tiles.
/// Source: Libra, tiled attention pooling; predicted time instead of pairs, floating rows and the search are ours.
PooledTiles tile_pooled(const PooledTiling& pool);

/// By member, the traffic of the tiles that tile_pooled() would give if they made the pool faster: to compare owners.
std::vector<int64_t> pooled_traffic(const PooledTiling& pool);

}  // namespace equipoise
