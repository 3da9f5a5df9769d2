#pragma once

#include <span>
#include <vector>

#include "equipoise/exchange/key_needs.h"
#include "equipoise/model/rank_program.h"
#include "equipoise/model/shard.h"
#include "equipoise/model/workload.h"

namespace equipoise {

/// What a member owns: one replica's rows that lie in its own tensors.
struct OwnRows {
  int64_t replica_in_pool = 0;
  LocalRows rows;
};

/// The piece of the member's own rows that holds all of `tokens` of a segment, or null.
const LocalPiece* find_piece(const OwnRows& own, int64_t replica_in_pool, int64_t segment, Range tokens);

/// Keys of one segment and a run of KV heads that lie together in the key arena: [heads, keys.length] cells from
/// `cell`.
struct ArenaBlock {
  int64_t replica_in_pool = 0;
  int64_t segment = 0;
  int64_t head_begin = 0;  ///< KV heads
  int64_t heads = 0;
  Range keys;
  int64_t cell = 0;

  /// The place of one key of one KV head of the block.
  constexpr int64_t cell_of(int64_t head, int64_t key) const {
    return cell + (head - head_begin) * keys.length + key - keys.begin;
  }
};

/// The arena of one member, one block after another.
struct Arena {
  std::vector<ArenaBlock> blocks;  ///< sorted by (replica, segment, head_begin, first key)
  int64_t cells = 0;
};

/// One block for each unbroken run of needed keys that does not lie in one piece of the member's own rows. Every cell
/// is an own or a received key.
Arena make_arena(std::span<const KeyNeed> needs, const OwnRows& own);

/// The block that holds a key of a KV head. Requires that there is one.
const ArenaBlock& find_block(const Arena& arena, int64_t replica_in_pool, int64_t segment, int64_t head, int64_t key);

/// The member's own rows that its arena needs.
std::vector<OwnKeys> own_keys(const Arena& arena, const OwnRows& own);

}  // namespace equipoise
