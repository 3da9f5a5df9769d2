// The owners of a giant document send most: keys to everyone who takes a part, queries of all that leaves. What helps
// is fewer and fuller parts, so other work must change places to make room for them; single exchanges find that way,
// if they are many and cheap.

#include "equipoise/tiling/improve.h"

#include <algorithm>
#include <optional>

#include "equipoise/base/integers.h"
#include "equipoise/base/rng.h"
#include "equipoise/tiling/receive.h"

namespace equipoise {
namespace {

/// One of so many tries moves a part of a slice, and picks a member at random instead of the busiest.
constexpr int64_t part_of_tries = 12;
constexpr int64_t other_of_tries = 4;
/// A member gives back at most so many slices.
constexpr int64_t most_returns = 4;
/// The reference of pressures is renewed where the busiest has less than this part of it, each so many tries.
constexpr int64_t renew_tries = 256;

constexpr int64_t one = 1 << 16;

/// Gives back what a try changed: who computes rows of a column.
struct Undo {
  int64_t column = 0;
  Range rows;
  MemberId from;
};

struct Search {
  Board& board;
  std::span<const int64_t> capacity;
  std::vector<std::vector<int64_t>> owned = {};  ///< by member: columns of segments that it owns with others
  std::vector<int64_t> traffic = {};             ///< by member, of which the pressures speak
  std::vector<int64_t> pressure = {};            ///< by member
  int64_t busiest = 0;                           ///< the member with the most traffic
  int64_t total = 0;
  int64_t reference = 1;  ///< traffic of pressure `one`
  SplitMix64 rng = {};
  std::vector<Undo> undo = {};

  int64_t below(int64_t count) { return static_cast<int64_t>(rng.next() % static_cast<uint64_t>(count)); }
};

/// About the tenth power of traffic over the reference, and a little of the traffic itself.
int64_t pressure_of(const Search& search, int64_t traffic_ps) {
  const int64_t x = std::min(traffic_ps * one / search.reference, 8 * one);
  const int64_t x2 = x * x / one;
  const int64_t x4 = x2 * x2 / one;
  const int64_t x8 = x4 * x4 / one;
  return x8 * x2 / one + x / 64;
}

int64_t traffic(const Search& search, int64_t member) { return search.board.tally(MemberId{member}).traffic_ps; }

int64_t busiest_of(const Search& search) {
  return std::max_element(search.traffic.begin(), search.traffic.end()) - search.traffic.begin();
}

/// Renews all pressures, with the busiest member as reference.
void renew(Search& search) {
  search.reference = std::max<int64_t>(1, most_traffic_ps(search.board));
  search.total = 0;
  for (int64_t m = 0; m < search.board.members(); ++m) {
    search.traffic[m] = traffic(search, m);
    search.pressure[m] = pressure_of(search, search.traffic[m]);
    search.total += search.pressure[m];
  }
  search.busiest = busiest_of(search);
}

/// Brings the pressure of one member up to date.
void update(Search& search, MemberId member) {
  const int64_t now = traffic(search, member.value);
  if (search.traffic[member.value] == now) return;
  search.traffic[member.value] = now;
  int64_t& pressure = search.pressure[member.value];
  search.total -= pressure;
  pressure = pressure_of(search, now);
  search.total += pressure;
}

/// Brings all owners of a column's sequence up to date.
void update_owners(Search& search, int64_t column) {
  const int64_t cp = search.board.pool().cp;
  const int64_t first = search.board.text_of(column).replica_in_pool * cp;
  for (int64_t owner = first; owner < first + cp; ++owner) update(search, MemberId{owner});
}

/// Rows of one slice change hands; all whose traffic changes are brought up to date.
void give(Search& search, int64_t column, Range rows, MemberId to) {
  Board& board = search.board;
  const MemberId from = board.slices(column)[board.slice_at(column, rows.begin)].member;
  board.give(column, rows, to);
  update(search, from);
  update(search, to);
  update_owners(search, column);
  search.undo.push_back({column, rows, from});
}

void undo_all(Search& search) {
  std::vector<Undo> steps;
  steps.swap(search.undo);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) give(search, step->column, step->rows, step->from);
  search.undo.clear();
}

/// The busiest member; sometimes the busiest of three.
int64_t choose_busy(Search& search) {
  if (search.below(other_of_tries) > 0) return search.busiest;
  int64_t busy = search.below(search.board.members());
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t other = search.below(search.board.members());
    if (search.traffic[other] > search.traffic[busy]) busy = other;
  }
  return busy;
}

struct Pick {
  int64_t column = 0;
  Slice slice;
};

/// A random slice of a member in a random column of its own.
std::optional<Pick> pick_of(Search& search, MemberId member) {
  const auto columns = search.board.columns_of(member);
  if (columns.empty()) return std::nullopt;
  const int64_t column = columns[search.below(std::ssize(columns))];
  const auto slices = search.board.slices(column);
  const int64_t start = search.below(std::ssize(slices));
  for (int64_t i = 0; i < std::ssize(slices); ++i) {
    const Slice& slice = slices[(start + i) % std::ssize(slices)];
    if (slice.member == member) return Pick{column, slice};
  }
  return std::nullopt;
}

/// A slice that adds to the traffic of a member: one that it computes, or of a segment that it owns with others.
std::optional<Pick> pick_for(Search& search, int64_t busy) {
  const auto& owned = search.owned[busy];
  if (owned.empty() || search.below(4) == 0) return pick_of(search, MemberId{busy});
  const int64_t column = owned[search.below(std::ssize(owned))];
  const auto slices = search.board.slices(column);
  return Pick{column, slices[search.below(std::ssize(slices))]};
}

