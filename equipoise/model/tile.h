#pragma once

#include "equipoise/base/ids.h"

namespace equipoise {

/// A block of attention given to a member that does not own its query rows: rows x query heads of one segment, against
/// all keys that the mask shows these rows. What no tile names is computed by the owner of its rows, in round 0.
/// Invariants: tiles of one mask never overlap; heads lie within one KV head's group or are whole groups; round >= 1.
struct Tile {
  int64_t replica_in_pool = 0;  ///< whose sequence
  int64_t segment = 0;
  int64_t q_begin = 0;     ///< from the start of the segment
  int64_t q_length = 0;    ///< > 0
  int64_t head_begin = 0;  ///< query heads
  int64_t heads = 0;       ///< > 0
  MemberId member;         ///< who computes it
  int64_t round = 1;
  auto operator<=>(const Tile&) const = default;
};

}  // namespace equipoise
