#include "equipoise/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "equipoise/base/errors.h"
#include "equipoise/placement/level.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Work = std::vector<int64_t>;

Grid grid(int64_t dp, int64_t pool, int64_t micro_steps = 1, DpSync dp_sync = DpSync::step) {
  return {.dp = dp, .pool = pool, .micro_steps = micro_steps, .dp_sync = dp_sync, .replica_speeds = {}};
}

/// Work of each bucket, counted from the slots alone.
Work bucket_loads(const Work& work, const std::vector<Slot>& slots, const Grid& grid) {
  Work loads(work.size() / grid.pool, 0);
  for (std::size_t s = 0; s < work.size(); ++s)
    loads[slots[s].micro_step * grid.pools() + slots[s].replica / grid.pool] += work[s];
  return loads;
}

int64_t heaviest(const Work& loads) { return *std::max_element(loads.begin(), loads.end()); }

/// What pools wait for, from the loads of the buckets alone.
int64_t waiting(const Work& loads, const Grid& grid) {
  Work pools(grid.pools(), 0);
  int64_t by_micro_step = 0;
  for (int64_t n = 0; n < grid.micro_steps; ++n) {
    const auto first = loads.begin() + n * grid.pools();
    by_micro_step += *std::max_element(first, first + grid.pools());
    for (int64_t p = 0; p < grid.pools(); ++p) pools[p] += first[p];
  }
  return grid.dp_sync == DpSync::micro_step ? by_micro_step : heaviest(pools);
}

/// The shortest wait, by trying all ways to deal sequences to buckets.
int64_t brute_force(const Work& work, const Grid& grid) {
  std::vector<int64_t> bucket_of;
  for (std::size_t s = 0; s < work.size(); ++s) bucket_of.push_back(static_cast<int64_t>(s) / grid.pool);
  int64_t best = std::accumulate(work.begin(), work.end(), int64_t{0});
  do {
    Work loads(work.size() / grid.pool, 0);
    for (std::size_t s = 0; s < work.size(); ++s) loads[bucket_of[s]] += work[s];
    best = std::min(best, waiting(loads, grid));
  } while (std::next_permutation(bucket_of.begin(), bucket_of.end()));
  return best;
}

void expect_permutation(std::vector<Slot> slots, int64_t dp) {
  std::sort(slots.begin(), slots.end());
  for (int64_t i = 0; i < static_cast<int64_t>(slots.size()); ++i) EXPECT_EQ(slots[i], (Slot{i / dp, i % dp}));
}

TEST(PlaceAsItComes, SequencesFillOneMicroStepAfterTheOther) {
  const Work work = {5, 1, 1, 1, 2, 2, 2, 2};
  const auto slots = place_as_it_comes(grid(4, 2, 2));
  EXPECT_EQ(slots, (std::vector<Slot>{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}}));
  EXPECT_EQ(measure_waiting(work, slots, grid(4, 2, 2)).work, 5 + 1 + 2 + 2);
  EXPECT_EQ(measure_waiting(work, slots, grid(4, 2, 2)).lower_bound, 5 + 1 + 1 + 1);
  EXPECT_EQ(measure_waiting(work, slots, grid(4, 2, 2, DpSync::micro_step)).work, 6 + 4);
  EXPECT_EQ(measure_waiting(work, slots, grid(4, 2, 2, DpSync::micro_step)).lower_bound, 5 + 1 + (1 + 1 + 1 + 2) / 2);
}

TEST(PlaceSequences, TheHeavyOnesGoToDifferentBuckets) {
  const auto slots = place_sequences(Work{9, 9, 1, 1}, grid(4, 2));
  EXPECT_NE(slots[0].replica / 2, slots[1].replica / 2);
  EXPECT_EQ(measure_waiting(Work{9, 9, 1, 1}, slots, grid(4, 2)).work, 10);
}

TEST(PlaceSequences, AnOrderThatCannotBeBetteredIsKept) {
  const Work work = {3, 3, 3, 3, 3, 3, 3, 3};
  EXPECT_EQ(place_sequences(work, grid(4, 2, 2)), place_as_it_comes(grid(4, 2, 2)));
}

