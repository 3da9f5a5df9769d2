#pragma once

#include <span>
#include <vector>

#include "equipoise/base/integers.h"

namespace equipoise {

/// Sequences that are worked off together: a pool in a step, or a bucket.
struct SequenceGroup {
  std::vector<int64_t> members;  ///< sequences; by rising work, ties by id
  int64_t work = 0;              ///< theirs, summed
  int64_t speed_ppm = ppm_one;   ///< over the mean speed
  int64_t turn = 0;              ///< groups of the same turn wait for each other

  int64_t time() const { return time_with(0); }
  /// With so much more work.
  int64_t time_with(int64_t more) const {
    return speed_ppm == ppm_one ? work + more : mul_div(work + more, ppm_one, speed_ppm);
  }
};

/// Time of the slowest group of each turn, summed.
int64_t waited(std::span<const SequenceGroup> groups);

/// Fills groups of `size` members each: sequences by falling work, each into the group of least time that has room.
/// `work` is by sequence; `sequences` are size x groups of them. Ties go to the lower id, then to the lower group.
void fill_longest_first(std::span<const int64_t> work, std::vector<int64_t> sequences, int64_t size,
                        std::vector<SequenceGroup>& groups);

/// Levels groups: the slowest of a turn swaps a sequence with another group, of its turn where the slower of the two
/// gets faster, of another turn where that one stays within what is waited for there anyway.
///
/// Guarantee: what is waited for never grows; groups keep their sizes. At most `swaps` are made, each the best of the
/// slowest group with the 64 fastest of each turn. Stops when none helps. Returns the swaps made.
int64_t level_groups(std::span<const int64_t> work, std::vector<SequenceGroup>& groups, int64_t swaps);

}  // namespace equipoise
