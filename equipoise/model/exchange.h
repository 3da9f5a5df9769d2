#pragma once

#include <vector>

#include "equipoise/base/ids.h"

namespace equipoise {

/// Rows x heads of one segment. Heads are query heads in query messages and KV heads in key messages.
struct RowBlock {
  int64_t replica_in_pool = 0;
  int64_t segment = 0;
  int64_t begin_tokens = 0;  ///< from the start of the segment
  int64_t length_tokens = 0;
  int64_t head_begin = 0;
  int64_t heads = 0;
  auto operator<=>(const RowBlock&) const = default;
};

/// One block that travels from the member that owns its rows to a member that computes with them, and whose results
/// travel back: queries out, outputs and log-sum-exp back; keys and values out (their gradients back in the backward).
struct Message {
  int64_t round = 0;  ///< leaves before this round is computed
  MemberId from;      ///< owns the rows
  MemberId to;        ///< != from
  RowBlock block;
  int64_t last_round =
      0;  ///< queries: == round. keys: the last round in which the receiver uses them; their gradients return with it
  auto operator<=>(const Message&) const = default;
};

/// All that travels for one mask of one bucket. Sorted; no row and head goes to the same member twice.
struct Exchange {
  std::vector<Message> queries;
  std::vector<Message> keys;
  int64_t rounds = 1;  ///< the same on all members; round 0 is the work that stays with its owner
  bool operator==(const Exchange&) const = default;
};

}  // namespace equipoise
