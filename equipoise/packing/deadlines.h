#pragma once

#include <vector>

#include "equipoise/packing/load.h"

namespace equipoise {

/// A schedule that surely keeps every deadline: which step and sequence each waiting piece goes to at the latest.
struct SafeSchedule {
  bool keeps_deadlines = false;
  std::vector<int64_t> steps_ahead;  ///< by piece, in the order given: 0 is this step
  std::vector<int64_t> sequence;     ///< by piece
};

/// Earliest deadline first, longest first within a step's arrivals, each into the first step and sequence with room.
///
/// Steps ahead run from 0 to the bound; a piece of age a may go to steps 0 .. max_delay - a. What a step does not take
/// keeps its place when the schedule is made again in the next step without new arrivals, so whoever starts from a
/// schedule that keeps deadlines and follows it, or moves to another one that does, never breaks the bound. Requires
/// caps.max_delay_steps >= 0. Cost: O(pieces * sequences * bound) at worst; O(pieces) where all of them surely fit into
/// this step.
SafeSchedule schedule_safely(const std::vector<Waiting>& pieces, int64_t sequences, const Caps& caps, int64_t step);

}  // namespace equipoise
