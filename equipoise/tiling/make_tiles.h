#pragma once

#include <vector>

#include "equipoise/tiling/board.h"

namespace equipoise {

/// Tiles from a board on which all rows are taken, sorted; what an owner has is home work and no tile. A member's
/// rounds are filled one after another up to the bytes that it may hold, slices cut where a round ends; within a round,
/// equal rows of neighbouring KV heads become one tile, and adjoining rows of equal heads too.
std::vector<Tile> make_tiles(const Board& board);

}  // namespace equipoise
