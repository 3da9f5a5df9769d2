#include "equipoise/packing/spread.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "equipoise/model/limits.h"
#include "equipoise/packing/loads.h"
#include "equipoise/packing/longest_first.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// Attention and linear work of a document, about half and half at 1000 tokens.
Item item(size_t index, int64_t tokens) { return {tokens * (tokens + 1000), tokens, index}; }

std::vector<Item> random_items(SplitMix64& rng, int64_t count, int64_t longest) {
  std::vector<Item> items;
  for (int64_t i = 0; i < count; ++i) items.push_back(item(items.size(), random_between(rng, 1, longest)));
  return items;
}

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

TEST(LongestFirst, SortsLikeAComparisonSortAndKeepsTheOrderOfEqualTimes) {
  SplitMix64 rng{1};
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<Item> items;
    const int64_t longest = int64_t{1} << random_between(rng, 0, 61);
    for (int64_t i = random_between(rng, 0, 300); i > 0; --i)
      items.push_back({random_between(rng, 0, longest), 1, items.size()});
    std::vector<Item> expected = items;
    std::sort(expected.begin(), expected.end(), goes_before);
    sort_longest_first(items);
    EXPECT_EQ(items, expected);
  }
}

TEST(Loads, TheLightestIsTheOneThatALookAtAllOfThemFinds) {
  SplitMix64 rng{2};
  for (const int64_t sequences : {1, 2, 3, 5, 8, 13}) {
    const Caps caps{2000, 30, 0};
    Loads loads(sequences);
    for (size_t i = 0; i < 200; ++i) {
      const Item next{random_between(rng, 0, 3), random_between(rng, 1, 100), i};  // many sequences take equal time
      const int64_t found = loads.lightest_with_room(caps, next.tokens);
      EXPECT_EQ(found, lightest_with_room(loads.by_sequence(), caps, next.tokens));
      if (found >= 0) loads.add(found, next);
    }
  }
}

TEST(Spread, PutsTheLongestFirstOnTheLightestAndThenExchanges) {
  // Longest first alone puts 7 + 6 + 6 beside 7 + 6; an exchange makes that 6 + 6 + 6 beside 7 + 7.
  const std::vector<Item> items = {{7, 1, 0}, {7, 1, 1}, {6, 1, 2}, {6, 1, 3}, {6, 1, 4}};
  EXPECT_EQ(slowest_of(spread_items(items, 2, {10, 10, 0}, 0).packed), 19);
  EXPECT_EQ(slowest_of(spread_items(items, 2, {10, 10, 0}, 10).packed), 18);
}

TEST(Spread, KeepsCapsAndLosesNothing) {
  SplitMix64 rng{3};
  int64_t left = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const Caps caps{random_between(rng, 100, 1000), random_between(rng, 2, 20), 0};
    const std::vector<Item> items = random_items(rng, random_between(rng, 0, 80), 100);
    const SpreadItems spread = spread_items(items, random_between(rng, 1, 9), caps, 20);
    std::vector<Item> seen = spread.left;
    for (const auto& list : spread.packed) {
      EXPECT_LE(load_of(list).tokens, caps.tokens);
      EXPECT_LE(load_of(list).segments, caps.segments);
      EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), goes_before));
      seen.insert(seen.end(), list.begin(), list.end());
    }
    std::sort(seen.begin(), seen.end(), [](const Item& a, const Item& b) { return a.index < b.index; });
    EXPECT_EQ(seen, items);
    left += static_cast<int64_t>(spread.left.size());
  }
  EXPECT_GT(left, 0);
}

TEST(Spread, LevelsManyDocumentsToAMillionth) {
  SplitMix64 rng{4};
  const std::vector<Item> items = random_items(rng, 4096, 6000);
  int64_t total_ns = 0;
  for (const Item& i : items) total_ns += i.time_ns;
  constexpr int64_t sequences = 32;
  const Caps caps{no_limit, no_limit, 0};
  const int64_t mean_ns = total_ns / sequences;
  EXPECT_GT(slowest_of(spread_items(items, sequences, caps, 0).packed), mean_ns + mean_ns / 1'000'000);
  EXPECT_LE(slowest_of(spread_items(items, sequences, caps, 1000).packed), mean_ns + mean_ns / 1'000'000);
}

}  // namespace
}  // namespace equipoise
