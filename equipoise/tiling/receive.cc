// Columns are long and members have little room, so most members take the top of one or two columns. Bytes for each
// nanosecond of work prefer the longest segments (their rows carry the most work) and columns whose keys the member has
// already.

#include "equipoise/tiling/receive.h"

#include <algorithm>
#include <optional>
#include <tuple>

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

/// The highest open rows of a column.
struct Open {
  int64_t column = 0;
  Slice slice;
};

/// Where one hand-out stands.
struct Table {
  Board& board;
  std::vector<int64_t>& capacity;
  std::vector<bool> closed;  ///< members that found nothing worth taking
  std::vector<Open> open;    ///< columns with open rows, in no order that means anything
  int64_t crumb_ns = 0;
  int64_t least_ns = 0;
  int64_t growths = 0;
};

int64_t spare(const Table& table, MemberId member) {
  return table.capacity[member.value] - table.board.tally(member).work_ns;
}

/// The row at which the part [row, end) of a slice carries at most `work_ns`, first guessed by pairs.
int64_t guess_row(const Board& board, int64_t column, const Slice& slice, int64_t work_ns, bool from_top) {
  const auto& pool = board.pool();
  const int64_t length = board.text_of(column).length_tokens;
  const int64_t wanted =
      mul_div(attention_pairs(pool.mask, slice.rows, length), work_ns, std::max<int64_t>(1, slice.work_ns));
  const int64_t block = row_block(pool);
  int64_t low = slice.rows.begin / block;
  int64_t high = ceil_div(slice.rows.end(), block);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const int64_t row = middle * block;
    const Range part = from_top ? Range{row, slice.rows.end() - row} : Range{slice.rows.begin, row - slice.rows.begin};
    const bool fits = attention_pairs(pool.mask, part, length) <= wanted;
    (fits == from_top ? high : low) = middle;
  }
  return (from_top ? high : low) * block;
}

Slice highest_open(const Board& board, int64_t column) {
  const auto slices = board.slices(column);
  for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice)
    if (slice->member == nobody) return *slice;
  return {};
}

/// The place of the open rows that see the most keys; ties to the lower column.
int64_t highest_place(const Table& table) {
  const auto order = [](const Open& open) { return std::pair(open.slice.rows.end(), -open.column); };
  const auto highest = std::max_element(table.open.begin(), table.open.end(),
                                        [&](const Open& a, const Open& b) { return order(a) < order(b); });
  return highest - table.open.begin();
}

/// Rows of the column at a place have been taken.
void renew(Table& table, int64_t place) {
  Open& open = table.open[place];
  open.slice = highest_open(table.board, open.column);
  if (open.slice.rows.length > 0) return;
  open = table.open.back();
  table.open.pop_back();
}

struct Choice {
  MemberId member;
  int64_t place = 0;  ///< of the column among the open ones
  int64_t column = 0;
  int64_t score = 0;
};

/// New bytes for a given amount of work (scaled), if the member ate the open rows of a column until full.
int64_t score_column(const Table& table, int64_t place, MemberId member) {
  const auto& [column, open] = table.open[place];
  const int64_t eaten = std::min(open.work_ns, spare(table, member));
  const int64_t rows = std::max<int64_t>(1, mul_div(open.rows.length, eaten, std::max<int64_t>(1, open.work_ns)));
  const Gain gain = table.board.gain(column, {open.rows.end() - rows, rows}, member);
  const int64_t score = mul_div(gain.traffic_ps, 1000, std::max<int64_t>(1, eaten));
  const int64_t left = open.work_ns - eaten;
  return left > 0 && left < table.crumb_ns ? score * 13 / 10 : score;
}

void consider(const Table& table, int64_t place, MemberId member, std::optional<Choice>& best) {
  if (spare(table, member) <= 0) return;
  const int64_t column = table.open[place].column;
  const Range& open = table.open[place].slice.rows;
  const int64_t rows = std::min(open.length, row_block(table.board.pool()));
  if (!meets_cap(table.board, column, {open.end() - rows, rows}, member)) return;
  const int64_t score = score_column(table, place, member);
  const auto order = [](const Choice& choice) { return std::tuple(choice.score, choice.column, choice.member); };
  const Choice choice{member, place, column, score};
  if (!best || order(choice) < order(*best)) best = choice;
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
  for (int64_t place = 0; place < std::ssize(table.open); ++place) consider(table, place, *most, best);
  if (!best) table.closed[most->value] = true;
  return best ? best : choose_by_spare(table);
}

/// Whether a member owns rows of the column's sequence or has keys of it; what others gain differs by their room alone.
bool is_stranger(const Board& board, int64_t column, MemberId member) {
  if (!board.pool().nodes.empty() || member.value / board.pool().cp == board.text_of(column).replica_in_pool)
    return false;
  const auto needs = board.needs(column);
  return std::none_of(needs.begin(), needs.end(), [&](const auto& need) { return need.member == member; });
}

