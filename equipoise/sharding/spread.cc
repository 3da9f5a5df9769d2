// A segment that all of a pool computes is sent by its owners: the more ranks own it, the less each sends. Its early
// rows are sent as keys to everybody, its late ones as queries; a rank that owns some of both sends about the average.

#include "equipoise/sharding/spread.h"

#include <algorithm>
#include <numeric>

#include "equipoise/sharding/rules.h"

namespace equipoise {
namespace {

/// Even shares of `tokens` within the rooms, by rank: ranks with the least room first.
std::vector<int64_t> even_shares(const Deal& deal, int64_t tokens) {
  std::vector<int64_t> order(deal.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(deal.ranks[a].room_tokens, a) < std::pair(deal.ranks[b].room_tokens, b);
  });
  std::vector<int64_t> shares(order.size());
  auto left = static_cast<int64_t>(order.size());
  for (const int64_t rank : order) {
    shares[rank] = std::min(deal.ranks[rank].room_tokens, tokens / left);
    tokens -= shares[rank];
    --left;
  }
  return shares;
}

/// How often the ranks take a range each, and whether every other time they do so from the last rank to the first.
std::pair<int64_t, bool> passes_of(Ranges ranges) {
  switch (ranges) {
    case Ranges::one: return {1, false};
    case Ranges::cyclic: return {2, false};
    case Ranges::mirrored: return {2, true};
    case Ranges::woven: return {4, true};
  }
  return {1, false};
}

void place_spread(Deal& deal, int64_t segment, Ranges ranges) {
  const auto [passes, turns] = passes_of(ranges);
  const auto cp = std::ssize(deal.ranks);
  auto left = even_shares(deal, deal.sequence.segments[segment].length_tokens);
  int64_t begin = 0;
  for (int64_t pass = 0; pass < passes; ++pass)
    for (int64_t i = 0; i < cp; ++i) {
      const int64_t rank = turns && pass % 2 == 1 ? cp - 1 - i : i;
      const int64_t length = left[rank] / (passes - pass);
      if (length > 0) give_rows(deal, segment, {begin, length}, deal.ranks[rank]);
      begin += length;
      left[rank] -= length;
    }
}

}  // namespace

Sharding shard_spread(const Sequence& sequence, int64_t cp, const SpreadRule& spread) {
  Deal deal =
      begin_deal(sequence, cp, [](Range rows, int64_t length) { return attention_pairs(Mask{}, rows, length); });
  const int64_t tokens = sequence.tokens();
  int64_t left = spread.segments;
  for (const int64_t segment : longest_segments(sequence)) {
    if (left > 0 && sequence.segments[segment].length_tokens * cp > tokens)
      place_spread(deal, segment, spread.ranges);
    else
      place_contiguous(deal, segment);
    --left;
  }
  return {ShardingRule::contiguous, merged(std::move(deal.pieces))};
}

}  // namespace equipoise
