#include "equipoise/tiling/make_tiles.h"

#include <algorithm>
#include <tuple>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

/// How far the rounds of a member are filled. Its keys live through all rounds; what they leave of the cap is room.
struct Round {
  int64_t number = 1;
  int64_t room_rows = 0;  ///< that one round holds, for one KV head
  int64_t rows = 0;
};

std::vector<Round> first_rounds(const Board& board) {
  const PooledTiling& pool = board.pool();
  std::vector<Round> rounds;
  for (int64_t m = 0; m < board.members(); ++m)
    rounds.push_back({.room_rows = (pool.exchange_bytes - board.tally(MemberId{m}).key_bytes) / query_bytes(pool, 1)});
  return rounds;
}

/// Where a tile that begins at a row must end: at a row block's border within the room of the round, which is a new one
/// where nothing fits.
int64_t end_of_tile(Round& round, int64_t begin, int64_t end, int64_t block) {
  const int64_t left = round.room_rows - round.rows;
  int64_t cut = end - begin <= left ? end : (begin + left) / block * block;
  if (cut <= begin) {
    round = {round.number + 1, round.room_rows, 0};
    cut = end - begin <= round.room_rows ? end : (begin + round.room_rows) / block * block;
  }
  EQ_ASSERT(cut > begin);
  round.rows += cut - begin;
  return cut;
}

/// Appends the rows that a member computes for another, as one tile, or several in several rounds.
void deal_rows(const Board& board, int64_t column, const Slice& slice, Round& round, std::vector<Tile>& tiles) {
  const int64_t group = board.pool().heads.group();
  const Range rows = slice.rows;
  for (int64_t begin = rows.begin, end = 0; begin < rows.end(); begin = end) {
    end = end_of_tile(round, begin, rows.end(), row_block(board.pool()));
    tiles.push_back({.replica_in_pool = board.text_of(column).replica_in_pool,
                     .segment = board.text_of(column).segment,
                     .q_begin = begin,
                     .q_length = end - begin,
                     .head_begin = board.kv_head_of(column) * group,
                     .heads = group,
                     .member = slice.member,
                     .round = round.number});
  }
}

/// Tiles of the rows of each slice that its member does not own.
std::vector<Tile> deal_rounds(const Board& board) {
  std::vector<Round> rounds = first_rounds(board);
  std::vector<Tile> tiles;
  for (int64_t column = 0; column < board.columns(); ++column)
    for (const Slice& slice : board.slices(column))
      for (int64_t row = slice.rows.begin; row < slice.rows.end();) {
        const OwnedRows& piece = board.piece_at(column, row);
        const int64_t end = std::min(slice.rows.end(), piece.rows.end());
        if (piece.owner != slice.member)
          deal_rows(board, column, {{row, end - row}, slice.member}, rounds[slice.member.value], tiles);
        row = end;
      }
  return tiles;
}

/// Joins each tile to the one before it where `join` says that the two are one.
template <class Join>
void join_tiles(std::vector<Tile>& tiles, Join join) {
  std::vector<Tile> joined;
  for (const Tile& tile : tiles)
    if (joined.empty() || !join(joined.back(), tile)) joined.push_back(tile);
  tiles = std::move(joined);
}

bool same_work_place(const Tile& a, const Tile& b) {
  return a.replica_in_pool == b.replica_in_pool && a.segment == b.segment && a.member == b.member && a.round == b.round;
}

/// What a tile is sorted by before neighbours are joined: everything but what joins comes first.
using Order = std::tuple<int64_t, int64_t, MemberId, int64_t, int64_t, int64_t, int64_t>;

}  // namespace

std::vector<Tile> make_tiles(const Board& board) {
  std::vector<Tile> tiles = deal_rounds(board);
  const auto sort_by = [&tiles](auto key) {
    std::sort(tiles.begin(), tiles.end(), [key](const Tile& a, const Tile& b) { return key(a) < key(b); });
  };
  // Rows first: parts of one column that adjoin, also across owners.
  sort_by([](const Tile& t) {
    return Order{t.replica_in_pool, t.segment, t.member, t.round, t.head_begin, t.q_begin, t.q_length};
  });
  join_tiles(tiles, [](Tile& a, const Tile& b) {
    if (!same_work_place(a, b) || a.head_begin != b.head_begin || a.q_begin + a.q_length != b.q_begin) return false;
    a.q_length += b.q_length;
    return true;
  });
  // Then heads.
  sort_by([](const Tile& t) {
    return Order{t.replica_in_pool, t.segment, t.member, t.round, t.q_begin, t.q_length, t.head_begin};
  });
  join_tiles(tiles, [](Tile& a, const Tile& b) {
    if (!same_work_place(a, b) || a.q_begin != b.q_begin || a.q_length != b.q_length ||
        a.head_begin + a.heads != b.head_begin)
      return false;
    a.heads += b.heads;
    return true;
  });
  std::sort(tiles.begin(), tiles.end());
  return tiles;
}

}  // namespace equipoise
