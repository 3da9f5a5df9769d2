// Slices are few (a column is cut where members change, not where owners do), so a change walks its column: whoever
// gave or took has its keys of the column counted anew, and only the difference goes to the tallies.

#include "equipoise/tiling/board.h"

#include <algorithm>
#include <array>

#include "equipoise/base/errors.h"
#include "equipoise/cost/cost.h"

namespace equipoise {
namespace {

/// Segments of at least a quarter of a rank's tokens may move whole, to make room for parts of longer ones.
constexpr int64_t movable_parts = 4;

constexpr MemberId nobody{};

Range common(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max<int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

int64_t overlap(Range a, Range b) { return common(a, b).length; }

Range hull(Range a, Range b) {
  if (a.length == 0) return b;
  if (b.length == 0) return a;
  const int64_t begin = std::min(a.begin, b.begin);
  return {begin, std::max(a.end(), b.end()) - begin};
}

/// The last of some ranges, the first of which begins at 0, that begins at `row` or before. Without branches that no
/// processor could predict: this is asked most of all.
template <class Ranges>
int64_t last_from(std::span<const Ranges> ranges, int64_t row) {
  int64_t first = 0;
  for (auto count = std::ssize(ranges); count > 1;) {
    const int64_t half = count / 2;
    first += ranges[first + half].rows.begin <= row ? half : 0;
    count -= half;
  }
  return first;
}

/// Bytes of a row of one KV head's query heads on all four trips: q; o, lse; q, o, do, lse; dq.
int64_t query_row_bytes(const PooledTiling& pool) {
  return pool.heads.group() * (6 * pool.heads.size * pool.cost.element_bytes + 2 * pool.cost.statistic_bytes);
}

/// Bytes of a row of one KV head on all trips: k, v; k, v; dk, dv.
int64_t key_row_bytes(const PooledTiling& pool) { return 6 * pool.heads.size * pool.cost.element_bytes; }

/// Bytes of keys and values that one row of one KV head takes in the forward.
int64_t held_row_bytes(const PooledTiling& pool) { return 2 * pool.heads.size * pool.cost.element_bytes; }

/// Picoseconds that a number of bytes take within a node and between nodes.
std::array<int64_t, 2> link_ps(const PooledTiling& pool, int64_t bytes) {
  return {bytes * pool.cost.node.kilobyte_ps / 1024, bytes * pool.cost.network.kilobyte_ps / 1024};
}

/// Puts `parts` in the place of the slices [first, end).
void replace(std::vector<Slice>& slices, int64_t first, int64_t end, std::span<const Slice> parts) {
  const int64_t kept = std::min(end - first, std::ssize(parts));
  std::copy_n(parts.begin(), kept, slices.begin() + first);
  if (kept < std::ssize(parts))
    slices.insert(slices.begin() + first + kept, parts.begin() + kept, parts.end());
  else
    slices.erase(slices.begin() + first + kept, slices.begin() + end);
}

bool is_movable(const HomePiece& piece) { return movable_parts * piece.length_tokens >= piece.share_tokens; }

}  // namespace

Board::Board(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const Column> open)
    : pool_(&pool),
      query_row_ps_(link_ps(pool, query_row_bytes(pool))),
      key_row_ps_(link_ps(pool, key_row_bytes(pool))),
      columns_of_(pool.shardings.size() * pool.cp),
      tallies_(pool.shardings.size() * pool.cp, {.work_ns = call_work(pool)}) {
  add_texts(pieces, open);
  slices_.resize(texts_.size() * pool.heads.kv);
  needs_.resize(slices_.size());
  for (int64_t column = 0; column < columns(); ++column) fill_column(column, pieces, open);
}

void Board::add_texts(std::span<const HomePiece> pieces, std::span<const Column> open) {
  std::vector<bool> opened(pieces.size(), false);
  for (const Column& column : open) opened[column.piece] = true;
  for (size_t first = 0, end = 0; first < pieces.size(); first = end) {
    const HomePiece& piece = pieces[first];
    bool on_board = is_movable(piece);
    for (end = first; end < pieces.size() && pieces[end].replica_in_pool == piece.replica_in_pool &&
                      pieces[end].segment == piece.segment;
         ++end)
      on_board = on_board || opened[end];
    if (on_board || end - first > 1) {
      texts_.push_back({piece.replica_in_pool, piece.segment, piece.length_tokens, {}});
      first_home_.push_back(static_cast<int64_t>(first));
      for (const HomePiece& home : pieces.subspan(first, end - first)) {
        texts_.back().pieces.push_back({home.rows, home.owner});
        tallies_[home.owner.value].work_ns += entry_work(*pool_);
      }
    } else {
      tallies_[piece.owner.value].work_ns += piece.home_ns;
    }
  }
}

/// All rows with their owners, but for those of open columns.
void Board::fill_column(int64_t column, std::span<const HomePiece> pieces, std::span<const Column> open) {
  const int64_t home = first_home_[column / pool_->heads.kv];
  for (int64_t p = home; p < home + std::ssize(pieces_of(column)); ++p) {
    const HomePiece& piece = pieces[p];
    int64_t cut = piece.rows.end();
    const auto first = std::lower_bound(open.begin(), open.end(), p,
                                        [](const Column& other, int64_t wanted) { return other.piece < wanted; });
    for (auto it = first; it != open.end() && it->piece == p; ++it)
      if (it->kv_head == kv_head_of(column)) cut = std::min(cut, it->rows.begin);
    append_slice(column, {piece.rows.begin, cut - piece.rows.begin}, piece.owner);
    append_slice(column, {cut, piece.rows.end() - cut}, nobody);
  }
  for (Slice& slice : slices_[column]) {
    slice.work_ns = work(column, slice.rows, slice.member);
    if (slice.member != nobody) tallies_[slice.member.value].work_ns += slice.work_ns;
  }
  for (const OwnedRows& piece : pieces_of(column)) set_need(column, piece.owner, needed_keys(column, piece.owner));
}

/// Joins rows to the last slice where that has the same member.
void Board::append_slice(int64_t column, Range rows, MemberId member) {
  auto& slices = slices_[column];
  if (rows.length == 0) return;
  if (!slices.empty() && slices.back().member == member)
    slices.back().rows.length += rows.length;
  else
    slices.push_back({rows, member, 0});
}

const OwnedRows& Board::piece_at(int64_t column, int64_t row) const {
  const auto pieces = pieces_of(column);
  return pieces[last_from(pieces, row)];
}

int64_t Board::work(int64_t column, Range rows, MemberId member) const {
  int64_t work = 0;
  if (rows.length == 0) return work;
  const int64_t length = text_of(column).length_tokens;
  for (const OwnedRows* piece = &piece_at(column, rows.begin);; ++piece) {
    const int64_t entry = member == piece->owner ? entry_work(*pool_) : 0;
    work += std::max<int64_t>(0, rows_work(*pool_, length, common(rows, piece->rows), 1) - entry);
    if (rows.end() <= piece->rows.end()) return work;
  }
}

bool Board::are_near(MemberId a, MemberId b) const {
  return pool_->nodes.empty() || pool_->nodes[a.value] == pool_->nodes[b.value];
}

/// Where bytes are capped, rows that nobody has taken may fall back to their owner, so it keeps room for their keys.
Range Board::needed_keys(int64_t column, MemberId member) const {
  const bool reserve = pool_->exchange_bytes != no_limit;
  const int64_t length = text_of(column).length_tokens;
  Range keys;
  for (const Slice& slice : slices_[column]) {
    if (slice.member == member) keys = hull(keys, visible_keys(pool_->mask, slice.rows, length));
    if (!reserve || slice.member != nobody) continue;
    for (const OwnedRows& piece : pieces_of(column)) {
      const Range rows = common(piece.rows, slice.rows);
      if (piece.owner == member && rows.length > 0) keys = hull(keys, visible_keys(pool_->mask, rows, length));
    }
  }
  return keys;
}

Range Board::keys_of(int64_t column, MemberId member) const {
  for (const Need& need : needs_[column])
    if (need.member == member) return need.keys;
  return {};
}

/// Counts rows of a piece as keys that a member needs, or, if negative, no longer.
void Board::count_keys(const OwnedRows& piece, MemberId member, int64_t rows) {
  if (piece.owner == member || rows == 0) return;
  const int64_t traffic = rows * key_ps(piece.owner, member);
  tallies_[member.value].traffic_ps += traffic;
  tallies_[piece.owner.value].traffic_ps += traffic;
  tallies_[member.value].key_bytes += rows * held_row_bytes(*pool_);
}

void Board::set_need(int64_t column, MemberId member, Range keys) {
  auto& needs = needs_[column];
  auto need = std::find_if(needs.begin(), needs.end(), [&](const Need& other) { return other.member == member; });
  const Range before = need == needs.end() ? Range{} : need->keys;
  if (before == keys) return;
  // Nothing changes below the lower end where both begin alike.
  const int64_t same = keys.begin == before.begin ? std::min(keys.end(), before.end()) : 0;
  const auto pieces = pieces_of(column);
  for (const OwnedRows* piece = &piece_at(column, same == text_of(column).length_tokens ? 0 : same);
       piece != pieces.data() + pieces.size() && piece->rows.begin < std::max(keys.end(), before.end()); ++piece)
    count_keys(*piece, member, overlap(piece->rows, keys) - overlap(piece->rows, before));
  auto& columns = columns_of_[member.value];
  if (keys.length == 0) {
    *need = needs.back();
    needs.pop_back();
    *std::find(columns.begin(), columns.end(), column) = columns.back();
    columns.pop_back();
  } else if (need == needs.end()) {
    needs.push_back({member, keys});
    columns.push_back(column);
  } else {
    need->keys = keys;
  }
}

/// Counts the queries and outputs of some rows that a member computes, or no longer.
void Board::add_queries(int64_t column, Range rows, MemberId member, int64_t sign) {
  for (const OwnedRows* piece = &piece_at(column, rows.begin);; ++piece) {
    if (piece->owner != member) {
      const int64_t traffic = sign * overlap(rows, piece->rows) * query_ps(piece->owner, member);
      tallies_[member.value].traffic_ps += traffic;
      tallies_[piece->owner.value].traffic_ps += traffic;
    }
    if (rows.end() <= piece->rows.end()) return;
  }
}

Gain Board::gain(int64_t column, Range rows, MemberId member) const {
  const Text& text = text_of(column);
  const Range before = keys_of(column, member);
  const Range keys = hull(before, visible_keys(pool_->mask, rows, text.length_tokens));
  Gain gain;
  const bool stranger = pool_->nodes.empty() && member.value / pool_->cp != text.replica_in_pool;
  if (stranger) {
    gain.traffic_ps = 2 * (rows.length * query_row_ps_[0] + (keys.length - before.length) * key_row_ps_[0]);
    gain.key_bytes = (keys.length - before.length) * held_row_bytes(*pool_);
    return gain;
  }
  for (const OwnedRows& piece : pieces_of(column)) {
    if (piece.owner == member) continue;
    const int64_t more = overlap(piece.rows, keys) - overlap(piece.rows, before);
    gain.traffic_ps +=
        2 * (more * key_ps(piece.owner, member) + overlap(piece.rows, rows) * query_ps(piece.owner, member));
    gain.key_bytes += more * held_row_bytes(*pool_);
  }
  return gain;
}

int64_t Board::slice_at(int64_t column, int64_t row) const {
  return last_from(std::span<const Slice>(slices_[column]), row);
}

void Board::give(int64_t column, Range rows, MemberId to) {
  auto& slices = slices_[column];
  int64_t first = slice_at(column, rows.begin);
  int64_t last = slice_at(column, rows.end() - 1);
  givers_.clear();
  for (int64_t i = first; i <= last; ++i) {
    const MemberId giver = slices[i].member;
    if (giver == to) continue;
    if (std::find(givers_.begin(), givers_.end(), giver) == givers_.end()) givers_.push_back(giver);
    if (giver != nobody) add_queries(column, common(slices[i].rows, rows), giver, -1);
    if (to != nobody) add_queries(column, common(slices[i].rows, rows), to, 1);
  }
  // Neighbours of the same member join.
  if (first > 0 && slices[first].rows.begin == rows.begin && slices[first - 1].member == to) --first;
  if (last + 1 < std::ssize(slices) && slices[last].rows.end() == rows.end() && slices[last + 1].member == to) ++last;
  const Slice low = slices[first];
  const Slice high = slices[last];
  std::array<Slice, 3> parts;
  int64_t count = 0;
  const auto add_part = [&](int64_t begin, int64_t end, MemberId member) {
    if (begin == end) return;
    parts[count] = {{begin, end - begin}, member, work(column, {begin, end - begin}, member)};
    if (member != nobody) tallies_[member.value].work_ns += parts[count].work_ns;
    ++count;
  };
  const int64_t begin = low.member == to ? low.rows.begin : rows.begin;
  const int64_t end = high.member == to ? high.rows.end() : rows.end();
  add_part(low.rows.begin, begin, low.member);
  add_part(begin, end, to);
  add_part(end, high.rows.end(), high.member);
  for (int64_t i = first; i <= last; ++i)
    if (slices[i].member != nobody) tallies_[slices[i].member.value].work_ns -= slices[i].work_ns;
  replace(slices, first, last + 1, std::span(parts).first(count));
  for (const MemberId giver : givers_)
    if (giver != nobody) set_need(column, giver, needed_keys(column, giver));
  if (to != nobody) set_need(column, to, needed_keys(column, to));
  if (pool_->exchange_bytes == no_limit) return;
  for (const OwnedRows& piece : pieces_of(column))
    if (overlap(piece.rows, rows) > 0) set_need(column, piece.owner, needed_keys(column, piece.owner));
}

}  // namespace equipoise
