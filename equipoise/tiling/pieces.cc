#include "equipoise/tiling/pieces.h"

#include "equipoise/cost/cost.h"

namespace equipoise {

std::vector<HomePiece> list_pieces(const PooledTiling& pool) {
  std::vector<HomePiece> pieces;
  for (size_t r = 0; r < pool.shardings.size(); ++r) {
    const auto replica = static_cast<int64_t>(r);
    const int64_t share_tokens = pool.sequences[r].tokens() / pool.cp;
    for (const ShardPiece& piece : pool.shardings[r].pieces) {
      HomePiece home{.replica_in_pool = replica,
                     .segment = piece.segment,
                     .length_tokens = pool.sequences[r].segments[piece.segment].length_tokens,
                     .rows = {piece.begin_tokens, piece.length_tokens},
                     .kept = {piece.begin_tokens, piece.length_tokens},
                     .owner = MemberId{replica * pool.cp + piece.cp_rank},
                     .share_tokens = share_tokens};
      home.home_ns = rows_work(pool, home.length_tokens, home.rows, pool.heads.kv);
      pieces.push_back(home);
    }
  }
  return pieces;
}

int64_t rows_work(const PooledTiling& pool, int64_t length_tokens, Range rows, int64_t kv_heads) {
  return entry_time({pool.cost, pool.mask, pool.heads, pool.grid_rows}, rows, length_tokens,
                    kv_heads * pool.heads.group())
      .total();
}

int64_t query_bytes(const PooledTiling& pool, int64_t rows) {
  return rows * pool.heads.group() * pool.heads.size * pool.cost.element_bytes;
}

int64_t row_block(const PooledTiling& pool) {
  return pool.grid_rows > 0 ? pool.grid_rows : pool.cost.attention.tile_rows;
}

int64_t call_work(const PooledTiling& pool) { return 2 * pool.cost.attention.call_ns; }

int64_t entry_work(const PooledTiling& pool) {
  const AttentionCost& kernel = pool.cost.attention;
  return kernel.entry_ns + mul_div(kernel.entry_ns, kernel.backward_ppm.front().y, ppm_one);
}

}  // namespace equipoise
