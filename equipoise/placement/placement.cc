// Longest processing time first with exact cardinality, then swaps. The step's sequences are the same, only where and
// when they run changes. What is levelled is what replicas wait for: a pool's whole step, or each micro-step.

#include "equipoise/placement/placement.h"

#include <algorithm>
#include <numeric>

#include "equipoise/base/errors.h"
#include "equipoise/placement/level.h"

namespace equipoise {
namespace {

/// Swaps that levelling so many groups may take.
int64_t swap_budget(int64_t groups) { return std::max<int64_t>(512, 2 * groups); }

int64_t sum(std::span<const int64_t> values) {
  int64_t total = 0;
  for (const int64_t value : values)
    if (value < 0 || __builtin_add_overflow(total, value, &total))
      throw InputError("the work of a step is negative or does not fit in 64 bits", "placement", "give smaller costs");
  return total;
}

/// Speed of each group of `size` replicas in a row over the mean speed of the groups.
std::vector<int64_t> relative_speeds(std::span<const int64_t> replica_speeds, int64_t replicas, int64_t size) {
  const int64_t groups = replicas / size;
  if (replica_speeds.empty()) return std::vector<int64_t>(groups, ppm_one);
  const int64_t total = sum(replica_speeds);
  std::vector<int64_t> speeds;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t speed = sum(replica_speeds.subspan(g * size, size));
    speeds.push_back(std::max<int64_t>(1, mul_div(speed, groups * ppm_one, total)));
  }
  return speeds;
}

std::vector<int64_t> pool_speeds(const Grid& grid) { return relative_speeds(grid.replica_speeds, grid.dp, grid.pool); }

/// Speed of each replica of a pool over the mean speed of these.
std::vector<int64_t> speeds_within(const Grid& grid, int64_t pool) {
  if (grid.replica_speeds.empty()) return std::vector<int64_t>(grid.pool, ppm_one);
  return relative_speeds(std::span(grid.replica_speeds).subspan(pool * grid.pool, grid.pool), grid.pool, 1);
}

/// The buckets in order (micro_step, pool); those of a micro-step take turns together.
std::vector<SequenceGroup> empty_buckets(const Grid& grid) {
  const std::vector<int64_t> speeds = pool_speeds(grid);
  std::vector<SequenceGroup> buckets;
  for (int64_t b = 0; b < grid.micro_steps * grid.pools(); ++b)
    buckets.push_back({.members = {}, .speed_ppm = speeds[b % grid.pools()], .turn = b / grid.pools()});
  return buckets;
}

std::vector<int64_t> ids_below(int64_t count) {
  std::vector<int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// A group for each of the speeds, with the given sequences dealt to them in equal numbers, levelled.
std::vector<SequenceGroup> make_level(std::span<const int64_t> work, const std::vector<int64_t>& sequences,
                                      const std::vector<int64_t>& speeds) {
  std::vector<SequenceGroup> groups;
  for (const int64_t speed : speeds) groups.push_back({.members = {}, .speed_ppm = speed});
  fill_longest_first(work, sequences, std::ssize(sequences) / std::ssize(speeds), groups);
  level_groups(work, groups, swap_budget(std::ssize(groups)));
  return groups;
}

/// The n-th heaviest sequences of all replicas meet in micro-step n.
std::vector<Slot> slots_of_replicas(const std::vector<SequenceGroup>& replicas, const Grid& grid) {
  std::vector<Slot> slots(grid.sequences());
  for (int64_t r = 0; r < grid.dp; ++r)
    for (int64_t n = 0; n < grid.micro_steps; ++n)
      slots[replicas[r].members[grid.micro_steps - 1 - n]] = {n, r};  // members rise
  return slots;
}

/// Levels the sums of pools, then those of the replicas of each.
std::vector<Slot> pools_first(std::span<const int64_t> work, const Grid& grid) {
  std::vector<SequenceGroup> replicas;
  for (const auto& pool : make_level(work, ids_below(grid.sequences()), pool_speeds(grid))) {
    const auto speeds = speeds_within(grid, std::ssize(replicas) / grid.pool);
    for (auto& replica : make_level(work, pool.members, speeds)) replicas.push_back(std::move(replica));
  }
  return slots_of_replicas(replicas, grid);
}

/// Levels the sums of all replicas, then lets heavy replicas share a pool with light ones.
std::vector<Slot> replicas_first(std::span<const int64_t> work, const Grid& grid) {
  const auto speeds = relative_speeds(grid.replica_speeds, grid.dp, 1);
  auto replicas = make_level(work, ids_below(grid.sequences()), speeds);
  if (!grid.replica_speeds.empty()) return slots_of_replicas(replicas, grid);  // each was made for its own speed
  std::vector<int64_t> sums;
  for (const SequenceGroup& replica : replicas) sums.push_back(replica.work);
  std::vector<SequenceGroup> in_pools;
  for (const auto& pool : make_level(sums, ids_below(grid.dp), pool_speeds(grid)))
    for (const int64_t replica : pool.members) in_pools.push_back(std::move(replicas[replica]));
  return slots_of_replicas(in_pools, grid);
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

/// Levels all buckets, lets those of a pool run by falling time, so that slow ones meet, and fills the time that is
/// waited anyway.
std::vector<Slot> slow_ones_meet(std::span<const int64_t> work, const Grid& grid) {
  std::vector<SequenceGroup> buckets = empty_buckets(grid);
  for (SequenceGroup& bucket : buckets) bucket.turn = 0;
  fill_longest_first(work, ids_below(grid.sequences()), grid.pool, buckets);
  level_groups(work, buckets, swap_budget(std::ssize(buckets)));
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
  level_groups(work, buckets, swap_budget(std::ssize(buckets)));
  return slots_of(std::move(buckets), grid);
}

/// The heaviest sequences run in the first micro-step, the next ones in the second: what an outlier needs.
std::vector<Slot> heavy_ones_meet(std::span<const int64_t> work, const Grid& grid) {
  std::vector<int64_t> falling = ids_below(grid.sequences());
  std::sort(falling.begin(), falling.end(),
            [&](int64_t a, int64_t b) { return std::pair(-work[a], a) < std::pair(-work[b], b); });
  std::vector<SequenceGroup> buckets = empty_buckets(grid);
  for (int64_t n = 0; n < grid.micro_steps; ++n) {
    const auto first = buckets.begin() + n * grid.pools();
    std::vector<SequenceGroup> turn(first, first + grid.pools());
    fill_longest_first(work, {falling.begin() + n * grid.dp, falling.begin() + (n + 1) * grid.dp}, grid.pool, turn);
    std::move(turn.begin(), turn.end(), first);
  }
  level_groups(work, buckets, swap_budget(std::ssize(buckets)));
  return slots_of(std::move(buckets), grid);
}

/// What pools wait for.
int64_t waited_for(std::span<const int64_t> work, const Grid& grid, const std::vector<Slot>& slots) {
  std::vector<SequenceGroup> groups = empty_buckets(grid);
  if (grid.dp_sync == DpSync::step) groups.resize(grid.pools());
  for (size_t s = 0; s < slots.size(); ++s) {
    const int64_t pool = slots[s].replica / grid.pool;
    groups[grid.dp_sync == DpSync::step ? pool : slots[s].micro_step * grid.pools() + pool].work += work[s];
  }
  return waited(groups);
}

/// What pools wait for, and what replicas would if they shared nothing.
std::pair<int64_t, int64_t> waits_of(std::span<const int64_t> work, const Grid& grid, const std::vector<Slot>& slots) {
  Grid alone = grid;
  alone.pool = 1;
  return {waited_for(work, grid, slots), waited_for(work, alone, slots)};
}

/// Of placements in which pools wait no longer than in the first, the one of least waiting, shared or not: which
/// buckets will share is not known yet, and what is waited then lies between the two. Ties go to the earlier one.
std::vector<Slot> choose(std::span<const int64_t> work, const Grid& grid, std::vector<std::vector<Slot>> placements) {
  size_t best = 0;
  const int64_t most = waits_of(work, grid, placements[0]).first;
  const auto sum_of = [&](size_t i) {
    const auto [pools, replicas] = waits_of(work, grid, placements[i]);
    return std::pair(pools > most, pools + replicas);
  };
  for (size_t i = 1; i < placements.size(); ++i)
    if (sum_of(i) < sum_of(best)) best = i;
  return std::move(placements[best]);
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
  const std::vector<int64_t> speeds = pool_speeds(grid);
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
  sum(work);  // refuses what is not work
  if (grid.dp_sync == DpSync::micro_step)
    return choose(work, grid, {place_as_it_comes(grid), slow_ones_meet(work, grid), heavy_ones_meet(work, grid)});
  if (grid.micro_steps == 1 || grid.pool == 1)  // both are the same
    return choose(work, grid, {place_as_it_comes(grid), pools_first(work, grid)});
  return choose(work, grid, {place_as_it_comes(grid), pools_first(work, grid), replicas_first(work, grid)});
}

}  // namespace equipoise
