// Columns are long and members have little room, so most members take the top of one or two columns. Bytes for each
// nanosecond of work prefer the longest segments (their rows carry the most work) and columns whose keys the member has
// already.

#include "equipoise/tiling/receive.h"

#include <algorithm>
#include <optional>

namespace equipoise {
namespace {

constexpr MemberId nobody{};
/// A slice is worth its entry and its keys only if it carries this many times the entry's cost, while there is choice.
constexpr int64_t worth_entries = 4;
/// Leaving less than this part of an average member's room is a crumb that somebody else must take: it counts 1.3
/// times.
constexpr int64_t crumb_part = 20;
/// Capacities grow by this part where nothing fits, at most this often; then rows go home.
constexpr int64_t growth_part = 2048;
constexpr int64_t most_growths = 64;

/// Where one hand-out stands.
struct Table {
  Board& board;
  std::vector<int64_t>& capacity;
  std::vector<bool> closed;  ///< members that found nothing worth taking
  std::vector<int64_t> top;  ///< by column: end of its highest open rows, 0 if none
  int64_t crumb_ns = 0;
  int64_t least_ns = 0;
  int64_t growths = 0;
};

int64_t spare(const Table& table, MemberId member) {
  return table.capacity[member.value] - table.board.tally(member).work_ns;
}

/// The row at which the part [row, end) of a slice carries at most `work_ns`, first guessed by pairs.
int64_t guess_row(const Board& board, const Slice& slice, int64_t work_ns, bool from_top) {
  const auto& pool = board.pool();
  const HomePiece& piece = board.pieces()[slice.piece];
  const int64_t wanted = mul_div(attention_pairs(pool.mask, slice.rows, piece.length_tokens), work_ns,
                                 std::max<int64_t>(1, slice.work_ns));
  const int64_t block = row_block(pool);
  int64_t low = slice.rows.begin / block;
  int64_t high = ceil_div(slice.rows.end(), block);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const int64_t row = middle * block;
    const Range part = from_top ? Range{row, slice.rows.end() - row} : Range{slice.rows.begin, row - slice.rows.begin};
    const bool fits = attention_pairs(pool.mask, part, piece.length_tokens) <= wanted;
    (fits == from_top ? high : low) = middle;
  }
  return (from_top ? high : low) * block;
}

int64_t highest_open(const Board& board, int64_t column) {
  const auto slices = board.slices(column);
  for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice)
    if (slice->member == nobody) return slice->rows.end();
  return 0;
}

struct Choice {
  MemberId member;
  int64_t column = 0;
  int64_t row = 0;  ///< of the slice
  int64_t score = 0;
};

/// New bytes for a given amount of work (scaled), if the member ate this slice until full.
int64_t score_slice(const Table& table, int64_t column, const Slice& slice, MemberId member) {
  const int64_t room = spare(table, member);
  const int64_t eaten = std::min(slice.work_ns, room);
  const int64_t rows = std::max<int64_t>(1, mul_div(slice.rows.length, eaten, std::max<int64_t>(1, slice.work_ns)));
  const Gain gain = table.board.gain(column, slice.piece, {slice.rows.end() - rows, rows}, member);
  const int64_t score = mul_div(gain.traffic_ps, 1000, std::max<int64_t>(1, eaten));
  const int64_t left = slice.work_ns - eaten;
  return left > 0 && left < table.crumb_ns ? score * 13 / 10 : score;
}

void consider(const Table& table, int64_t column, const Slice& slice, MemberId member, std::optional<Choice>& best) {
  if (spare(table, member) <= 0) return;
  const int64_t block = row_block(table.board.pool());
  const int64_t rows = std::min(slice.rows.length, block);
  if (!meets_cap(table.board, column, slice.piece, {slice.rows.end() - rows, rows}, member)) return;
  const int64_t score = score_slice(table, column, slice, member);
  if (!best || score < best->score) best = Choice{member, column, slice.rows.begin, score};
}

/// The open member with the most spare work, and the column that suits it.
std::optional<Choice> choose_by_spare(Table& table) {
  std::optional<MemberId> most;
  for (int64_t m = 0; m < table.board.members(); ++m) {
    const MemberId member{m};
    if (!table.closed[m] && spare(table, member) > 0 && (!most || spare(table, member) > spare(table, *most)))
      most = member;
  }
  std::optional<Choice> best;
  if (!most) return best;
  for (int64_t column = 0; column < table.board.columns(); ++column)
    if (table.top[column] > 0)
      for (const Slice& slice : table.board.slices(column))
        if (slice.member == nobody) consider(table, column, slice, *most, best);
  if (!best) table.closed[most->value] = true;
  return best ? best : choose_by_spare(table);
}

