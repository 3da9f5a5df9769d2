// Columns are long and members have little room, so most members take the top of one or two columns. Choosing by bytes
// for each nanosecond of work prefers the longest segments (their rows carry the most work) and columns whose keys the
// member has already.

#include "equipoise/tiling/receive.h"

#include <algorithm>

#include "equipoise/tiling/key_ledger.h"

namespace equipoise {
namespace {

/// A tile is worth its entry and its call only if it carries this many times their cost; the rest of a column may be
/// smaller.
constexpr int64_t worth_overheads = 4;
/// Leaving less than this part of an average member's room is a crumb that somebody else must take: it counts 1.3
/// times.
constexpr int64_t crumb_part = 20;

struct Open {
  Column column;
  int64_t work_ns = 0;
};

struct Guest {
  int64_t spare_ns = 0;
  bool called = false;  ///< its extra kernel call is paid
  bool closed = false;  ///< has no room for anything
  int64_t key_bytes = 0;
  int64_t most_query_bytes = 0;  ///< of one tile: what a round must hold at least
};

/// All that changes while columns are handed out.
struct Table {
  const PooledTiling& pool;
  std::span<const HomePiece> pieces;
  KeyLedger ledger;
  std::vector<Open> open;
  std::vector<Guest> guests;
  int64_t crumb_ns = 0;
};

int64_t cell_bytes(const PooledTiling& pool) { return pool.heads.size * pool.cost.element_bytes; }

const HomePiece& piece_of(const Table& table, const Column& column) { return table.pieces[column.piece]; }

int64_t column_work(const Table& table, const Column& column, Range rows) {
  return rows_work(table.pool, piece_of(table, column), rows, 1);
}

/// Bytes of keys and values that the member must receive for these rows.
int64_t new_key_bytes(const Table& table, const Column& column, Range rows, MemberId member) {
  const HomePiece& piece = piece_of(table, column);
  const Range keys = visible_keys(table.pool.mask, rows, piece.length_tokens);
  return 2 * cell_bytes(table.pool) * table.ledger.missing_keys(member, piece, column.kv_head, keys);
}

/// The top of a column from the highest row block border that leaves at least `rows` rows, never below its begin.
Range top_rows(const Table& table, const Column& column, int64_t rows) {
  const int64_t block = table.pool.cost.attention.tile_rows;
  const int64_t border = (column.rows.end() - std::min(rows, column.rows.length)) / block * block;
  const int64_t begin = std::max(border, column.rows.begin);
  return {begin, column.rows.end() - begin};
}

/// Bytes of queries that the member must receive: none for rows of its own that it takes back.
int64_t new_query_bytes(const Table& table, const Column& column, Range rows, MemberId member) {
  if (piece_of(table, column).owner == member) return 0;
  return rows.length * table.pool.heads.group() * cell_bytes(table.pool);
}

bool meets_cap(const Table& table, const Column& column, Range rows, MemberId member) {
  const Guest& guest = table.guests[member.value];
  const int64_t queries = std::max(guest.most_query_bytes, new_query_bytes(table, column, rows, member));
  const int64_t room = table.pool.exchange_bytes - guest.key_bytes - queries;
  return room >= 0 && new_key_bytes(table, column, rows, member) <= room;
}

/// Work that a guest may still take, what it must pay for its first call taken off.
int64_t usable_work(const Table& table, const Guest& guest) {
  return guest.spare_ns - (guest.called ? 0 : call_work(table.pool));
}

/// New bytes for a given amount of work (scaled), if the guest ate this column until full.
int64_t score_column(const Table& table, const Open& open, MemberId member, int64_t usable) {
  const int64_t eaten = std::min(open.work_ns, usable);
  const Range rows = top_rows(table, open.column, mul_div(open.column.rows.length, eaten, open.work_ns));
  const int64_t bytes =
      2 * new_query_bytes(table, open.column, rows, member) + new_key_bytes(table, open.column, rows, member);
  const int64_t score = mul_div(bytes, ppm_one, eaten);
  const int64_t left = open.work_ns - eaten;
  return left > 0 && left < table.crumb_ns ? mul_div(score, 13, 10) : score;
}

/// The column whose work costs the member the fewest new bytes; none if none meets its cap with one row block.
std::optional<size_t> choose_column(const Table& table, MemberId member) {
  const int64_t usable = usable_work(table, table.guests[member.value]);
  std::optional<size_t> best;
  int64_t best_score = 0;
  for (size_t i = 0; i < table.open.size(); ++i) {
    const Column& column = table.open[i].column;
    if (!meets_cap(table, column, top_rows(table, column, 1), member)) continue;
    const int64_t score = score_column(table, table.open[i], member, usable);
    if (best && score >= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

/// The most rows from the top of the column that the member has room for, in work and bytes; none if not even one block
/// is worth it.
std::optional<Range> eat_column(const Table& table, const Open& open, MemberId member) {
  const Guest& guest = table.guests[member.value];
  const int64_t usable = usable_work(table, guest);
  const Column& column = open.column;
  if (open.work_ns <= usable && meets_cap(table, column, column.rows, member)) return column.rows;
  const int64_t block = table.pool.cost.attention.tile_rows;
  int64_t fits = 0;
  int64_t too_many = ceil_div(column.rows.length, block) + 1;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    const Range rows = top_rows(table, column, (middle - 1) * block + 1);
    const bool ok = column_work(table, column, rows) <= usable && meets_cap(table, column, rows, member);
    (ok ? fits : too_many) = middle;
  }
  if (fits == 0) return std::nullopt;
  const Range rows = top_rows(table, column, (fits - 1) * block + 1);
  const int64_t overhead = entry_work(table.pool) + (guest.called ? 0 : call_work(table.pool));
  if (column_work(table, column, rows) < worth_overheads * overhead) return std::nullopt;
  return rows;
}

/// Gives the rows to the member and takes them off the column.
Taken take_rows(Table& table, size_t index, Range rows, MemberId member) {
  Open& open = table.open[index];
  const HomePiece& piece = piece_of(table, open.column);
  const Taken taken{{open.column.piece, open.column.kv_head, rows}, member};
  Guest& guest = table.guests[member.value];
  guest.spare_ns = usable_work(table, guest) - column_work(table, open.column, rows);
  guest.called = true;
  guest.key_bytes += new_key_bytes(table, open.column, rows, member);
  guest.most_query_bytes = std::max(guest.most_query_bytes, new_query_bytes(table, open.column, rows, member));
  table.ledger.add_keys(member, piece, open.column.kv_head, visible_keys(table.pool.mask, rows, piece.length_tokens));
  open.column.rows.length -= rows.length;
  if (open.column.rows.length == 0)
    table.open.erase(table.open.begin() + static_cast<int64_t>(index));
  else
    open.work_ns = column_work(table, open.column, open.column.rows);
  return taken;
}

/// The open member with the most spare work.
std::optional<MemberId> choose_member(const Table& table) {
  std::optional<MemberId> best;
  for (size_t m = 0; m < table.guests.size(); ++m) {
    const Guest& guest = table.guests[m];
    if (guest.closed || usable_work(table, guest) <= 0) continue;
    if (!best || guest.spare_ns > table.guests[best->value].spare_ns) best = MemberId{static_cast<int64_t>(m)};
  }
  return best;
}

Table make_table(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const Column> columns,
                 std::span<const int64_t> spare_ns) {
  Table table{pool, pieces, KeyLedger(pool, pieces), {}, {}, 0};
  for (const Column& column : columns) table.open.push_back({column, column_work(table, column, column.rows)});
  for (size_t m = 0; m < spare_ns.size(); ++m) {
    const auto member = MemberId{static_cast<int64_t>(m)};
    const int64_t keys = table.ledger.foreign_home_keys(member) * pool.heads.kv;
    table.guests.push_back({.spare_ns = spare_ns[m], .key_bytes = 2 * cell_bytes(pool) * keys});
    table.crumb_ns += std::max<int64_t>(0, spare_ns[m]);
  }
  table.crumb_ns /= crumb_part * static_cast<int64_t>(spare_ns.size());
  return table;
}

}  // namespace

std::optional<std::vector<Taken>> receive_columns(const PooledTiling& pool, std::span<const HomePiece> pieces,
                                                  std::span<const Column> columns, std::span<const int64_t> spare_ns) {
  Table table = make_table(pool, pieces, columns, spare_ns);
  std::vector<Taken> taken;
  while (!table.open.empty()) {
    const auto member = choose_member(table);
    if (!member) return std::nullopt;
    const auto index = choose_column(table, *member);
    const auto rows = index ? eat_column(table, table.open[*index], *member) : std::nullopt;
    if (rows)
      taken.push_back(take_rows(table, *index, *rows, *member));
    else
      table.guests[member->value].closed = true;
  }
  return taken;
}

}  // namespace equipoise
