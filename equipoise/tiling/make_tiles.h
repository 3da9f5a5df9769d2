#pragma once

#include <span>
#include <vector>

#include "equipoise/tiling/receive.h"

namespace equipoise {

/// Tiles from what was taken, sorted; what an owner took back is home work and no tile. A member's rounds are filled
/// one after another up to the bytes that it may hold; within a round, equal rows of neighbouring KV heads become one
/// tile, and adjoining rows of equal heads too.
std::vector<Tile> make_tiles(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const Taken> taken);

}  // namespace equipoise
