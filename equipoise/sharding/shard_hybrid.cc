// Hybrid sharding: a short document on one rank needs no exchange and wastes no kernel tiles; a long one must be cut,
// or its rank would be late. What is long depends on the mix, so several bounds are tried and judged by the predicted
// time of the slowest rank.
#include <algorithm>
#include <optional>
#include <tuple>

#include "equipoise/cost/cost.h"
#include "equipoise/sharding/rules.h"
#include "equipoise/sharding/sharding.h"

namespace equipoise {
namespace {

/// The fewest ranks, or all, whose rooms hold a zigzag of `tokens` with at most `share_tokens` each; most room first.
std::optional<std::vector<RankRoom*>> zigzag_ranks(std::vector<RankRoom>& ranks, int64_t tokens, int64_t share_tokens,
                                                   bool over_all) {
  std::vector<RankRoom*> chosen;
  for (RankRoom& rank : ranks) chosen.push_back(&rank);
  std::sort(chosen.begin(), chosen.end(), [](const RankRoom* a, const RankRoom* b) {
    return std::tuple(-a->room_tokens, a->work_pairs, a->cp_rank) <
           std::tuple(-b->room_tokens, b->work_pairs, b->cp_rank);
  });
  const auto cp = static_cast<int64_t>(ranks.size());
  for (int64_t count = over_all ? cp : std::min(cp, ceil_div(tokens, share_tokens)); count <= cp; ++count) {
    const int64_t chunks = tokens / (2 * count) * 2;
    const int64_t rest = tokens - chunks * count;
    bool fits = true;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t dealt = chunks + rest / count + (i < rest % count ? 1 : 0);
      fits = fits && chosen[static_cast<size_t>(i)]->room_tokens >= dealt;
    }
    if (!fits) continue;
    chosen.resize(static_cast<size_t>(count));
    return chosen;
  }
  return std::nullopt;
}

/// Segments above `share_tokens` zigzag, all others whole where they can be.
std::vector<ShardPiece> cut_long_ones(const Sequence& sequence, int64_t cp, int64_t share_tokens, bool over_all) {
  std::vector<RankRoom> ranks = empty_ranks(sequence.tokens(), cp);
  std::vector<ShardPiece> pieces;
  for (const int64_t segment : longest_segments(sequence)) {
    const int64_t tokens = sequence.segments[static_cast<size_t>(segment)].length_tokens;
    const auto owners = tokens > share_tokens ? zigzag_ranks(ranks, tokens, share_tokens, over_all) : std::nullopt;
    if (!owners) {
      place_contiguous(sequence, segment, ranks, pieces);
      continue;
    }
    for (const DealtRange& range : deal_zigzag(tokens, static_cast<int64_t>(owners->size()), 0))
      give_rows(sequence, segment, range.tokens, *(*owners)[static_cast<size_t>(range.place)], pieces);
  }
  return pieces;
}

}  // namespace

int64_t slowest_rank_ns(const PlanInputs& inputs, const Sequence& sequence, const Sharding& sharding) {
  std::vector<int64_t> ranks(static_cast<size_t>(inputs.mesh.cp), 0);
  for (const Mask& mask : inputs.masks) {
    for (const ShardPiece& piece : sharding.pieces) {
      const int64_t length = sequence.segments[static_cast<size_t>(piece.segment)].length_tokens;
      const PassTime time = entry_time({inputs.cost, mask, inputs.heads}, {piece.begin_tokens, piece.length_tokens},
                                       length, inputs.heads.query);
      ranks[static_cast<size_t>(piece.cp_rank)] += mask.layers * time.total();
    }
  }
  return *std::max_element(ranks.begin(), ranks.end());
}

Sharding shard_hybrid(const PlanInputs& inputs, const Sequence& sequence) {
  const int64_t cp = inputs.mesh.cp;
  const int64_t share = std::max<int64_t>(1, sequence.tokens() / cp);
  Sharding best;
  int64_t best_ns = no_limit;
  const auto consider = [&](std::vector<ShardPiece> pieces) {
    Sharding candidate{ShardingRule::hybrid, merged(std::move(pieces))};
    const int64_t ns = slowest_rank_ns(inputs, sequence, candidate);
    if (ns >= best_ns) return;
    best_ns = ns;
    best = std::move(candidate);
  };
  for (const int64_t parts_of_twelve : {12, 9, 6, 4, 3, 2, 1})
    for (const bool over_all : {false, true})
      consider(cut_long_ones(sequence, cp, std::max<int64_t>(1, share * parts_of_twelve / 12), over_all));
  consider(shard_document_zigzag(sequence, cp));
  consider(shard_sequence_zigzag(sequence, cp));
  return best;
}

Sharding shard_adaptive(const PlanInputs& inputs, const Sequence& sequence) {
  std::vector<Sharding> candidates = {shard_sequence(ShardingRule::sequence_zigzag, sequence, inputs.mesh.cp),
                                      shard_sequence(ShardingRule::document_zigzag, sequence, inputs.mesh.cp),
                                      shard_hybrid(inputs, sequence)};
  return *std::min_element(candidates.begin(), candidates.end(), [&](const Sharding& a, const Sharding& b) {
    return slowest_rank_ns(inputs, sequence, a) < slowest_rank_ns(inputs, sequence, b);
  });
}

}  // namespace equipoise