/// Whoever owns a random row of the slice, for the rows that it owns; or for all of it one who has keys of the column,
/// or anybody.
MemberId choose_taker(Search& search, Pick& pick) {
  const auto needs = search.board.needs(pick.column);
  switch (search.below(4)) {
    case 0: {
      Range& rows = pick.slice.rows;
      const OwnedRows& piece = search.board.piece_at(pick.column, rows.begin + search.below(rows.length));
      const int64_t begin = std::max(rows.begin, piece.rows.begin);
      rows = {begin, std::min(rows.end(), piece.rows.end()) - begin};
      pick.slice.work_ns = search.board.work(pick.column, rows, pick.slice.member);
      return piece.owner;
    }
    case 1: return MemberId{search.below(search.board.members())};
    default: return needs[search.below(std::ssize(needs))].member;
  }
}

int64_t room(const Search& search, MemberId member) {
  return search.capacity[member.value] - search.board.tally(member).work_ns;
}

/// All rows, or sometimes a random part at the slice's top or bottom.
Range choose_rows(Search& search, const Pick& pick) {
  const Slice& slice = pick.slice;
  if (search.below(part_of_tries) > 0) return slice.rows;
  const int64_t work = slice.work_ns * (1 + search.below(7)) / 8;
  return search.below(2) == 0 ? top_rows(search.board, pick.column, slice, work, slice.member)
                              : bottom_rows(search.board, pick.column, slice, work, slice.member);
}

/// The rows of a slice just above `work_ns`, from its top or bottom.
Range rows_above(Search& search, const Pick& pick, int64_t work_ns) {
  const Slice& slice = pick.slice;
  const int64_t block = row_block(search.board.pool());
  if (search.below(2) == 0) {
    const Range rows = top_rows(search.board, pick.column, slice, work_ns, slice.member);
    const int64_t begin = std::max(slice.rows.begin, (rows.begin - 1) / block * block);
    return {begin, slice.rows.end() - begin};
  }
  const Range rows = bottom_rows(search.board, pick.column, slice, work_ns, slice.member);
  const int64_t end = std::min(slice.rows.end(), (rows.end() / block + 1) * block);
  return {slice.rows.begin, end - slice.rows.begin};
}

/// The taker gives slices of other columns to the giver until it has room for `work_ns`.
bool make_room(Search& search, MemberId taker, MemberId giver, int64_t column, int64_t work_ns) {
  Board& board = search.board;
  for (int64_t i = 0; i < most_returns && room(search, taker) < work_ns; ++i) {
    const auto pick = pick_of(search, taker);
    if (!pick || pick->column == column) continue;
    const int64_t missing = work_ns - room(search, taker);
    const int64_t allowed = room(search, giver) + work_ns;
    const int64_t all = board.work(pick->column, pick->slice.rows, giver);
    const bool whole = all <= missing || (all <= allowed && search.below(2) == 0);
    const Range rows = whole ? pick->slice.rows : rows_above(search, *pick, missing);
    if (!whole && board.work(pick->column, rows, giver) > allowed) continue;
    if (!meets_cap(board, pick->column, rows, giver)) return false;
    give(search, pick->column, rows, giver);
  }
  return room(search, taker) >= work_ns;
}

/// One random exchange; whether it was made.
bool exchange(Search& search) {
  Board& board = search.board;
  auto pick = pick_for(search, choose_busy(search));
  if (!pick) return false;
  const MemberId giver = pick->slice.member;
  const MemberId taker = choose_taker(search, *pick);
  if (giver == taker) return false;
  const Range rows = choose_rows(search, *pick);
  if (rows.length == 0) return false;
  const int64_t work = board.work(pick->column, rows, taker);
  if (!make_room(search, taker, giver, pick->column, work)) return false;
  if (!meets_cap(board, pick->column, rows, taker)) return false;
  give(search, pick->column, rows, taker);
  return room(search, taker) >= 0 && room(search, giver) >= 0;
}

Search begin_search(Board& board, std::span<const int64_t> capacity_ns) {
  Search search{board, capacity_ns};
  search.owned.resize(board.members());
  search.pressure.resize(board.members());
  search.traffic.resize(board.members());
  for (int64_t column = 0; column < board.columns(); ++column) {
    const Text& text = board.text_of(column);
    if (text.pieces.size() < 2) continue;
    for (const OwnedRows& piece : board.pieces_of(column)) {
      auto& columns = search.owned[piece.owner.value];
      if (columns.empty() || columns.back() != column) columns.push_back(column);
    }
  }
  renew(search);
  return search;
}

}  // namespace

int64_t most_traffic_ps(const Board& board) {
  int64_t most = 0;
  for (int64_t m = 0; m < board.members(); ++m) most = std::max(most, board.tally(MemberId{m}).traffic_ps);
  return most;
}

void improve(Board& board, std::span<const int64_t> capacity_ns, int64_t tries, int64_t patience_ppm) {
  const auto is_shared = [](const Text& text) { return text.pieces.size() > 1; };
  if (std::none_of(board.texts().begin(), board.texts().end(), is_shared)) return;
  Search search = begin_search(board, capacity_ns);
  for (int64_t i = 0; i < tries; ++i) {
    if (i % renew_tries == 0) renew(search);
    const int64_t before = search.total;
    search.undo.clear();
    const bool made = exchange(search);
    const int64_t patience = mul_div(before, patience_ppm, ppm_one) * (tries - i) / tries * search.below(1024) / 1024;
    if (!made || search.total >= before + patience)
      undo_all(search);
    else
      search.busiest = busiest_of(search);
  }
}

}  // namespace equipoise
