#include "equipoise/packing/refine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "equipoise/model/limits.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

Item item(size_t index, int64_t tokens, int64_t ns) { return {ns, tokens, index}; }

Load load_of(const std::vector<Item>& items) {
  Load load;
  for (const Item& i : items) load.add(i);
  return load;
}

int64_t slowest_of(const Packed& packed) {
  int64_t most = 0;
  for (const auto& items : packed) most = std::max(most, load_of(items).time_ns);
  return most;
}

std::vector<size_t> ids_of(const Packed& packed) {
  std::vector<size_t> ids;
  for (const auto& items : packed)
    for (const Item& i : items) ids.push_back(i.index);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Refine, MovesAnItemToALighterSequence) {
  Packed packed = {{item(0, 1, 10), item(1, 1, 6)}, {item(2, 1, 4)}};
  refine_packing(packed, {10, 10, 0}, 10);
  EXPECT_EQ(slowest_of(packed), 10);
}

TEST(Refine, SwapsOneForOneWhereNoMoveHelps) {
  Packed packed = {{item(0, 1, 9), item(1, 1, 8)}, {item(2, 1, 7), item(3, 1, 6)}};
  refine_packing(packed, {2, 10, 0}, 10);  // two tokens a sequence: no room for a move
  EXPECT_EQ(slowest_of(packed), 15);
}

TEST(Refine, SwapsOneLongItemForSeveralShortOnes) {
  Packed packed = {{item(0, 1, 20), item(1, 1, 10)}, {item(2, 1, 5), item(3, 1, 4), item(4, 1, 3)}};
  refine_packing(packed, {4, 10, 0}, 20);
  EXPECT_LE(slowest_of(packed), 22);
}

TEST(Refine, NeverSlowsKeepsCapsAndLosesNothingOnRandomPackings) {
  SplitMix64 rng{5};
  int64_t helped = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t sequences = random_between(rng, 1, 6);
    const Caps caps{random_between(rng, 50, 400), random_between(rng, 3, 40), 0};
    Packed packed(static_cast<size_t>(sequences));
    for (int64_t id = 0; id < random_between(rng, 0, 60); ++id) {
      const int64_t tokens = random_between(rng, 1, 40);
      auto& list = packed[static_cast<size_t>(random_between(rng, 0, sequences - 1))];
      if (caps.admits(load_of(list), tokens))
        list.push_back(item(static_cast<size_t>(id), tokens, tokens * tokens + 10 * tokens));
    }
    for (auto& list : packed) std::sort(list.begin(), list.end(), goes_before);
    const int64_t before = slowest_of(packed);
    const auto ids = ids_of(packed);
    const int64_t made = refine_packing(packed, caps, 25);
    EXPECT_LE(made, 25);
    EXPECT_LE(slowest_of(packed), before);
    helped += slowest_of(packed) < before;
    EXPECT_EQ(ids_of(packed), ids);
    for (const auto& list : packed) {
      EXPECT_LE(load_of(list).tokens, caps.tokens);
      EXPECT_LE(load_of(list).segments, caps.segments);
      EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), goes_before));
    }
  }
  EXPECT_GT(helped, 150);
}

/// The least slowest time over all assignments, by trying all of them.
int64_t brute_force(const std::vector<Item>& items, int64_t sequences, const Caps& caps) {
  std::vector<Load> loads(static_cast<size_t>(sequences));
  int64_t best = no_limit;
  const auto place = [&](auto&& self, size_t index) -> void {
    if (index == items.size()) {
      best = std::min(best, slowest(loads));
      return;
    }
    for (Load& load : loads) {
      if (!caps.admits(load, items[index].tokens)) continue;
      load.add(items[index]);
      if (load.time_ns < best) self(self, index + 1);
      load.remove(items[index]);
    }
  };
  place(place, 0);
  return best;
}

TEST(Refine, ComesCloseToTheOptimumOfNineDocuments) {
  SplitMix64 rng{17};
  double ratio = 0;
  constexpr int trials = 60;
  for (int trial = 0; trial < trials; ++trial) {
    const Caps caps{200, no_limit, 0};
    Packed packed(3);
    std::vector<Item> items;
    for (size_t id = 0; id < 9; ++id) {
      const int64_t tokens = random_between(rng, 1, 50);
      items.push_back(item(id, tokens, tokens * tokens + 20 * tokens));
      packed[id % 3].push_back(items.back());
    }
    for (auto& list : packed) std::sort(list.begin(), list.end(), goes_before);
    refine_packing(packed, caps, 50);
    const int64_t best = brute_force(items, 3, caps);
    EXPECT_GE(slowest_of(packed), best);
    ratio += static_cast<double>(slowest_of(packed)) / static_cast<double>(best);
  }
  EXPECT_LT(ratio / trials, 1.06);
}

}  // namespace
}  // namespace equipoise