/// The open rows that see the most keys, and the member that suits them.
std::optional<Choice> choose_by_prefix(const Table& table) {
  const auto column = std::max_element(table.top.begin(), table.top.end()) - table.top.begin();
  const Slice& slice = table.board.slice_at(column, table.top[column] - 1);
  std::optional<Choice> best;
  for (int64_t m = 0; m < table.board.members(); ++m)
    if (!table.closed[m]) consider(table, column, slice, MemberId{m}, best);
  return best;
}

/// Rows that the member takes of the slice: all that it has room for, in work and bytes; none if
/// they are not worth it.
Range eat(const Table& table, const Choice& choice) {
  const Board& board = table.board;
  const Slice& slice = board.slice_at(choice.column, choice.row);
  int64_t room = spare(table, choice.member);
  Range rows = top_rows(board, slice, room, choice.member);
  while (rows.length > 0 && !meets_cap(board, choice.column, slice.piece, rows, choice.member)) {
    room /= 2;
    rows = top_rows(board, slice, room, choice.member);
  }
  const bool rest = rows.length == slice.rows.length;
  return rest || board.work(slice.piece, rows, choice.member) >= table.least_ns ? rows : Range{};
}

/// Nothing fits: lower what is worth it, then raise capacities, at last send the highest open rows home.
void relax(Table& table) {
  std::fill(table.closed.begin(), table.closed.end(), false);
  if (table.least_ns > 0) {
    table.least_ns = 0;
  } else if (table.growths < most_growths) {
    ++table.growths;
    for (int64_t& capacity : table.capacity) capacity += ceil_div(capacity, growth_part);
  } else {
    const auto column = std::max_element(table.top.begin(), table.top.end()) - table.top.begin();
    const Slice& slice = table.board.slice_at(column, table.top[column] - 1);
    table.board.give(column, slice.rows, table.board.pieces()[slice.piece].owner);
    table.top[column] = highest_open(table.board, column);
  }
}

}  // namespace

Range top_rows(const Board& board, const Slice& slice, int64_t work_ns, MemberId member) {
  if (slice.work_ns <= work_ns && board.work(slice.piece, slice.rows, member) <= work_ns) return slice.rows;
  const int64_t block = row_block(board.pool());
  for (int64_t row = guess_row(board, slice, work_ns, true); row < slice.rows.end(); row += block) {
    const Range rows{std::max(row, slice.rows.begin), slice.rows.end() - std::max(row, slice.rows.begin)};
    if (board.work(slice.piece, rows, member) <= work_ns) return rows;
  }
  return {slice.rows.end(), 0};
}

Range bottom_rows(const Board& board, const Slice& slice, int64_t work_ns, MemberId member) {
  if (slice.work_ns <= work_ns && board.work(slice.piece, slice.rows, member) <= work_ns) return slice.rows;
  const int64_t block = row_block(board.pool());
  for (int64_t row = guess_row(board, slice, work_ns, false); row > slice.rows.begin; row -= block) {
    const Range rows{slice.rows.begin, std::min(row, slice.rows.end()) - slice.rows.begin};
    if (board.work(slice.piece, rows, member) <= work_ns) return rows;
  }
  return {slice.rows.begin, 0};
}

bool meets_cap(const Board& board, int64_t column, int64_t piece, Range rows, MemberId member) {
  const PooledTiling& pool = board.pool();
  if (pool.exchange_bytes == no_limit) return true;
  const int64_t keys = board.gain(column, piece, rows, member).key_bytes;
  if (keys == 0 && board.pieces()[piece].owner == member) return true;
  const int64_t block = query_bytes(pool, row_block(pool));
  return board.tally(member).key_bytes + keys + block <= pool.exchange_bytes;
}

void hand_out(Board& board, std::vector<int64_t>& capacity_ns, HandOut order) {
  Table table{board, capacity_ns, std::vector<bool>(capacity_ns.size(), false), {}, 0, 0, 0};
  for (int64_t m = 0; m < board.members(); ++m) table.crumb_ns += std::max<int64_t>(0, spare(table, MemberId{m}));
  table.crumb_ns /= crumb_part * board.members();
  table.least_ns = worth_entries * entry_work(board.pool());
  for (int64_t column = 0; column < board.columns(); ++column) table.top.push_back(highest_open(board, column));
  while (std::any_of(table.top.begin(), table.top.end(), [](int64_t top) { return top > 0; })) {
    const auto choice = order == HandOut::to_largest_spare ? choose_by_spare(table) : choose_by_prefix(table);
    if (!choice) {
      relax(table);
      continue;
    }
    const Range rows = eat(table, *choice);
    if (rows.length == 0) {
      table.closed[choice->member.value] = true;
      continue;
    }
    board.give(choice->column, rows, choice->member);
    table.top[choice->column] = highest_open(board, choice->column);
  }
}

}  // namespace equipoise
