#pragma once

#include <span>
#include <vector>

#include "equipoise/tiling/board.h"

namespace equipoise {

/// Which rows are handed out first.
enum class HandOut {
  to_largest_spare,    ///< the member with the most spare work takes what costs it the fewest bytes for its work
  from_longest_prefix  ///< the rows that see the most keys go to the member that they cost the fewest bytes
};

/// Hands all rows that belong to nobody to members with room, each from the top of a column down until the member is
/// full. Bytes are the new traffic of all members; keys that a member owns or receives already are free.
///
/// capacity_ns  by member. Where row blocks are too coarse to fill it exactly it grows by steps of 1/2048, for all.
/// Rows that no member may take within exchange_bytes go back to their owner.
/// Cost: O((columns + members) * columns).
void hand_out(Board& board, std::vector<int64_t>& capacity_ns, HandOut order);

/// The most rows at the top (or bottom) of a slice that take at most `work_ns` of the given member, cut at row blocks;
/// empty if not even one block does.
Range top_rows(const Board& board, int64_t column, const Slice& slice, int64_t work_ns, MemberId member);
Range bottom_rows(const Board& board, int64_t column, const Slice& slice, int64_t work_ns, MemberId member);

/// Whether a member's received keys, with those of these rows, leave room for the queries of one row block.
bool meets_cap(const Board& board, int64_t column, Range rows, MemberId member);

}  // namespace equipoise
