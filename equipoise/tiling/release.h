#pragma once

#include <span>
#include <vector>

#include "equipoise/tiling/pieces.h"

namespace equipoise {

/// Which first rows of long segments stay with their owners: of those that lie on all ranks of their context group, and
/// of those on fewer.
struct Kept {
  int64_t on_all_ppm = 0;
  int64_t on_few_ppm = 0;
};

/// The rows above a part of long segments (longer than half of a rank's share) that lie on several ranks: as columns,
/// and taken off what their pieces keep. Whoever takes them, their owner or another, one KV head at a time, needs that
/// head's keys once for many rows; if only overloaded owners gave, every column would be short and its keys travel for
/// few rows.
std::vector<Column> float_columns(const PooledTiling& pool, std::span<HomePiece> pieces, const Kept& kept);

/// The columns that one member gives up so that the rest of its home work is at most `capacity_ns`: the last rows of
/// its pieces, above one common position that a binary search finds, so that the fewest rows leave. The last row block
/// leaves piece by piece, and of the last piece head by head.
///
/// home   indices into `pieces` of the member's pieces, rising
/// Rows are cut at multiples of the kernel's row block from the segment's begin. Columns are in the order of pieces and
/// heads.
std::vector<Column> release_columns(const PooledTiling& pool, std::span<const HomePiece> pieces,
                                    std::span<const int64_t> home, int64_t capacity_ns);

}  // namespace equipoise
