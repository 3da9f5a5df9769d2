// A segment that all of a pool computes is sent by its owners: the more ranks own it, the less each sends. Its early
// rows are sent as keys to everybody and cost their owners little work, so these compute them; its late ones are sent
// as queries. A rank that owns early rows in one range needs few keys of others for them, and one that owns some of
// both sends about the average.

#include "equipoise/sharding/spread.h"

#include <algorithm>
#include <numeric>

#include "equipoise/sharding/rules.h"

namespace equipoise {
namespace {

/// Low ranges end at row blocks, so that no run of rows touches one more.
constexpr int64_t block_tokens = 128;
/// They end by a part of so many above what their owners can compute.
constexpr int64_t low_parts = 11;

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

/// floor(sqrt(value)).
int64_t root(int64_t value) {
  int64_t low = 0;
  for (int64_t bit = int64_t{1} << 31; bit > 0; bit /= 2)
    if ((low + bit) * (low + bit) <= value) low += bit;
  return low;
}

/// Where the i-th of the low ranges ends, a row block's border.
int64_t end_of_step(Ranges ranges, int64_t low, int64_t i, int64_t cp) {
  const int64_t end = ranges == Ranges::even_steps ? low * (i + 1) / cp : root(low * low / cp * (i + 1));
  return end / block_tokens * block_tokens;
}

void place_spread(Deal& deal, int64_t segment, Ranges ranges, int64_t member_pairs) {
  const auto cp = std::ssize(deal.ranks);
  const int64_t tokens = deal.sequence.segments[segment].length_tokens;
  auto left = even_shares(deal, tokens);
  int64_t begin = 0;
  const auto give = [&](int64_t rank, int64_t length) {
    if (length > 0) give_rows(deal, segment, {begin, length}, deal.ranks[rank]);
    begin += length;
    left[rank] -= length;
  };
  if (ranges != Ranges::mirrored) {
    const int64_t low = std::min(tokens, root(2 * cp * member_pairs) * low_parts / (low_parts - 1));
    for (int64_t i = 0; i < cp; ++i) give(i, std::clamp<int64_t>(end_of_step(ranges, low, i, cp) - begin, 0, left[i]));
  }
  for (int64_t i = 0; i < cp; ++i) give(i, left[i] / 2);
  for (int64_t i = cp - 1; i >= 0; --i) give(i, left[i]);
}

}  // namespace

Sharding shard_spread(const Sequence& sequence, int64_t cp, const SpreadRule& spread, int64_t member_pairs) {
  Deal deal =
      begin_deal(sequence, cp, [](Range rows, int64_t length) { return attention_pairs(Mask{}, rows, length); });
  const int64_t tokens = sequence.tokens();
  int64_t left = spread.segments;
  for (const int64_t segment : longest_segments(sequence)) {
    if (left > 0 && sequence.segments[segment].length_tokens * cp > tokens)
      place_spread(deal, segment, spread.ranges, member_pairs);
    else
      place_contiguous(deal, segment);
    --left;
  }
  return {ShardingRule::contiguous, merged(std::move(deal.pieces))};
}

}  // namespace equipoise
