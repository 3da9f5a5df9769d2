#include "equipoise/tiling/make_tiles.h"

#include <algorithm>
#include <tuple>

#include "equipoise/tiling/key_ledger.h"

namespace equipoise {
namespace {

/// Bytes of queries that each member may receive in one round: what its keys, which live through all rounds, leave of
/// the cap.
std::vector<int64_t> query_room(const PooledTiling& pool, std::span<const HomePiece> pieces,
                                std::span<const Taken> taken) {
  KeyLedger ledger(pool, pieces);
  const int64_t key_bytes = 2 * pool.heads.size * pool.cost.element_bytes;
  std::vector<int64_t> room(pool.shardings.size() * pool.cp, pool.exchange_bytes);
  for (size_t m = 0; m < room.size(); ++m)
    room[m] -= key_bytes * pool.heads.kv * ledger.foreign_home_keys(MemberId{static_cast<int64_t>(m)});
  for (const Taken& part : taken) {
    const HomePiece& piece = pieces[part.column.piece];
    const Range keys = visible_keys(pool.mask, part.column.rows, piece.length_tokens);
    room[part.member.value] -= key_bytes * ledger.missing_keys(part.member, piece, part.column.kv_head, keys);
    ledger.add_keys(part.member, piece, part.column.kv_head, keys);
  }
  return room;
}

/// One tile for each part that leaves its owner, in the order in which its member took it; a round ends where the next
/// part's queries would not fit.
std::vector<Tile> deal_rounds(const PooledTiling& pool, std::span<const HomePiece> pieces,
                              std::span<const Taken> taken) {
  const auto room = query_room(pool, pieces, taken);
  std::vector<int64_t> round(room.size(), 1);
  std::vector<int64_t> filled(room.size(), 0);
  std::vector<Tile> tiles;
  const int64_t group = pool.heads.group();
  for (const auto& [column, member] : taken) {
    const HomePiece& piece = pieces[column.piece];
    if (piece.owner == member) continue;
    const int64_t bytes = column.rows.length * group * pool.heads.size * pool.cost.element_bytes;
    if (filled[member.value] > 0 && filled[member.value] + bytes > room[member.value]) {
      ++round[member.value];
      filled[member.value] = 0;
    }
    filled[member.value] += bytes;
    tiles.push_back({.replica_in_pool = piece.replica_in_pool,
                     .segment = piece.segment,
                     .q_begin = column.rows.begin,
                     .q_length = column.rows.length,
                     .head_begin = column.kv_head * group,
                     .heads = group,
                     .member = member,
                     .round = round[member.value]});
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

std::vector<Tile> make_tiles(const PooledTiling& pool, std::span<const HomePiece> pieces,
                             std::span<const Taken> taken) {
  std::vector<Tile> tiles = deal_rounds(pool, pieces, taken);
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
