// A segment is a sheet of rows x query heads. Tiles are cut from it where the owner of the rows changes; what is left
// of each owner's piece is its home work, kept as tall columns (a column reads its keys once) that are as wide as
// neighbouring heads agree on their rows.

#include "equipoise/model/work.h"

#include <algorithm>

#include "equipoise/base/errors.h"
#include "equipoise/model/workload.h"

namespace equipoise {
namespace {

/// A shard piece with the place of its first row in its owner's tensors.
struct OwnedPiece {
  int64_t replica_in_pool = 0;
  ShardPiece piece;
  MemberId owner;
  int64_t first_row = 0;

  int64_t end() const { return piece.begin_tokens + piece.length_tokens; }
};

/// Query heads [begin, end) of a piece and the rows of them that no tile names.
struct Column {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<Range> rows;
};

WorkItem work_item(const OwnedPiece& owned, MemberId member, int64_t round, Range rows, Range heads) {
  return {.member = member,
          .round = round,
          .replica_in_pool = owned.replica_in_pool,
          .segment = owned.piece.segment,
          .q_begin = rows.begin,
          .q_length = rows.length,
          .head_begin = heads.begin,
          .heads = heads.length,
          .owner = owned.owner,
          .owner_row = owned.first_row + rows.begin - owned.piece.begin_tokens};
}

/// The rows of the piece that no tile covers for the heads [begin, end). `tiles` is sorted by q_begin.
std::vector<Range> free_rows(const OwnedPiece& owned, std::span<const Tile> tiles, int64_t begin, int64_t end) {
  std::vector<Range> rows;
  int64_t next = owned.piece.begin_tokens;
  for (const Tile& tile : tiles) {
    if (tile.head_begin > begin || tile.head_begin + tile.heads < end) continue;
    const int64_t tile_begin = std::min(tile.q_begin, owned.end());
    if (tile_begin > next) rows.push_back({next, tile_begin - next});
    next = std::max(next, tile.q_begin + tile.q_length);
  }
  if (next < owned.end()) rows.push_back({next, owned.end() - next});
  return rows;
}

/// Joins neighbours with equal rows where `may_join` allows it.
template <class MayJoin>
std::vector<Column> join_columns(const std::vector<Column>& columns, MayJoin may_join) {
  std::vector<Column> joined;
  for (const Column& column : columns) {
    if (!joined.empty() && joined.back().rows == column.rows && may_join(joined.back(), column))
      joined.back().end = column.end;
    else
      joined.push_back(column);
  }
  return joined;
}

/// The free part of a piece. First heads of one group join, then whole groups.
std::vector<Column> free_columns(const OwnedPiece& owned, std::span<const Tile> tiles, const Heads& heads) {
  std::vector<int64_t> cuts;
  for (int64_t head = 0; head <= heads.query; head += heads.group()) cuts.push_back(head);
  for (const Tile& tile : tiles) cuts.insert(cuts.end(), {tile.head_begin, tile.head_begin + tile.heads});
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  std::vector<Column> columns;
  for (size_t i = 0; i + 1 < cuts.size(); ++i)
    columns.push_back({cuts[i], cuts[i + 1], free_rows(owned, tiles, cuts[i], cuts[i + 1])});
  const int64_t group = heads.group();
  columns = join_columns(columns, [group](const Column& left, const Column& right) {
    return left.begin / group == (right.end - 1) / group;
  });
  return join_columns(columns, [group](const Column& left, const Column& right) {
    return left.begin % group == 0 && right.begin % group == 0 && right.end % group == 0;
  });
}

/// Appends all work of one piece. `tiles` are those of its segment, by q_begin.
void append_piece(const OwnedPiece& owned, std::span<const Tile> tiles, const Heads& heads,
                  std::vector<WorkItem>& work) {
  if (tiles.empty()) {
    work.push_back(
        work_item(owned, owned.owner, 0, {owned.piece.begin_tokens, owned.piece.length_tokens}, {0, heads.query}));
    return;
  }
  std::vector<Tile> here;
  for (const Tile& tile : tiles)
    if (tile.q_begin < owned.end() && tile.q_begin + tile.q_length > owned.piece.begin_tokens) here.push_back(tile);
  for (const Tile& tile : here) {
    const int64_t begin = std::max(tile.q_begin, owned.piece.begin_tokens);
    const int64_t end = std::min(tile.q_begin + tile.q_length, owned.end());
    work.push_back(work_item(owned, tile.member, tile.round, {begin, end - begin}, {tile.head_begin, tile.heads}));
  }
  for (const Column& column : free_columns(owned, here, heads))
    for (const Range& rows : column.rows)
      work.push_back(work_item(owned, owned.owner, 0, rows, {column.begin, column.end - column.begin}));
}

std::vector<OwnedPiece> locate_pieces(const Sharding& sharding, int64_t replica_in_pool, int64_t cp) {
  std::vector<OwnedPiece> located;
  std::vector<int64_t> next_row(cp, 0);
  for (const ShardPiece& piece : sharding.pieces) {
    located.push_back(
        {replica_in_pool, piece, MemberId{replica_in_pool * cp + piece.cp_rank}, next_row[piece.cp_rank]});
    next_row[piece.cp_rank] += piece.length_tokens;
  }
  return located;
}

}  // namespace

std::vector<WorkItem> attention_work(std::span<const Sequence> sequences, std::span<const Sharding> shardings,
                                     std::span<const Tile> tiles, const Heads& heads, int64_t cp) {
  EQ_ASSERT(sequences.size() == shardings.size());
  // Tiles begin with (replica, segment, q_begin), the order in which pieces are walked.
  std::vector<Tile> sorted(tiles.begin(), tiles.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<WorkItem> work;
  size_t pieces = 0;
  for (const Sharding& sharding : shardings) pieces += sharding.pieces.size();
  work.reserve(pieces + 2 * tiles.size());
  auto first = sorted.begin();
  for (size_t replica = 0; replica < shardings.size(); ++replica) {
    for (const OwnedPiece& owned : locate_pieces(shardings[replica], static_cast<int64_t>(replica), cp)) {
      const auto place = std::pair(owned.replica_in_pool, owned.piece.segment);
      while (first != sorted.end() && std::pair(first->replica_in_pool, first->segment) < place) ++first;
      auto last = first;
      while (last != sorted.end() && std::pair(last->replica_in_pool, last->segment) == place) ++last;
      append_piece(owned, {first, last}, heads, work);
    }
  }
  std::sort(work.begin(), work.end());
  return work;
}

}  // namespace equipoise
