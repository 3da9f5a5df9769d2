#pragma once

#include <span>
#include <vector>

#include "equipoise/cost/cost.h"
#include "equipoise/model/sequence.h"
#include "equipoise/model/tile.h"

namespace equipoise {

/// Gives the smallest tiles of each member back to the owners of their rows until it has at most `most_tiles`. Smallest
/// by predicted time, ties by the order of the tiles, which is kept. Cost: O(tiles log tiles).
void keep_largest_tiles(const AttentionModel& model, std::span<const Sequence> sequences, int64_t most_tiles,
                        std::vector<Tile>& tiles);

}  // namespace equipoise
