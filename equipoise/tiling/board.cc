// Slices are few (a column is cut where members change), so a change walks its column: whoever gave or took has its
// keys of the column counted anew, and only the difference goes to the tallies.

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

int64_t overlap(Range a, Range b) {
  return std::max<int64_t>(0, std::min(a.end(), b.end()) - std::max(a.begin, b.begin));
}

Range hull(Range a, Range b) {
  if (a.length == 0) return b;
  if (b.length == 0) return a;
  const int64_t begin = std::min(a.begin, b.begin);
  return {begin, std::max(a.end(), b.end()) - begin};
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

bool is_movable(const PooledTiling& pool, const HomePiece& piece) {
  return movable_parts * piece.length_tokens * pool.cp >= pool.sequences[piece.replica_in_pool].tokens();
}

}  // namespace

Board::Board(const PooledTiling& pool, std::span<const HomePiece> pieces, std::span<const Column> open)
    : pool_(&pool),
      query_row_ps_(link_ps(pool, query_row_bytes(pool))),
      key_row_ps_(link_ps(pool, key_row_bytes(pool))),
      pieces_(pieces),
      columns_of_(pool.shardings.size() * pool.cp),
      tallies_(pool.shardings.size() * pool.cp, {.work_ns = call_work(pool)}) {
  add_texts(open);
  slices_.resize(texts_.size() * pool.heads.kv);
  needs_.resize(slices_.size());
  for (int64_t column = 0; column < columns(); ++column) fill_column(column, open);
}

void Board::add_texts(std::span<const Column> open) {
  std::vector<bool> opened(pieces_.size(), false);
  for (const Column& column : open) opened[column.piece] = true;
  for (size_t first = 0, end = 0; first < pieces_.size(); first = end) {
    const HomePiece& piece = pieces_[first];
    bool on_board = is_movable(*pool_, piece);
    for (end = first; end < pieces_.size() && pieces_[end].replica_in_pool == piece.replica_in_pool &&
                      pieces_[end].segment == piece.segment;
         ++end)
      on_board = on_board || opened[end];
    if (on_board || end - first > 1) {
      texts_.push_back({piece.replica_in_pool, piece.segment, piece.length_tokens, static_cast<int64_t>(first),
                        static_cast<int64_t>(end)});
      for (size_t i = first; i < end; ++i) tallies_[pieces_[i].owner.value].work_ns += entry_work(*pool_);
    } else {
      tallies_[piece.owner.value].work_ns += piece.home_ns;
    }
  }
}

/// All rows with their owners, but for those of open columns.
void Board::fill_column(int64_t column, std::span<const Column> open) {
  const Text& text = text_of(column);
  for (int64_t p = text.first_piece; p < text.end_piece; ++p) {
    const HomePiece& piece = pieces_[p];
    int64_t cut = piece.rows.end();
    const auto first = std::lower_bound(open.begin(), open.end(), p,
                                        [](const Column& other, int64_t wanted) { return other.piece < wanted; });
    for (auto it = first; it != open.end() && it->piece == p; ++it)
      if (it->kv_head == kv_head_of(column)) cut = std::min(cut, it->rows.begin);
    const Range kept{piece.rows.begin, cut - piece.rows.begin};
    const Range leaves{cut, piece.rows.end() - cut};
    if (kept.length > 0) {
      slices_[column].push_back({p, kept, piece.owner, work(p, kept, piece.owner)});
      tallies_[piece.owner.value].work_ns += slices_[column].back().work_ns;
    }
    if (leaves.length > 0) slices_[column].push_back({p, leaves, nobody, work(p, leaves, nobody)});
  }
  for (int64_t p = text.first_piece; p < text.end_piece; ++p)
    set_need(column, pieces_[p].owner, needed_keys(column, pieces_[p].owner));
}

int64_t Board::work(int64_t piece, Range rows, MemberId member) const {
  const int64_t entry = member == pieces_[piece].owner ? entry_work(*pool_) : 0;
  return std::max<int64_t>(0, rows_work(*pool_, pieces_[piece], rows, 1) - entry);
}

bool Board::are_near(MemberId a, MemberId b) const {
  return pool_->nodes.empty() || pool_->nodes[a.value] == pool_->nodes[b.value];
}

/// Where bytes are capped, rows that nobody has taken may fall back to their owner, so it keeps room for their keys.
Range Board::needed_keys(int64_t column, MemberId member) const {
  const bool reserve = pool_->exchange_bytes != no_limit;
  Range keys;
  for (const Slice& slice : slices_[column]) {
    const bool may_return = reserve && slice.member == nobody && pieces_[slice.piece].owner == member;
    if (slice.member == member || may_return)
      keys = hull(keys, visible_keys(pool_->mask, slice.rows, text_of(column).length_tokens));
  }
  return keys;
}