/// The open rows that see the most keys, and the member that suits them: of strangers only the one with the most room.
std::optional<Choice> choose_by_prefix(const Table& table) {
  const int64_t place = highest_place(table);
  const int64_t column = table.open[place].column;
  std::optional<MemberId> stranger;
  std::optional<Choice> best;
  for (int64_t m = 0; m < table.board.members(); ++m) {
    const MemberId member{m};
    if (table.closed[m] ||
        (stranger && spare(table, member) <= spare(table, *stranger) && is_stranger(table.board, column, member)))
      continue;
    if (is_stranger(table.board, column, member))
      stranger = member;
    else
      consider(table, place, member, best);
  }
  if (stranger) consider(table, place, *stranger, best);
  return best;
}

/// Rows that the member takes of the column: all that it has room for, in work and bytes; none if they are not worth
/// it.
Range eat(const Table& table, const Choice& choice) {
  const Board& board = table.board;
  const Slice& open = table.open[choice.place].slice;
  int64_t room = spare(table, choice.member);
  Range rows = top_rows(board, choice.column, open, room, choice.member);
  while (rows.length > 0 && !meets_cap(board, choice.column, rows, choice.member)) {
    room /= 2;
    rows = top_rows(board, choice.column, open, room, choice.member);
  }
  const bool rest = rows.length == open.rows.length;
  return rest || board.work(choice.column, rows, choice.member) >= table.least_ns ? rows : Range{};
}

/// Gives the highest open rows to their owners.
void send_home(Table& table) {
  const int64_t place = highest_place(table);
  const int64_t column = table.open[place].column;
  const Range rows = table.open[place].slice.rows;
  for (int64_t row = rows.begin; row < rows.end();) {
    const OwnedRows& piece = table.board.piece_at(column, row);
    const int64_t end = std::min(rows.end(), piece.rows.end());
    table.board.give(column, {row, end - row}, piece.owner);
    row = end;
  }
  renew(table, place);
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
    send_home(table);
  }
}

}  // namespace

Range top_rows(const Board& board, int64_t column, const Slice& slice, int64_t work_ns, MemberId member) {
  if (slice.work_ns <= work_ns && board.work(column, slice.rows, member) <= work_ns) return slice.rows;
  const int64_t block = row_block(board.pool());
  for (int64_t row = guess_row(board, column, slice, work_ns, true); row < slice.rows.end(); row += block) {
    const Range rows{std::max(row, slice.rows.begin), slice.rows.end() - std::max(row, slice.rows.begin)};
    if (board.work(column, rows, member) <= work_ns) return rows;
  }
  return {slice.rows.end(), 0};
}

Range bottom_rows(const Board& board, int64_t column, const Slice& slice, int64_t work_ns, MemberId member) {
  if (slice.work_ns <= work_ns && board.work(column, slice.rows, member) <= work_ns) return slice.rows;
  const int64_t block = row_block(board.pool());
  for (int64_t row = guess_row(board, column, slice, work_ns, false); row > slice.rows.begin; row -= block) {
    const Range rows{slice.rows.begin, std::min(row, slice.rows.end()) - slice.rows.begin};
    if (board.work(column, rows, member) <= work_ns) return rows;
  }
  return {slice.rows.begin, 0};
}

bool meets_cap(const Board& board, int64_t column, Range rows, MemberId member) {
  const PooledTiling& pool = board.pool();
  if (pool.exchange_bytes == no_limit) return true;
  const int64_t keys = board.gain(column, rows, member).key_bytes;
  const OwnedRows& piece = board.piece_at(column, rows.begin);
  if (keys == 0 && piece.owner == member && rows.end() <= piece.rows.end()) return true;
  const int64_t block = query_bytes(pool, row_block(pool));
  return board.tally(member).key_bytes + keys + block <= pool.exchange_bytes;
}

void hand_out(Board& board, std::vector<int64_t>& capacity_ns, HandOut order) {
  Table table{board, capacity_ns, std::vector<bool>(capacity_ns.size(), false), {}, 0, 0, 0};
  for (int64_t m = 0; m < board.members(); ++m) table.crumb_ns += std::max<int64_t>(0, spare(table, MemberId{m}));
  table.crumb_ns /= crumb_part * board.members();
  table.least_ns = worth_entries * entry_work(board.pool());
  for (int64_t column = 0; column < board.columns(); ++column)
    if (const Slice slice = highest_open(board, column); slice.rows.length > 0) table.open.push_back({column, slice});
  while (!table.open.empty()) {
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
    renew(table, choice->place);
  }
}

}  // namespace equipoise
