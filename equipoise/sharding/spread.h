#pragma once

#include <array>

#include "equipoise/model/sequence.h"
#include "equipoise/model/shard.h"

namespace equipoise {

/// Which ranges of a segment each rank owns where it is spread over all of them.
enum class Ranges {
  one,       ///< rank i the i-th range
  cyclic,    ///< ranges i and cp + i: an early and a late one
  mirrored,  ///< ranges i and 2 cp - 1 - i
  woven,     ///< ranges i, 2 cp - 1 - i, 2 cp + i and 4 cp - 1 - i
};

/// How many of the longest segments are spread over all ranks of the context group, and how.
struct SpreadRule {
  int64_t segments = 0;
  Ranges ranges = Ranges::one;
  bool operator==(const SpreadRule&) const = default;
};

/// What a search for owners tries beside the fewest ranks that hold a segment.
inline constexpr std::array<SpreadRule, 5> spreads = {
    {{1, Ranges::one}, {1, Ranges::cyclic}, {1, Ranges::mirrored}, {1, Ranges::woven}, {2, Ranges::one}}};

/// Contiguous sharding whose longest segments, of those above a rank's share, are owned by all ranks: for a pool whose
/// busiest ranks own a giant that everybody computes. All other segments as shard_sequence() deals them; ranks own
/// equal tokens within one. With spread.segments 0 it is shard_sequence(ShardingRule::contiguous). Cost: O(segments *
/// cp).
Sharding shard_spread(const Sequence& sequence, int64_t cp, const SpreadRule& spread);

}  // namespace equipoise
