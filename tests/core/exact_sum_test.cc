#include "equipoise/base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "equipoise/base/rng.h"

namespace equipoise {
namespace {

using Block = std::vector<int64_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Block sums_of(const std::vector<float>& values) {
  Block block(exact_sum_words(1));
  for (const float value : values) add_to_sums(block.data(), &value, 1);
  return block;
}

float rounded(const Block& block) {
  float value = 0;
  round_sums(block.data(), &value, 1);
  return value;
}

float sum(const std::vector<float>& values) { return rounded(sums_of(values)); }

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

int64_t below(SplitMix64& rng, int64_t count) {
  return static_cast<int64_t>(rng.next() % static_cast<uint64_t>(count));
}

/// Any bits but those of infinities and NaN.
float any_float(SplitMix64& rng) {
  const auto value = std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
  return std::isfinite(value) ? value : any_float(rng);
}

/// Of both signs, within 2^-spread of one size that may lie anywhere.
std::vector<float> random_values(SplitMix64& rng, int64_t count, int64_t spread) {
  const auto size = static_cast<int>(below(rng, 200)) - 120;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const float mantissa = 1 + static_cast<float>(below(rng, 1 << 23)) / (1 << 23);
    const float value = std::ldexp(mantissa, size - static_cast<int>(below(rng, spread + 1)));
    values.push_back(below(rng, 2) == 0 ? value : -value);
  }
  return values;
}

void shuffle(std::vector<float>& values, SplitMix64& rng) {
  for (int64_t i = std::ssize(values) - 1; i > 0; --i) std::swap(values[i], values[below(rng, i + 1)]);
}

/// The sum of [begin, end) by a random tree of merges.
Block merged(const std::vector<float>& values, int64_t begin, int64_t end, SplitMix64& rng) {
  if (end - begin <= 1 || below(rng, 6) == 0) return sums_of({values.begin() + begin, values.begin() + end});
  const int64_t middle = begin + below(rng, end - begin + 1);
  Block left = merged(values, begin, middle, rng);
  const Block right = merged(values, middle, end, rng);
  merge_sums(left.data(), right.data(), 1);
  return left;
}

TEST(ExactSum, OfOneNumberIsThatNumber) {
  SplitMix64 rng{1};
  for (int i = 0; i < 100'000; ++i) {
    const float value = any_float(rng);
    ASSERT_TRUE(value == 0 || same_bits(sum({value}), value)) << value;
  }
  for (const float value : {1.0F, std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max(), 0x1p-118F, 0x1.fffffep-95F})
    EXPECT_TRUE(same_bits(sum({value}), value)) << value;
}

TEST(ExactSum, OfNothingOrZerosIsZero) {
  EXPECT_TRUE(same_bits(sum({}), 0));
  EXPECT_TRUE(same_bits(sum({0.0F, -0.0F}), 0));
  EXPECT_EQ(sums_of({0.0F}), sums_of({}));
}

TEST(ExactSum, KeepsWhatFloatingPointLoses) {
  EXPECT_EQ(sum({1e8F, 1.0F, -1e8F}), 1.0F);
  EXPECT_EQ(sum({0x1p20F, 0x1p-20F, -0x1p20F}), 0x1p-20F);
  EXPECT_EQ(sum({0x1p-149F, 0x1p-126F, -0x1p-126F}), 0x1p-149F);
}

TEST(ExactSum, ItsStateIsTheSameInAnyOrderAndByAnyTree) {
  SplitMix64 rng{2};
  for (int i = 0; i < 3000; ++i) {
    std::vector<float> values = random_values(rng, 1 + below(rng, 40), i % 3 == 0 ? 100 : 40);
    if (i % 5 == 0) values.push_back(any_float(rng));
    const Block expected = sums_of(values);
    for (int order = 0; order < 5; ++order) {
      shuffle(values, rng);
      ASSERT_EQ(sums_of(values), expected) << i;
      ASSERT_EQ(merged(values, 0, std::ssize(values), rng), expected) << i;
    }
  }
}

TEST(ExactSum, LosesLessThanItSays) {
  SplitMix64 rng{3};
  for (int i = 0; i < 3000; ++i) {
    const std::vector<float> values = random_values(rng, 1 + below(rng, 300), below(rng, 60));
    long double exact = 0;
    long double largest = 0;
    for (const float value : values) {
      exact += value;
      largest = std::max(largest, std::abs(static_cast<long double>(value)));
    }
    const long double lost = static_cast<long double>(values.size()) * std::ldexp(largest, -32);
    const long double half_ulp = std::ldexp(std::abs(exact), -24);
    ASSERT_LE(std::abs(sum(values) - exact), lost + half_ulp + 0x1p-149L) << i;
  }
}

TEST(ExactSum, HoldsAsManyNumbersAsItSays) {
  // 2^31 times one of the largest slices of a bin.
  const float value = 0x1.fffffep+10F;
  Block block = sums_of({value});
  for (int doubling = 0; doubling < 31; ++doubling) {
    const Block same = block;
    merge_sums(block.data(), same.data(), 1);
  }
  EXPECT_EQ(rounded(block), std::ldexp(value, 31));
}

TEST(ExactSum, OfInfinitiesIsInfiniteOrNotANumber) {
  EXPECT_EQ(sum({1.0F, infinity, -3.0F, infinity}), infinity);
  EXPECT_EQ(sum({-infinity, 1e38F}), -infinity);
  EXPECT_TRUE(std::isnan(sum({infinity, 1.0F, -infinity})));
  EXPECT_TRUE(std::isnan(sum({nan})));
  EXPECT_TRUE(std::isnan(sum({1.0F, -nan, -infinity})));
  EXPECT_EQ(sums_of({1.0F, infinity, 2.0F}), sums_of({2.0F, 1.0F, infinity}));
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(sum({largest, largest}), infinity);
  EXPECT_EQ(sum({largest, largest, -largest}), largest);
}

TEST(ExactSum, ABlockIsManySumsSideBySide) {
  SplitMix64 rng{4};
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 100}) {
    ASSERT_EQ(exact_sums_in(exact_sum_words(n)), n);
    Block block(exact_sum_words(n));
    std::vector<std::vector<float>> columns(n);
    for (int row = 0; row < 20; ++row) {
      const std::vector<float> values = random_values(rng, n, 50);
      add_to_sums(block.data(), values.data(), n);
      for (int64_t i = 0; i < n; ++i) columns[i].push_back(values[i]);
    }
    std::vector<float> found(n);
    round_sums(block.data(), found.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(same_bits(found[i], sum(columns[i])));
  }
}

}  // namespace
}  // namespace equipoise
