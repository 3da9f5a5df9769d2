#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "equipoise/tiling/pieces.h"

namespace equipoise {

/// Which keys each member has: those that it owns, those that its home work needs from other ranks of its replica, and
/// those that tiles bring.
class KeyLedger {
 public:
  KeyLedger(const PooledTiling& pool, std::span<const HomePiece> pieces);

  /// Keys of [keys.begin, keys.end) of one KV head of the piece's segment that the member does not have yet.
  int64_t missing_keys(MemberId member, const HomePiece& piece, int64_t kv_head, Range keys) const;

  /// From now on the member has them.
  void add_keys(MemberId member, const HomePiece& piece, int64_t kv_head, Range keys);

  /// Keys of one KV head that the member's home work needs from other ranks.
  int64_t foreign_home_keys(MemberId member) const { return foreign_home_keys_[member.value]; }

 private:
  // Ranges of a segment, sorted and disjoint. Home keys are the same for all KV heads; they are listed only for
  // segments of several owners, because the only owner of a segment never takes a tile of it.
  std::map<std::array<int64_t, 3>, std::vector<Range>> home_;   ///< by (member, replica, segment)
  std::map<std::array<int64_t, 4>, std::vector<Range>> guest_;  ///< by (member, replica, segment, KV head)
  std::vector<int64_t> foreign_home_keys_;                      ///< by member
};

}  // namespace equipoise