TEST(PlaceSequences, OneHugeSequenceBoundsItsBucketWithItsLightestCompanions) {
  const Work work = {100, 7, 8, 9, 10, 11};
  const Waited waited = measure_waiting(work, place_sequences(work, grid(6, 3)), grid(6, 3));
  EXPECT_EQ(waited.lower_bound, 100 + 7 + 8);
  EXPECT_EQ(waited.work, 100 + 7 + 8);
}

TEST(PlaceSequences, SwapsFindWhatLongestFirstMisses) {
  // Longest first makes 8 + 5 + 4 and 7 + 6 + 2; the level is 16 and 16.
  const Work work = {8, 7, 6, 5, 4, 2};
  EXPECT_EQ(measure_waiting(work, place_sequences(work, grid(6, 3)), grid(6, 3)).work, 16);
}

TEST(PlaceSequences, PoolsThatMeetOncePerStepLevelTheirSums) {
  // No bucket holds more than one sequence, and 12 is alone in its own; the other micro-step makes up for it.
  const Work work = {12, 6, 6, 0};
  EXPECT_EQ(measure_waiting(work, place_sequences(work, grid(2, 1, 2)), grid(2, 1, 2)).work, 12);
}

/// Work of each replica over the whole step.
Work replica_loads(const Work& work, const std::vector<Slot>& slots, const Grid& grid) {
  Work loads(grid.dp, 0);
  for (std::size_t s = 0; s < work.size(); ++s) loads[slots[s].replica] += work[s];
  return loads;
}

TEST(PlaceSequences, ReplicasOfAPoolAreLevelledAndTheirHeavyOnesMeet) {
  // One pool: what it waits for is given, so the replicas decide. Their heaviest run in the first micro-step.
  const Work work = {1, 9, 2, 8, 3, 7, 5, 5};
  const Grid one = grid(2, 2, 4);
  const auto slots = place_sequences(work, one);
  EXPECT_EQ(replica_loads(work, slots, one), (Work{20, 20}));
  EXPECT_EQ(slots[1].micro_step, 0);
  EXPECT_EQ(slots[3].micro_step, 0);
  EXPECT_EQ(std::max(slots[0].micro_step, slots[2].micro_step), 3);
}

TEST(PlaceSequences, AFasterReplicaOfAPoolTakesMoreWork) {
  const Work work = {6, 5, 4, 3};
  Grid uneven = grid(2, 2, 2);
  uneven.replica_speeds = {500, 1000};
  EXPECT_EQ(replica_loads(work, place_sequences(work, uneven), uneven), (Work{7, 11}));
}

TEST(PlaceSequences, ReplicasOfLargePoolsWaitHardlyLongerThanPoolsOfOne) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 rng{seed};
    Work work(128);
    for (int64_t& value : work) {
      value = random_between(rng, 1000, 2000);
      while (value < 60'000 && random_between(rng, 0, 1) == 1) value += value / 2;
    }
    const Grid alone = grid(16, 1, 8);
    const int64_t least = heaviest(replica_loads(work, place_sequences(work, alone), alone));
    for (const int64_t pool : {2, 4, 8, 16}) {
      const Grid pooled = grid(16, pool, 8);
      const auto slots = place_sequences(work, pooled);
      expect_permutation(slots, 16);
      EXPECT_LE(100 * heaviest(replica_loads(work, slots, pooled)), 105 * least) << "pools of " << pool;
    }
  }
}

TEST(PlaceSequences, PoolsThatMeetInEachMicroStepRunLikeWithLike) {
  const Work work = {12, 1, 1, 12};
  const Grid waits = grid(2, 1, 2, DpSync::micro_step);
  EXPECT_EQ(measure_waiting(work, place_as_it_comes(waits), waits).work, 24);
  EXPECT_EQ(measure_waiting(work, place_sequences(work, waits), waits).work, 13);
}

TEST(PlaceSequences, AFasterPoolTakesMoreWork) {
  const Work work = {6, 5, 4, 3};
  Grid uneven = grid(2, 1, 2);
  uneven.replica_speeds = {500, 1000};  // of mean 750: 18 units of work take 9 / 0.75 = 12 at the mean speed on both
  const auto slots = place_sequences(work, uneven);
  Work pools(2, 0);
  for (std::size_t s = 0; s < work.size(); ++s) pools[slots[s].replica] += work[s];
  EXPECT_EQ(pools, (Work{7, 11}));
  EXPECT_EQ(measure_waiting(work, slots, uneven).work, 10);
}

