#pragma once

#include <array>

#include "equipoise/model/sequence.h"
#include "equipoise/model/shard.h"

namespace equipoise {

/// Which ranges of a segment each rank owns where it is spread over all of them.
enum class Ranges {
  mirrored,    ///< equal ranges i and 2 cp - 1 - i
  even_steps,  ///< rank i the i-th of equal low ranges, then two further ones, i and 2 cp - 1 - i, of what is left
  work_steps,  ///< the same with low ranges of equal causal work
};

/// How many of the longest segments are spread over all ranks of the context group, and how.
struct SpreadRule {
  int64_t segments = 0;
  Ranges ranges = Ranges::mirrored;
  bool operator==(const SpreadRule&) const = default;
};

/// What a search for owners tries beside the fewest ranks that hold a segment.
inline constexpr std::array<SpreadRule, 6> spreads = {{{1, Ranges::even_steps},
                                                       {1, Ranges::work_steps},
                                                       {1, Ranges::mirrored},
                                                       {2, Ranges::even_steps},
                                                       {2, Ranges::work_steps},
                                                       {2, Ranges::mirrored}}};

/// Contiguous sharding whose longest segments, of those above a rank's share, are owned by all ranks: for a pool whose
/// busiest ranks own a giant that everybody computes. All other segments as shard_sequence() deals them; ranks own
/// equal tokens within one. With spread.segments 0 it is shard_sequence(ShardingRule::contiguous).
///
/// member_pairs  causal pairs of one head that a member of the pool will compute: low ranges end a little above the row
///               up to which cp members can compute them
/// Cost: O(segments * cp).
Sharding shard_spread(const Sequence& sequence, int64_t cp, const SpreadRule& spread, int64_t member_pairs);

}  // namespace equipoise
