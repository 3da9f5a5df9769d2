// Contiguous sharding keeps segments whole, so that their keys need not travel: longest first, each on the rank with
// the least attention work that has room. What fits on no rank is cut evenly into contiguous ranges over the fewest
// ranks that hold it. Rooms sum to the tokens, so all ranks end full.

#include <algorithm>
#include <numeric>

#include "equipoise/base/errors.h"
#include "equipoise/model/workload.h"
#include "equipoise/sharding/rules.h"

namespace equipoise {
namespace {

/// The rank with the least work that holds the whole segment, or null.
RankRoom* rank_with_room(std::vector<RankRoom>& ranks, int64_t tokens) {
  RankRoom* best = nullptr;
  for (RankRoom& rank : ranks)
    if (rank.room_tokens >= tokens && (best == nullptr || rank.work < best->work)) best = &rank;
  return best;
}

/// The fewest ranks whose rooms hold `tokens`, smallest room first.
std::vector<RankRoom*> fewest_ranks(std::vector<RankRoom>& ranks, int64_t tokens) {
  std::vector<RankRoom*> chosen;
  for (RankRoom& rank : ranks) chosen.push_back(&rank);
  std::sort(chosen.begin(), chosen.end(), [](const RankRoom* a, const RankRoom* b) {
    return std::pair(-a->room_tokens, a->cp_rank) < std::pair(-b->room_tokens, b->cp_rank);
  });
  std::size_t count = 0;
  for (int64_t room = 0; room < tokens; ++count) room += chosen[count]->room_tokens;
  chosen.resize(count);
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

struct Share {
  RankRoom* rank = nullptr;
  int64_t tokens = 0;
};

/// Even shares within the rooms. A later range of a document sees more keys, so the ranks with the most work take the
/// first ranges.
std::vector<Share> even_shares(const std::vector<RankRoom*>& ranks, int64_t tokens) {
  std::vector<Share> shares;
  auto left = static_cast<int64_t>(ranks.size());
  for (RankRoom* rank : ranks) {
    shares.push_back({rank, std::min(rank->room_tokens, tokens / left)});
    tokens -= shares.back().tokens;
    --left;
  }
  EQ_ASSERT(tokens == 0);
  std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
    return std::pair(-a.rank->work, a.rank->cp_rank) < std::pair(-b.rank->work, b.rank->cp_rank);
  });
  return shares;
}

}  // namespace

Deal begin_deal(const Sequence& sequence, int64_t cp, RowWork work_of) {
  Deal deal{sequence, std::move(work_of), {}, {}};
  const int64_t tokens = sequence.tokens();
  for (int64_t r = 0; r < cp; ++r) deal.ranks.push_back({r, tokens / cp + (r < tokens % cp ? 1 : 0), 0});
  return deal;
}

std::vector<int64_t> longest_segments(const Sequence& sequence) {
  std::vector<int64_t> order(sequence.segments.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(-sequence.segments[a].length_tokens, a) < std::pair(-sequence.segments[b].length_tokens, b);
  });
  return order;
}

void give_rows(Deal& deal, int64_t segment, Range rows, RankRoom& rank) {
  deal.pieces.push_back({segment, rows.begin, rows.length, rank.cp_rank});
  rank.room_tokens -= rows.length;
  rank.work += deal.work_of(rows, deal.sequence.segments[segment].length_tokens);
}

void place_contiguous(Deal& deal, int64_t segment) {
  const int64_t tokens = deal.sequence.segments[segment].length_tokens;
  if (RankRoom* rank = rank_with_room(deal.ranks, tokens); rank != nullptr) {
    give_rows(deal, segment, {0, tokens}, *rank);
    return;
  }
  int64_t begin = 0;
  for (const Share& share : even_shares(fewest_ranks(deal.ranks, tokens), tokens)) {
    give_rows(deal, segment, {begin, share.tokens}, *share.rank);
    begin += share.tokens;
  }
}

std::vector<ShardPiece> shard_contiguous(const Sequence& sequence, int64_t cp) {
  Deal deal =
      begin_deal(sequence, cp, [](Range rows, int64_t length) { return attention_pairs(Mask{}, rows, length); });
  for (const int64_t segment : longest_segments(sequence)) place_contiguous(deal, segment);
  return deal.pieces;
}

}  // namespace equipoise
