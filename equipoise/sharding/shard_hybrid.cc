// Hybrid sharding: a short document on one rank needs no exchange and wastes no kernel tiles; a long one must be cut,
// or its rank would be late, and is cut between whole row blocks of the kernel. What is long depends on the mix, so
// several bounds are tried and judged by the predicted time of the slowest rank.

#include <algorithm>
#include <tuple>

#include "equipoise/cost/cost.h"
#include "equipoise/sharding/rules.h"
#include "equipoise/sharding/sharding.h"

namespace equipoise {
namespace {

/// How a candidate treats segments.
struct Cut {
  int64_t whole_tokens = 0;  ///< segments up to this stay whole where they can
  bool over_all = false;     ///< longer ones go over all ranks, not over the fewest
};

/// A sharding and the predicted time of its slowest rank.
struct Timed {
  Sharding sharding;
  int64_t slowest_ns = 0;
};

/// Zigzag in whole row blocks: each place owns one early and one late run of them, and as many blocks as the others
/// within one. In order of the text; its last block may be short.
std::vector<DealtRange> deal_blocks(int64_t tokens, int64_t places, int64_t block_tokens) {
  const int64_t blocks = ceil_div(tokens, block_tokens);
  std::vector<DealtRange> ranges;
  int64_t begin = 0;
  const auto deal = [&](int64_t place, bool early) {
    const int64_t of_place = blocks / places + (place < blocks % places ? 1 : 0);
    const int64_t run = early ? of_place / 2 : of_place - of_place / 2;
    const int64_t end = std::min(tokens, begin + run * block_tokens);
    if (end > begin) ranges.push_back({{begin, end - begin}, place});
    begin = end;
  };
  for (int64_t place = 0; place < places; ++place) deal(place, true);
  for (int64_t place = places - 1; place >= 0; --place) deal(place, false);
  return ranges;
}

bool fits(const std::vector<DealtRange>& ranges, const std::vector<RankRoom*>& ranks) {
  std::vector<int64_t> rooms;
  for (const RankRoom* rank : ranks) rooms.push_back(rank->room_tokens);
  for (const DealtRange& range : ranges) rooms[range.place] -= range.tokens.length;
  return std::all_of(rooms.begin(), rooms.end(), [](int64_t room) { return room >= 0; });
}

/// Cuts a segment zigzag over the fewest ranks, `least` or more, whose rooms hold it: in whole blocks where they can,
/// else in equal chunks. False where no number of ranks holds a zigzag.
bool place_zigzag(Deal& deal, int64_t segment, int64_t least, int64_t block_tokens) {
  std::vector<RankRoom*> ranks;
  for (RankRoom& rank : deal.ranks) ranks.push_back(&rank);
  std::sort(ranks.begin(), ranks.end(), [](const RankRoom* a, const RankRoom* b) {
    return std::tuple(-a->room_tokens, a->work, a->cp_rank) < std::tuple(-b->room_tokens, b->work, b->cp_rank);
  });
  const int64_t tokens = deal.sequence.segments[segment].length_tokens;
  for (int64_t count = least; count <= std::ssize(ranks); ++count) {
    std::vector<DealtRange> ranges = deal_blocks(tokens, count, block_tokens);
    if (!fits(ranges, ranks)) ranges = deal_zigzag(tokens, count, 0);
    if (!fits(ranges, ranks)) continue;
    for (const DealtRange& range : ranges) give_rows(deal, segment, range.tokens, *ranks[range.place]);
    return true;
  }
  return false;
}

std::vector<ShardPiece> cut_long_ones(const PlanInputs& inputs, const Sequence& sequence, const Cut& cut) {
  const int64_t cp = inputs.mesh.cp;
  Deal deal = begin_deal(sequence, cp,
                         [&](Range rows, int64_t length_tokens) { return rows_work_ns(inputs, rows, length_tokens); });
  for (const int64_t segment : longest_segments(sequence)) {
    const int64_t tokens = sequence.segments[segment].length_tokens;
    const int64_t least = cut.over_all ? cp : std::min(cp, ceil_div(tokens, cut.whole_tokens));
    const bool is_long = tokens > cut.whole_tokens;
    if (!is_long || !place_zigzag(deal, segment, least, inputs.cost.attention.tile_rows))
      place_contiguous(deal, segment);
  }
  return merged(std::move(deal.pieces));
}

Timed timed(const PlanInputs& inputs, const Sequence& sequence, Sharding sharding) {
  const int64_t ns = slowest_rank_ns(inputs, sequence, sharding);
  return {std::move(sharding), ns};
}

/// The faster of two; ties to the first.
Timed faster(Timed a, Timed b) { return b.slowest_ns < a.slowest_ns ? std::move(b) : std::move(a); }

/// The faster zigzag; ties to the one of the sequence.
Timed best_zigzag(const PlanInputs& inputs, const Sequence& sequence) {
  const auto zigzag = [&](ShardingRule rule) {
    return timed(inputs, sequence, shard_sequence(rule, sequence, inputs.mesh.cp));
  };
  return faster(zigzag(ShardingRule::sequence_zigzag), zigzag(ShardingRule::document_zigzag));
}

/// The fastest cut. A rank's share, and a half and a quarter of it, bound what stays whole.
Timed best_cut(const PlanInputs& inputs, const Sequence& sequence) {
  Timed best{{}, no_limit};
  for (const int64_t parts : {1, 2, 4})
    for (const bool over_all : {false, true}) {
      const Cut cut{std::max<int64_t>(1, sequence.tokens() / (inputs.mesh.cp * parts)), over_all};
      Sharding sharding{ShardingRule::hybrid, cut_long_ones(inputs, sequence, cut)};
      best = faster(std::move(best), timed(inputs, sequence, std::move(sharding)));
    }
  return best;
}

}  // namespace

int64_t slowest_rank_ns(const PlanInputs& inputs, const Sequence& sequence, const Sharding& sharding) {
  std::vector<int64_t> ranks(inputs.mesh.cp, 0);
  for (const ShardPiece& piece : sharding.pieces)
    ranks[piece.cp_rank] +=
        rows_work_ns(inputs, {piece.begin_tokens, piece.length_tokens}, sequence.segments[piece.segment].length_tokens);
  return *std::max_element(ranks.begin(), ranks.end());
}

Sharding shard_hybrid(const PlanInputs& inputs, const Sequence& sequence) {
  Sharding sharding = faster(best_cut(inputs, sequence), best_zigzag(inputs, sequence)).sharding;
  sharding.rule = ShardingRule::hybrid;
  return sharding;
}

Sharding shard_adaptive(const PlanInputs& inputs, const Sequence& sequence) {
  return faster(best_zigzag(inputs, sequence), best_cut(inputs, sequence)).sharding;
}

}  // namespace equipoise
