#pragma once

#include <span>
#include <vector>

#include "equipoise/model/heads.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// One rectangle of attention with one owner and one executor: rows that lie together in the owner's tensors x heads
/// within one KV head's group or whole groups, against all keys the mask shows these rows.
struct WorkItem {
  MemberId member;  ///< computes it
  int64_t round = 0;
  int64_t replica_in_pool = 0;
  int64_t segment = 0;
  int64_t q_begin = 0;
  int64_t q_length = 0;
  int64_t head_begin = 0;
  int64_t heads = 0;
  MemberId owner;         ///< owns the rows; == member for work that stays at home
  int64_t owner_row = 0;  ///< of the first row, in the owner's tensors
  auto operator<=>(const WorkItem&) const = default;
};

/// All attention of one mask of a bucket as rectangles: every tile cut at its owners' pieces, and what no tile names as
/// home work in round 0. Sorted by (member, round, replica, segment, q_begin, head_begin). Requires valid shardings and
/// tiles.
std::vector<WorkItem> attention_work(std::span<const Sequence> sequences, std::span<const Sharding> shardings,
                                     std::span<const Tile> tiles, const Heads& heads, int64_t cp);

}  // namespace equipoise
