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
    if (rank.room_tokens >= tokens && (best == nullptr || rank.work_pairs < best->work_pairs)) best = &rank;
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
    return std::pair(-a.rank->work_pairs, a.rank->cp_rank) < std::pair(-b.rank->work_pairs, b.rank->cp_rank);
  });
  return shares;
}

}  // namespace

std::vector<RankRoom> empty_ranks(int64_t tokens, int64_t cp) {
  std::vector<RankRoom> ranks;
  for (int64_t r = 0; r < cp; ++r) ranks.push_back({r, tokens / cp + (r < tokens % cp ? 1 : 0), 0});
  return ranks;
}

std::vector<int64_t> longest_segments(const Sequence& sequence) {
  std::vector<int64_t> order(sequence.segments.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(-sequence.segments[a].length_tokens, a) < std::pair(-sequence.segments[b].length_tokens, b);
  });
  return order;
}

void give_rows(const Sequence& sequence, int64_t segment, Range rows, RankRoom& rank, std::vector<ShardPiece>& pieces) {
  pieces.push_back({segment, rows.begin, rows.length, rank.cp_rank});
  rank.room_tokens -= rows.length;
  rank.work_pairs += attention_pairs(Mask{}, rows, sequence.segments[segment].length_tokens);
}

void place_contiguous(const Sequence& sequence, int64_t segment, std::vector<RankRoom>& ranks,
                      std::vector<ShardPiece>& pieces) {
  const int64_t tokens = sequence.segments[segment].length_tokens;
  if (RankRoom* rank = rank_with_room(ranks, tokens); rank != nullptr) {
    give_rows(sequence, segment, {0, tokens}, *rank, pieces);
    return;
  }
  int64_t begin = 0;
  for (const Share& share : even_shares(fewest_ranks(ranks, tokens), tokens)) {
    give_rows(sequence, segment, {begin, share.tokens}, *share.rank, pieces);
    begin += share.tokens;
  }
}

std::vector<ShardPiece> shard_contiguous(const Sequence& sequence, int64_t cp) {
  std::vector<RankRoom> ranks = empty_ranks(sequence.tokens(), cp);
  std::vector<ShardPiece> pieces;
  for (const int64_t segment : longest_segments(sequence)) place_contiguous(sequence, segment, ranks, pieces);
  return pieces;
}

}  // namespace equipoise
