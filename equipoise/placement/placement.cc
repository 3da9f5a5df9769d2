// Longest processing time first with exact cardinality, then swaps. The step's sequences are the same, only where and
// when they run changes. What is levelled is what replicas wait for: a pool's whole step, or each micro-step.

#include "equipoise/placement/placement.h"

#include <algorithm>
#include <numeric>

#include "equipoise/base/errors.h"
#include "equipoise/placement/level.h"

namespace equipoise {
namespace {

constexpr int64_t swaps_of_a_step = 512;

int64_t sum(std::span<const int64_t> values) {
  int64_t total = 0;
  for (const int64_t value : values)
    if (value < 0 || __builtin_add_overflow(total, value, &total))
      throw InputError("the work of a step is negative or does not fit in 64 bits", "placement", "give smaller costs");
  return total;
}

/// Speed of each pool over the mean speed.
std::vector<int64_t> relative_speeds(const Grid& grid) {
  if (grid.pool_speeds.empty()) return std::vector<int64_t>(grid.pools(), ppm_one);
  const int64_t total = sum(grid.pool_speeds);
  std::vector<int64_t> speeds;
  for (const int64_t speed : grid.pool_speeds)
    speeds.push_back(std::max<int64_t>(1, mul_div(speed, grid.pools() * ppm_one, total)));
  return speeds;
}

/// The buckets in order (micro_step, pool); those of a micro-step take turns together.
std::vector<SequenceGroup> empty_buckets(const Grid& grid) {
  const std::vector<int64_t> speeds = relative_speeds(grid);
  std::vector<SequenceGroup> buckets;
  for (int64_t b = 0; b < grid.micro_steps * grid.pools(); ++b)
    buckets.push_back({.members = {}, .speed_ppm = speeds[b % grid.pools()], .turn = b / grid.pools()});
  return buckets;
}

std::vector<int64_t> all_sequences(const Grid& grid) {
  std::vector<int64_t> ids(grid.sequences());
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// Pools wait once a step: level their sums, then let each pool level its micro-steps, so that memory and pipelines see
/// like sequences too.
std::vector<SequenceGroup> level_steps(std::span<const int64_t> work, const Grid& grid) {
  std::vector<SequenceGroup> pools;
  for (const int64_t speed : relative_speeds(grid)) pools.push_back({.members = {}, .speed_ppm = speed});
  fill_longest_first(work, all_sequences(grid), grid.pool * grid.micro_steps, pools);
  level_groups(work, pools, swaps_of_a_step);
  std::vector<SequenceGroup> buckets = empty_buckets(grid);
  for (int64_t p = 0; p < grid.pools(); ++p) {
    std::vector<SequenceGroup> own(grid.micro_steps);
    fill_longest_first(work, pools[p].members, grid.pool, own);
    level_groups(work, own, swaps_of_a_step / grid.pools());
    for (int64_t n = 0; n < grid.micro_steps; ++n) buckets[n * grid.pools() + p].members = std::move(own[n].members);
  }
  return buckets;
}

/// Levels all buckets, then lets those of a pool run by falling time, so that slow ones meet.
std::vector<SequenceGroup> slow_ones_meet(std::span<const int64_t> work, const Grid& grid) {
  std::vector<SequenceGroup> buckets = empty_buckets(grid);
  for (SequenceGroup& bucket : buckets) bucket.turn = 0;
  fill_longest_first(work, all_sequences(grid), grid.pool, buckets);
  level_groups(work, buckets, swaps_of_a_step);
  for (int64_t p = 0; p < grid.pools(); ++p) {
    std::vector<SequenceGroup> own;
    for (int64_t n = 0; n < grid.micro_steps; ++n) own.push_back(std::move(buckets[n * grid.pools() + p]));
    std::sort(own.begin(), own.end(), [](const SequenceGroup& a, const SequenceGroup& b) {
      return std::pair(-a.work, a.members.front()) < std::pair(-b.work, b.members.front());
    });
    for (int64_t n = 0; n < grid.micro_steps; ++n) {
      own[n].turn = n;
      buckets[n * grid.pools() + p] = std::move(own[n]);
    }
  }
  return buckets;
}

/// The heaviest sequences run in the first micro-step, the next ones in the second: what an outlier needs.
std::vector<SequenceGroup> heavy_ones_meet(std::span<const int64_t> work, const Grid& grid) {
  std::vector<int64_t> falling = all_sequences(grid);
  std::sort(falling.begin(), falling.end(),
            [&](int64_t a, int64_t b) { return std::pair(-work[a], a) < std::pair(-work[b], b); });
  std::vector<SequenceGroup> buckets = empty_buckets(grid);
  for (int64_t n = 0; n < grid.micro_steps; ++n) {
    const auto first = buckets.begin() + n * grid.pools();
    std::vector<SequenceGroup> turn(first, first + grid.pools());
    fill_longest_first(work, {falling.begin() + n * grid.dp, falling.begin() + (n + 1) * grid.dp}, grid.pool, turn);
    std::move(turn.begin(), turn.end(), first);
  }
  return buckets;
}

/// Pools wait at each micro-step: start from the better of two orders, and fill the time that is waited anyway.
std::vector<SequenceGroup> level_micro_steps(std::span<const int64_t> work, const Grid& grid) {
  std::vector<SequenceGroup> level = slow_ones_meet(work, grid);
  std::vector<SequenceGroup> falling = heavy_ones_meet(work, grid);
  level_groups(work, level, swaps_of_a_step);
  level_groups(work, falling, swaps_of_a_step);
  return waited(falling) < waited(level) ? falling : level;
}

/// Within a bucket, sequences keep the order of their ids.
std::vector<Slot> slots_of(std::vector<SequenceGroup> buckets, const Grid& grid) {
  std::vector<Slot> slots(grid.sequences());
  for (int64_t b = 0; b < static_cast<int64_t>(buckets.size()); ++b) {
    std::vector<int64_t>& members = buckets[b].members;
    std::sort(members.begin(), members.end());
    for (int64_t r = 0; r < grid.pool; ++r) slots[members[r]] = {b / grid.pools(), b % grid.pools() * grid.pool + r};
  }
  return slots;
}

int64_t waited_for(std::span<const int64_t> work, const Grid& grid, const std::vector<Slot>& slots) {
  std::vector<SequenceGroup> groups = empty_buckets(grid);
  if (grid.dp_sync == DpSync::step) groups.resize(grid.pools());
  for (size_t s = 0; s < slots.size(); ++s) {
    const int64_t pool = slots[s].replica / grid.pool;
    groups[grid.dp_sync == DpSync::step ? pool : slots[s].micro_step * grid.pools() + pool].work += work[s];
  }
  return waited(groups);
}

/// The heaviest sequence runs with companions, at best with the lightest of all on the fastest pool. Where pools wait
/// at each micro-step, its own holds at most the dp heaviest sequences, and the others last at least the mean of the
/// rest.
int64_t bound_on_waiting(std::span<const int64_t> work, const Grid& grid) {
  if (work.empty()) return 0;
  const int64_t mean = ceil_div(sum(work), grid.pools());
  std::vector<int64_t> rising(work.begin(), work.end());
  std::sort(rising.begin(), rising.end());
  const bool by_step = grid.dp_sync == DpSync::step;
  const int64_t companions = (by_step ? grid.pool * grid.micro_steps : grid.pool) - 1;
  const int64_t heaviest = rising.back() + sum(std::span(rising).first(companions));
  const std::vector<int64_t> speeds = relative_speeds(grid);
  const int64_t fastest = *std::max_element(speeds.begin(), speeds.end());
  int64_t alone = mul_div(heaviest, ppm_one, fastest);
  if (!by_step) alone += sum(std::span(rising).first(rising.size() - grid.dp)) / grid.pools();
  return std::max(mean, alone);
}

}  // namespace

Waited measure_waiting(std::span<const int64_t> work, const std::vector<Slot>& slots, const Grid& grid) {
  EQ_ASSERT(work.size() == slots.size());
  const int64_t lower_bound = bound_on_waiting(work, grid);
  return {.work = waited_for(work, grid, slots), .lower_bound = lower_bound};
}

std::vector<Slot> place_as_it_comes(const Grid& grid) {
  EQ_ASSERT(grid.pool > 0 && grid.dp > 0 && grid.dp % grid.pool == 0);
  std::vector<Slot> slots;
  for (int64_t j = 0; j < grid.sequences(); ++j) slots.push_back({j / grid.dp, j % grid.dp});
  return slots;
}

std::vector<Slot> place_sequences(std::span<const int64_t> work, const Grid& grid) {
  EQ_ASSERT(static_cast<int64_t>(work.size()) == grid.sequences());
  const std::vector<Slot> arrival = place_as_it_comes(grid);
  const int64_t waits = measure_waiting(work, arrival, grid).work;
  const std::vector<Slot> placed =
      slots_of(grid.dp_sync == DpSync::step ? level_steps(work, grid) : level_micro_steps(work, grid), grid);
  return waited_for(work, grid, placed) < waits ? placed : arrival;
}

}  // namespace equipoise
