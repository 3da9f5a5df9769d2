#pragma once

#include <vector>

#include "equipoise/packing/refine.h"

namespace equipoise {

struct SpreadItems {
  Packed packed;           ///< by sequence
  std::vector<Item> left;  ///< found no room
};

/// Spreads items over sequences so that the slowest is as fast as we can make it: longest first, each onto the lightest
/// sequence with room, then refined with at most `moves` changes.
///
/// items  their indices rise
/// Guarantee: caps are kept; never slower than longest first alone. Cost: O(n log M) and the refinement; O(n M) at
/// worst, where caps are tight.
SpreadItems spread_items(std::vector<Item> items, int64_t sequences, const Caps& caps, int64_t moves);

}  // namespace equipoise
