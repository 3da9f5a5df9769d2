// Ulysses: every rank of a CP group computes its share of the heads for all rows of the sequence.

#include <algorithm>

#include "equipoise/model/workload.h"
#include "equipoise/tiling/tiling.h"

namespace equipoise {
namespace {

/// Cuts the query heads [begin, end) into ranges that lie within one KV head's group or are whole groups: a partial
/// group, whole ones, a partial one.
std::vector<Range> cut_at_groups(int64_t begin, int64_t end, int64_t group) {
  if (begin == end) return {};  // more ranks than heads
  std::vector<Range> ranges;
  const int64_t first_whole = round_up(begin, group);
  const int64_t last_whole = end / group * group;
  if (first_whole > last_whole) return {{begin, end - begin}};  // inside one group
  for (const auto& [from, to] :
       {std::pair(begin, first_whole), std::pair(first_whole, last_whole), std::pair(last_whole, end)})
    if (to > from) ranges.push_back({from, to - from});
  return ranges;
}

}  // namespace

std::vector<Tile> tile_ulysses(std::span<const Sharding> shardings, const Heads& heads, int64_t cp) {
  std::vector<std::vector<Range>> shares;
  for (int64_t rank = 0; rank < cp; ++rank)
    shares.push_back(cut_at_groups(rank * heads.query / cp, (rank + 1) * heads.query / cp, heads.group()));
  std::vector<Tile> tiles;
  for (size_t r = 0; r < shardings.size(); ++r)
    for (const ShardPiece& piece : shardings[r].pieces)
      for (int64_t rank = 0; rank < cp; ++rank) {
        if (rank == piece.cp_rank) continue;
        for (const Range& share : shares[rank])
          tiles.push_back({.replica_in_pool = static_cast<int64_t>(r),
                           .segment = piece.segment,
                           .q_begin = piece.begin_tokens,
                           .q_length = piece.length_tokens,
                           .head_begin = share.begin,
                           .heads = share.length,
                           .member = MemberId{static_cast<int64_t>(r) * cp + rank},
                           .round = 1});
      }
  std::sort(tiles.begin(), tiles.end());
  return tiles;
}

}  // namespace equipoise
