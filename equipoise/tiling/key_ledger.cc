#include "equipoise/tiling/key_ledger.h"

#include <algorithm>

namespace equipoise {
namespace {

/// Sorted disjoint ranges that cover the same tokens.
std::vector<Range> merge_ranges(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end())
      merged.back().length = std::max(merged.back().end(), range.end()) - merged.back().begin;
    else
      merged.push_back(range);
  }
  return merged;
}

int64_t count_tokens(std::span<const Range> ranges) {
  int64_t tokens = 0;
  for (const Range& range : ranges) tokens += range.length;
  return tokens;
}

void append_overlaps(std::span<const Range> ranges, Range with, std::vector<Range>& overlaps) {
  for (const Range& range : ranges) {
    const int64_t begin = std::max(range.begin, with.begin);
    const int64_t end = std::min(range.end(), with.end());
    if (begin < end) overlaps.push_back({begin, end - begin});
  }
}

}  // namespace

KeyLedger::KeyLedger(const PooledTiling& pool, std::span<const HomePiece> pieces)
    : foreign_home_keys_(pool.shardings.size() * pool.cp, 0) {
  std::map<std::array<int64_t, 3>, std::vector<Range>> owned;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const HomePiece& piece = pieces[i];
    if (piece.rows.length == piece.length_tokens) continue;
    const std::array key = {piece.owner.value, piece.replica_in_pool, piece.segment};
    owned[key].push_back(piece.rows);
    home_[key].push_back(piece.rows);
    if (piece.kept.length > 0) home_[key].push_back(visible_keys(pool.mask, piece.kept, piece.length_tokens));
  }
  for (auto& [key, ranges] : home_) {
    ranges = merge_ranges(std::move(ranges));
    foreign_home_keys_[key[0]] += count_tokens(ranges) - count_tokens(owned[key]);
  }
}

int64_t KeyLedger::missing_keys(MemberId member, const HomePiece& piece, int64_t kv_head, Range keys) const {
  std::vector<Range> present;
  const auto home = home_.find({member.value, piece.replica_in_pool, piece.segment});
  if (home != home_.end()) append_overlaps(home->second, keys, present);
  const auto guest = guest_.find({member.value, piece.replica_in_pool, piece.segment, kv_head});
  if (guest != guest_.end()) append_overlaps(guest->second, keys, present);
  return present.empty() ? keys.length : keys.length - count_tokens(merge_ranges(std::move(present)));
}

void KeyLedger::add_keys(MemberId member, const HomePiece& piece, int64_t kv_head, Range keys) {
  auto& ranges = guest_[{member.value, piece.replica_in_pool, piece.segment, kv_head}];
  ranges.push_back(keys);
  ranges = merge_ranges(std::move(ranges));
}

}  // namespace equipoise
