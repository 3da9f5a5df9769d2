#pragma once

#include <vector>

#include "equipoise/packing/load.h"

namespace equipoise {

/// Items by sequence, each list longest first.
using Packed = std::vector<std::vector<Item>>;

/// Levels the sequences of a step: the slowest gives an item to another sequence, or swaps one for one or for several,
/// whatever leaves the slower of the two least slow.
///
/// Guarantee: the slowest sequence is never slower than before, caps are kept, no item is added or lost, and at most
/// `moves` changes are made. Stops when no change helps or the slowest is half a millionth above the mean, which no
/// report shows. In debug builds each change is checked: time after == time before + predicted difference. Cost of a
/// change: O(n log n) where the lightest sequence can take what is too much, as it mostly can; O(M n log n) at worst; n
/// items in a sequence. Returns the changes made.
int64_t refine_packing(Packed& packed, const Caps& caps, int64_t moves);

}  // namespace equipoise
