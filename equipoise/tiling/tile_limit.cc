// A tile costs its member a kernel entry and messages; where their number is limited, the ones that level least go
// first. Rows that come back to their owner join its own.

#include "equipoise/tiling/tile_limit.h"

#include <algorithm>
#include <tuple>

namespace equipoise {

void keep_largest_tiles(const AttentionModel& model, std::span<const Sequence> sequences, int64_t most_tiles,
                        std::vector<Tile>& tiles) {
  std::vector<std::tuple<MemberId, int64_t, size_t>> order;  // of each member, the largest first
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Tile& tile = tiles[i];
    const int64_t length = sequences[tile.replica_in_pool].segments[tile.segment].length_tokens;
    order.emplace_back(tile.member, -entry_time(model, {tile.q_begin, tile.q_length}, length, tile.heads).total(), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> kept;
  int64_t count = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    count = i > 0 && std::get<0>(order[i]) == std::get<0>(order[i - 1]) ? count + 1 : 1;
    if (count <= most_tiles) kept.push_back(std::get<2>(order[i]));
  }
  std::sort(kept.begin(), kept.end());
  std::vector<Tile> rest;
  for (const size_t i : kept) rest.push_back(tiles[i]);
  tiles = std::move(rest);
}

}  // namespace equipoise
