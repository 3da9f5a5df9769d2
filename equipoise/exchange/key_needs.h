#pragma once

#include <span>
#include <vector>

#include "equipoise/model/heads.h"
#include "equipoise/model/mask.h"
#include "equipoise/model/sequence.h"
#include "equipoise/model/work.h"

namespace equipoise {

/// Keys [begin, begin + length) of a segment, used first and last in these rounds.
struct KeyRange {
  int64_t begin = 0;
  int64_t length = 0;
  int64_t first_round = 0;
  int64_t last_round = 0;
  bool operator==(const KeyRange&) const = default;

  constexpr int64_t end() const { return begin + length; }
};

/// All keys of one segment that one member computes with, its own rows included, for a run of KV heads that all need
/// the same. Messages and arena blocks are both cut at these runs, so that a message always lies within one block.
struct KeyNeed {
  MemberId member;
  int64_t replica_in_pool = 0;
  int64_t segment = 0;
  int64_t head_begin = 0;  ///< KV heads
  int64_t heads = 0;
  std::vector<KeyRange> ranges;  ///< sorted, disjoint; ranges that touch differ in a round
};

/// KV heads that the query heads [head_begin, head_begin + heads) attend to.
constexpr int64_t first_kv_head(const Heads& heads, int64_t head_begin) { return head_begin / heads.group(); }
constexpr int64_t end_kv_head(const Heads& heads, int64_t head_end) { return (head_end - 1) / heads.group() + 1; }

/// The needs of all members in `work`, which is sorted by member. Result sorted by (member, replica, segment,
/// head_begin); neighbouring heads with equal ranges are one need. Cost: O(items log items), times the distinct head
/// cuts of a segment.
std::vector<KeyNeed> key_needs(std::span<const Sequence> sequences, std::span<const WorkItem> work, const Mask& mask,
                               const Heads& heads);

}  // namespace equipoise
