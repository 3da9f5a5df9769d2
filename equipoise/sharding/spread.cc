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

/// Gives the ranks, in this order, the next rows of the segment.
void give_ranges(Deal& deal, int64_t segment, const std::vector<int64_t>& order, const std::vector<int64_t>& lengths,
                 int64_t& begin) {
  for (const int64_t rank : order) {
    if (lengths[rank] > 0) give_rows(deal, segment, {begin, lengths[rank]}, deal.ranks[rank]);
    begin += lengths[rank];
  }
}

void place_spread(Deal& deal, int64_t segment, Ranges ranges) {
  std::vector<int64_t> order(deal.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> late = even_shares(deal, deal.sequence.segments[segment].length_tokens);
  int64_t begin = 0;
  if (ranges != Ranges::one) {
    std::vector<int64_t> early = late;
    for (std::size_t rank = 0; rank < late.size(); ++rank) late[rank] -= early[rank] /= 2;
    give_ranges(deal, segment, order, early, begin);
    if (ranges == Ranges::mirrored) std::reverse(order.begin(), order.end());
  }
  give_ranges(deal, segment, order, late, begin);
}

}  // namespace

Sharding shard_spread(const Sequence& sequence, int64_t cp, const Spread& spread) {
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