TEST(PlaceSequences, NoWorkIsPlacedAsItComes) {
  const Waited waited = measure_waiting(Work(6, 0), place_sequences(Work(6, 0), grid(3, 3, 2)), grid(3, 3, 2));
  EXPECT_EQ(waited.work, 0);
  EXPECT_EQ(waited.lower_bound, 0);
}

TEST(PlaceSequences, WorkThatDoesNotFitIn64BitsIsRefused) {
  EXPECT_THROW(place_sequences(Work(4, int64_t{1} << 62), grid(4, 2)), InputError);
  EXPECT_THROW(place_sequences(Work{1, -1}, grid(2, 2)), InputError);
}

TEST(PlaceSequences, TheOptimumLiesBetweenBoundAndResult) {
  int64_t optimal = 0;
  constexpr uint64_t trials = 240;
  for (uint64_t seed = 0; seed < trials; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 rng{seed};
    const int64_t pool = random_between(rng, 1, 3);
    const int64_t micro_steps = pool == 3 ? 1 : random_between(rng, 1, 2);
    const Grid slots = grid(pool * random_between(rng, 1, 2), pool, micro_steps,
                            random_between(rng, 0, 1) == 0 ? DpSync::step : DpSync::micro_step);
    Work work(slots.sequences());
    for (int64_t& value : work) value = random_between(rng, 0, random_between(rng, 0, 3) == 0 ? 100 : 10);
    const auto placed = place_sequences(work, slots);
    const Waited waited = measure_waiting(work, placed, slots);
    const int64_t best = brute_force(work, slots);
    expect_permutation(placed, slots.dp);
    EXPECT_EQ(waited.work, waiting(bucket_loads(work, placed, slots), slots));
    EXPECT_LE(waited.lower_bound, best);
    EXPECT_LE(best, waited.work);
    EXPECT_LE(waited.work, measure_waiting(work, place_as_it_comes(slots), slots).work);
    optimal += waited.work == best ? 1 : 0;
  }
  EXPECT_GE(optimal, trials * 9 / 10);
}

TEST(PlaceSequences, AHeavyTailIsSpreadOverTheBuckets) {
  // 256 sequences of work 2^10 .. 2^17, each octave half as frequent as the one below: within 0.1 % of the bound.
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 rng{seed};
    Work work(256);
    for (int64_t& value : work) {
      int64_t octave = 10;
      while (octave < 16 && random_between(rng, 0, 1) == 1) ++octave;
      value = random_between(rng, int64_t{1} << octave, (int64_t{2} << octave) - 1);
    }
    const Grid slots = grid(64, 8, 4);
    const auto placed = place_sequences(work, slots);
    const Waited waited = measure_waiting(work, placed, slots);
    expect_permutation(placed, 64);
    EXPECT_LE(1000 * waited.work, 1001 * waited.lower_bound);
    EXPECT_EQ(placed, place_sequences(work, slots));
  }
}

TEST(LevelGroups, SwapsNeverMakeAnyTurnWaitLonger) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 rng{seed};
    Work work(24);
    for (int64_t& value : work) value = random_between(rng, 0, 1000);
    std::vector<SequenceGroup> groups(6);
    for (int64_t g = 0; g < 6; ++g) groups[g] = {.members = {}, .speed_ppm = ppm_one + g % 2 * 300'000, .turn = g / 3};
    std::vector<int64_t> ids(work.size());
    std::iota(ids.begin(), ids.end(), 0);
    fill_longest_first(work, ids, 4, groups);
    for (int64_t last = waited(groups); level_groups(work, groups, 1) == 1; last = waited(groups))
      ASSERT_LE(waited(groups), last);
    Work loads(6, 0);
    for (int64_t g = 0; g < 6; ++g) {
      EXPECT_EQ(groups[g].members.size(), 4u);
      for (const int64_t member : groups[g].members) loads[g] += work[member];
      EXPECT_EQ(loads[g], groups[g].work);
    }
  }
}

}  // namespace
}  // namespace equipoise
