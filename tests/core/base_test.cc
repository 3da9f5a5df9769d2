#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "equipoise/base/errors.h"
#include "equipoise/base/hash.h"
#include "equipoise/base/integers.h"
#include "equipoise/base/rng.h"

namespace equipoise {
namespace {

constexpr int64_t largest = std::numeric_limits<int64_t>::max();

TEST(Integers, CeilingAndRoundingUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(round_up(9, 4), 12);
  EXPECT_EQ(round_up(12, 4), 12);
}

TEST(Integers, MulDivKeepsProductsOf128Bits) {
  EXPECT_EQ(mul_div(7, 3, 2), 10);
  EXPECT_EQ(mul_div(largest, 1'000'000, 1'000'000), largest);
  EXPECT_EQ(mul_div(int64_t{1} << 40, int64_t{1} << 40, int64_t{1} << 30), int64_t{1} << 50);
}

TEST(Integers, MulDivSaturatesWhereTheResultDoesNotFit) { EXPECT_EQ(mul_div(largest, largest, 2), largest); }

TEST(Integers, ACurveIsLinearBetweenPointsAndFlatOutside) {
  const Curve curve = {{10, 100}, {20, 200}, {40, 100}};
  EXPECT_EQ(evaluate(curve, 0), 100);
  EXPECT_EQ(evaluate(curve, 10), 100);
  EXPECT_EQ(evaluate(curve, 13), 130);
  EXPECT_EQ(evaluate(curve, 20), 200);
  EXPECT_EQ(evaluate(curve, 30), 150);
  EXPECT_EQ(evaluate(curve, 1'000'000), 100);
}

TEST(Integers, ACurveRoundsDownWhetherItRisesOrFalls) {
  EXPECT_EQ(evaluate({{0, 0}, {3, 10}}, 1), 3);
  EXPECT_EQ(evaluate({{0, 10}, {3, 0}}, 1), 6);
  EXPECT_EQ(evaluate({{0, 0}, {2, largest}}, 1), largest / 2);
}

TEST(Rng, SplitMix64GivesThePublishedNumbers) {
  SplitMix64 random{1234567};
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
}

TEST(Hash, BytesGiveThePublishedNumbersOfFnv1a) {
  EXPECT_EQ(hash_bytes(""), 0xCBF29CE484222325U);
  EXPECT_EQ(hash_bytes("a"), 0xAF63DC4C8601EC8CU);
  EXPECT_EQ(hash_bytes("foobar"), 0x85944171F73967E8U);
}

TEST(Hash, GoesOnFromAnEarlierHash) { EXPECT_EQ(hash_bytes("bar", hash_bytes("foo")), hash_bytes("foobar")); }

TEST(Hash, AWordIsItsLittleEndianBytes) {
  const std::vector<int64_t> word = {0x6261};  // "ab" and six zeros
  EXPECT_EQ(hash_words(word), hash_bytes({"ab\0\0\0\0\0\0", 8}));
  EXPECT_NE(hash_words(std::vector<int64_t>{1, 0}), hash_words(std::vector<int64_t>{0, 1}));
  EXPECT_NE(hash_words(std::vector<int64_t>{-1}), hash_words(std::vector<int64_t>{1}));
}

TEST(Errors, AnInputErrorSaysWhatWhereAndRemedy) {
  const FormatError error("line is empty", "lengths.txt:3", "give one length a line");
  EXPECT_STREQ(error.what(), "line is empty, lengths.txt:3: give one length a line");
}

TEST(ErrorsDeathTest, AnAssertNamesConditionAndPlace) {
  EXPECT_DEATH(EQ_ASSERT(1 == 2), "internal error: 1 == 2 does not hold, .*base_test.cc:");
}

}  // namespace
}  // namespace equipoise