void Board::set_need(int64_t column, MemberId member, Range keys) {
  auto& needs = needs_[column];
  auto need = std::find_if(needs.begin(), needs.end(), [&](const Need& other) { return other.member == member; });
  const Range before = need == needs.end() ? Range{} : need->keys;
  if (before == keys) return;
  const Text& text = text_of(column);
  for (int64_t p = text.first_piece; p < text.end_piece; ++p) {
    const MemberId owner = pieces_[p].owner;
    const int64_t more = overlap(pieces_[p].rows, keys) - overlap(pieces_[p].rows, before);
    if (owner == member || more == 0) continue;
    const int64_t traffic = more * key_ps(owner, member);
    tallies_[member.value].traffic_ps += traffic;
    tallies_[owner.value].traffic_ps += traffic;
    tallies_[member.value].key_bytes += more * held_row_bytes(*pool_);
  }
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

void Board::add_queries(const HomePiece& piece, MemberId member, int64_t rows) {
  if (member == nobody || member == piece.owner) return;
  const int64_t traffic = rows * query_ps(piece.owner, member);
  tallies_[member.value].traffic_ps += traffic;
  tallies_[piece.owner.value].traffic_ps += traffic;
}

Gain Board::gain(int64_t column, int64_t piece, Range rows, MemberId member) const {
  const Text& text = text_of(column);
  const auto need = std::find_if(needs_[column].begin(), needs_[column].end(),
                                 [&](const Need& other) { return other.member == member; });
  const Range before = need == needs_[column].end() ? Range{} : need->keys;
  const Range keys = hull(before, visible_keys(pool_->mask, rows, text.length_tokens));
  Gain gain;
  const MemberId home = pieces_[piece].owner;
  if (member != home) gain.traffic_ps = 2 * rows.length * query_ps(home, member);
  if (keys == before) return gain;
  const bool stranger = pool_->nodes.empty() && member.value / pool_->cp != text.replica_in_pool;
  if (stranger) {
    gain.traffic_ps += 2 * (keys.length - before.length) * key_row_ps_[0];
    gain.key_bytes = (keys.length - before.length) * held_row_bytes(*pool_);
    return gain;
  }
  for (int64_t p = text.first_piece; p < text.end_piece; ++p) {
    if (pieces_[p].owner == member) continue;
    const int64_t more = overlap(pieces_[p].rows, keys) - overlap(pieces_[p].rows, before);
    gain.traffic_ps += 2 * more * key_ps(pieces_[p].owner, member);
    gain.key_bytes += more * held_row_bytes(*pool_);
  }
  return gain;
}

const Slice& Board::slice_at(int64_t column, int64_t row) const {
  const auto above = std::upper_bound(slices_[column].begin(), slices_[column].end(), row,
                                      [](int64_t wanted, const Slice& slice) { return wanted < slice.rows.begin; });
  return *(above - 1);
}

void Board::give(int64_t column, Range rows, MemberId to) {
  auto& slices = slices_[column];
  const int64_t index = &slice_at(column, rows.begin) - slices.data();
  const Slice whole = slices[index];
  EQ_DEBUG_ASSERT(whole.rows.begin <= rows.begin && rows.end() <= whole.rows.end());
  const HomePiece& piece = pieces_[whole.piece];
  std::array<Slice, 3> parts;
  int64_t count = 0;
  const auto add_part = [&](int64_t begin, int64_t end, MemberId member) {
    if (begin == end) return;
    const Range part{begin, end - begin};
    parts[count++] = {whole.piece, part, member, work(whole.piece, part, member)};
    if (member != nobody) tallies_[member.value].work_ns += parts[count - 1].work_ns;
  };
  if (whole.member != nobody) tallies_[whole.member.value].work_ns -= whole.work_ns;
  add_part(whole.rows.begin, rows.begin, whole.member);
  add_part(rows.begin, rows.end(), to);
  add_part(rows.end(), whole.rows.end(), whole.member);
  slices[index] = parts[0];
  slices.insert(slices.begin() + index + 1, parts.begin() + 1, parts.begin() + count);
  join_around(column, index);
  add_queries(piece, whole.member, -rows.length);
  add_queries(piece, to, rows.length);
  if (whole.member != nobody) set_need(column, whole.member, needed_keys(column, whole.member));
  if (to != nobody) set_need(column, to, needed_keys(column, to));
  if (whole.member == nobody) set_need(column, piece.owner, needed_keys(column, piece.owner));
}

/// Joins the slices beside and at `index` that belong together; at most three were made there.
void Board::join_around(int64_t column, int64_t index) {
  auto& slices = slices_[column];
  int64_t end = std::min<int64_t>(std::ssize(slices), index + 4);
  for (int64_t i = std::max<int64_t>(1, index); i < end;) {
    Slice& left = slices[i - 1];
    const Slice& right = slices[i];
    if (left.piece != right.piece || left.member != right.member) {
      ++i;
      continue;
    }
    const Range rows = hull(left.rows, right.rows);
    const int64_t joined = work(left.piece, rows, left.member);
    if (left.member != nobody) tallies_[left.member.value].work_ns += joined - left.work_ns - right.work_ns;
    left = {left.piece, rows, left.member, joined};
    slices.erase(slices.begin() + i);
    --end;
  }
}

}  // namespace equipoise
