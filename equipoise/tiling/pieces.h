#pragma once

#include <vector>

#include "equipoise/model/workload.h"
#include "equipoise/tiling/tiling.h"

// What release.h and receive.h speak about: pieces of home work, and the columns that leave them. Work is predicted
// nanoseconds of forward and backward on a member of nominal speed.

namespace equipoise {

/// A shard piece of one of the pool's sequences.
struct HomePiece {
  int64_t replica_in_pool = 0;
  int64_t segment = 0;
  int64_t length_tokens = 0;  ///< of the segment
  Range rows;
  Range kept;  ///< the first of `rows`: those that stay unless their owner is overloaded; the others float
  MemberId owner;
  int64_t share_tokens = 0;  ///< of a rank in the sequence
  int64_t home_ns = 0;       ///< work of all rows and heads, as one kernel entry
};

/// Rows of one piece and one KV head (with its query heads) that leave their owner.
struct Column {
  int64_t piece = 0;
  int64_t kv_head = 0;
  Range rows;
};

/// All pieces of the pool, by (replica, segment, begin). Nothing floats yet.
std::vector<HomePiece> list_pieces(const PooledTiling& pool);

/// Work of some rows of a segment for `kv_heads` KV heads with all their query heads, as one kernel entry.
int64_t rows_work(const PooledTiling& pool, int64_t length_tokens, Range rows, int64_t kv_heads);

/// Bytes of the queries of some rows for one KV head.
int64_t query_bytes(const PooledTiling& pool, int64_t rows);

/// Rows are cut at multiples of this from the segment's begin.
int64_t row_block(const PooledTiling& pool);

/// Work of launching one more kernel call.
int64_t call_work(const PooledTiling& pool);

/// Work of one more entry, before its first row.
int64_t entry_work(const PooledTiling& pool);

}  // namespace equipoise
