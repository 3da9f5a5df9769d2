#pragma once

#include <optional>
#include <span>
#include <vector>

#include "equipoise/tiling/pieces.h"

namespace equipoise {

/// Part of a column and who computes it.
struct Taken {
  Column column;
  MemberId member;
};

/// Hands every column to members with room. The member with the largest spare work chooses the column whose work costs
/// it the fewest new bytes (keys that it owns or already receives are free) and eats down from the column's top until
/// it is full.
///
/// spare_ns  work that each member can take, <= 0 for members that give
/// Returns nothing if some column finds no room, in work or in the bytes that a member may hold: all keys that it
/// receives, and one tile's queries. Cost: O((columns + members) * columns).
std::optional<std::vector<Taken>> receive_columns(const PooledTiling& pool, std::span<const HomePiece> pieces,
                                                  std::span<const Column> columns, std::span<const int64_t> spare_ns);

}  // namespace equipoise
