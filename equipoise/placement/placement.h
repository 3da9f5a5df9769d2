#pragma once

#include <span>
#include <vector>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/slot.h"

namespace equipoise {

/// The slots of a step, and what pools wait for.
struct Grid {
  int64_t dp = 1;
  int64_t pool = 1;         ///< P replicas; divides dp
  int64_t micro_steps = 1;  ///< N
  DpSync dp_sync = DpSync::step;
  std::vector<int64_t> replica_speeds;  ///< by replica, any unit; empty: all alike

  int64_t pools() const { return dp / pool; }
  int64_t sequences() const { return dp * micro_steps; }
};

/// What pools wait for in a placement, and at least in any other.
struct Waited {
  int64_t work = 0;  ///< at the mean speed: dp_sync step: of the slowest pool, its micro-steps summed; micro_step: of
                     ///< the slowest pool at each micro-step, summed
  int64_t lower_bound = 0;  ///< the largest of the mean, and the heaviest sequence with the lightest companions
};

/// Measures a placement. `work` is by sequence, any unit, M entries >= 0; a pool shares the work of its sequences at
/// each micro-step. Cost: O(M log M). Errors: InputError if the work is negative or its sum passes 64 bits.
Waited measure_waiting(std::span<const int64_t> work, const std::vector<Slot>& slots, const Grid& grid);

/// Sequence j runs at micro-step j / dp on replica j % dp.
std::vector<Slot> place_as_it_comes(const Grid& grid);

/// Places M sequences into N x dp slots so that pools wait little for each other: longest processing time first with
/// exact cardinality, then swaps.
///
/// With dp_sync step the replicas of a pool are levelled too, in the same way, and the heaviest sequences of all of
/// them meet in one micro-step, then the next: a bucket that shares no attention makes nobody wait, and one that does
/// has less to move. With micro_step only the sum of a bucket counts: its sequences go to replicas by id.
///
/// Returns    the slot of each sequence: a permutation
/// Guarantee  pools never wait longer than as it comes, and it is equal to that where neither pools nor replicas would
///            wait less. Ties go to the lower sequence id, then to the lower pool and replica
/// Cost       O(M log M) and a bounded number of swaps. Errors as measure_waiting
/// Source     Libra, variance-reduced sequence placement; swaps, and micro-steps that wait for each other, are ours
std::vector<Slot> place_sequences(std::span<const int64_t> work, const Grid& grid);

}  // namespace equipoise
