#include "equipoise/exchange/arena.h"

#include <algorithm>
#include <tuple>

#include "equipoise/base/errors.h"

// A kernel reads the keys of an entry with one stride, so keys that come from several places are gathered: a block for
// each run of needed keys. Runs that lie in the member's own tensors already need no block.

namespace equipoise {
namespace {

/// The first own piece that ends behind a token of a segment.
auto piece_behind(const LocalRows& rows, int64_t segment, int64_t token) {
  return std::upper_bound(rows.pieces.begin(), rows.pieces.end(), std::tuple(segment, token),
                          [](const auto& place, const LocalPiece& piece) {
                            return place < std::tuple(piece.segment, piece.begin_tokens + piece.length_tokens);
                          });
}

/// Ranges that touch, whatever their rounds, are one run.
std::vector<Range> unbroken_runs(const std::vector<KeyRange>& ranges) {
  std::vector<Range> runs;
  for (const KeyRange& range : ranges) {
    if (!runs.empty() && runs.back().end() == range.begin)
      runs.back().length += range.length;
    else
      runs.push_back({range.begin, range.length});
  }
  return runs;
}

}  // namespace

const LocalPiece* find_piece(const OwnRows& own, int64_t replica_in_pool, int64_t segment, Range tokens) {
  if (replica_in_pool != own.replica_in_pool) return nullptr;
  const auto piece = piece_behind(own.rows, segment, tokens.begin);
  if (piece == own.rows.pieces.end() || piece->segment != segment || piece->begin_tokens > tokens.begin) return nullptr;
  return tokens.end() <= piece->begin_tokens + piece->length_tokens ? &*piece : nullptr;
}

Arena make_arena(std::span<const KeyNeed> needs, const OwnRows& own) {
  Arena arena;
  for (const KeyNeed& need : needs)
    for (const Range& keys : unbroken_runs(need.ranges)) {
      if (find_piece(own, need.replica_in_pool, need.segment, keys) != nullptr) continue;
      arena.blocks.push_back({need.replica_in_pool, need.segment, need.head_begin, need.heads, keys, arena.cells});
      arena.cells += need.heads * keys.length;
    }
  return arena;
}

const ArenaBlock& find_block(const Arena& arena, int64_t replica_in_pool, int64_t segment, int64_t head, int64_t key) {
  // Runs of heads do not overlap, so the last block that begins at or before (head, key) is in the right run of heads.
  const auto place = std::tuple(replica_in_pool, segment, head);
  const auto heads_end =
      std::upper_bound(arena.blocks.begin(), arena.blocks.end(), place, [](const auto& at, const ArenaBlock& block) {
        return at < std::tuple(block.replica_in_pool, block.segment, block.head_begin);
      });
  EQ_ASSERT(heads_end != arena.blocks.begin());
  const int64_t head_begin = (heads_end - 1)->head_begin;
  const auto block =
      std::upper_bound(arena.blocks.begin(), heads_end, std::tuple(replica_in_pool, segment, head_begin, key),
                       [](const auto& at, const ArenaBlock& b) {
                         return at < std::tuple(b.replica_in_pool, b.segment, b.head_begin, b.keys.begin);
                       }) -
      1;
  EQ_ASSERT(block->replica_in_pool == replica_in_pool && block->segment == segment);
  EQ_ASSERT(head < block->head_begin + block->heads && block->keys.begin <= key && key < block->keys.end());
  return *block;
}

std::vector<OwnKeys> own_keys(const Arena& arena, const OwnRows& own) {
  std::vector<OwnKeys> copies;
  for (const ArenaBlock& block : arena.blocks) {
    if (block.replica_in_pool != own.replica_in_pool) continue;
    for (auto piece = piece_behind(own.rows, block.segment, block.keys.begin);
         piece != own.rows.pieces.end() && piece->segment == block.segment && piece->begin_tokens < block.keys.end();
         ++piece) {
      const int64_t begin = std::max(block.keys.begin, piece->begin_tokens);
      const int64_t end = std::min(block.keys.end(), piece->begin_tokens + piece->length_tokens);
      copies.push_back({piece->first_row + begin - piece->begin_tokens, end - begin, block.head_begin, block.heads,
                        block.cell_of(block.head_begin, begin), block.keys.length});
    }
  }
  return copies;
}

}  // namespace equipoise
