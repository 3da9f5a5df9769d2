#pragma once

#include <span>
#include <vector>

#include "equipoise/model/slot.h"

namespace equipoise {

/// Where the sequences of a step run, and how good that is.
struct Placement {
  std::vector<Slot> slots;  ///< by sequence: a permutation of the N x dp slots
  int64_t heaviest = 0;     ///< work of the heaviest bucket
  int64_t lower_bound = 0;  ///< no placement has a lighter heaviest bucket
};

/// Sequence j runs at micro-step j / dp on replica j % dp.
Placement place_as_it_comes(std::span<const int64_t> work, int64_t dp, int64_t pool);

/// Places M sequences into N x dp slots so that the heaviest bucket is light: longest processing time first with exact
/// cardinality.
///
/// work       attention work of each sequence, any unit, M entries >= 0; M is a multiple of dp, dp of pool
/// Guarantee  never worse than as it comes; equal to it where it cannot be bettered. Ties go to the lower sequence id,
///            then to the lower bucket.
/// Bound      the largest of ceil(mean), and the heaviest sequence plus the pool - 1 lightest
/// Cost       O(M log M)
/// Errors     InputError if the work is negative or its sum passes 64 bits
/// Source     Libra, variance-reduced sequence placement
Placement place_sequences(std::span<const int64_t> work, int64_t dp, int64_t pool);

}  // namespace equipoise
