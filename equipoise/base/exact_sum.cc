// Loops over contiguous numbers; which bin a number falls into is unforeseeable, so nothing branches on it.
#include "equipoise/base/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace equipoise {
namespace {

constexpr int64_t bin_bits = 32;
constexpr int64_t lowest_bit = -149;   ///< exponent of bit 0
constexpr int64_t not_finite = 10;     ///< the top bin of infinities and NaN: nothing finite has a slice next to it
constexpr int64_t mantissa_bits = 24;  ///< the leading one included

/// The three parts of a block of n states.
template <class Word, class Byte>
struct Parts {
  Word* high;
  Word* low;
  Byte* bin;
};

Parts<int64_t, int8_t> parts_of(int64_t* words, int64_t n) {
  return {words, words + n, reinterpret_cast<int8_t*>(words + 2 * n)};
}

Parts<const int64_t, const int8_t> parts_of(const int64_t* words, int64_t n) {
  return {words, words + n, reinterpret_cast<const int8_t*>(words + 2 * n)};
}

/// One number as (top bin, slice in it, slice below), or a state.
struct Slices {
  int64_t bin;
  int64_t high;
  int64_t low;
};

/// Infinities and NaN: whether +inf, or -inf, could be the sum; NaN says both.
Slices slices_of_not_finite(uint32_t bits) {
  const bool nan = (bits & 0x7FFFFF) != 0;
  const bool negative = bits >> 31 != 0;
  return {not_finite, nan || !negative, nan || negative};
}

Slices slices_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const int64_t exponent = bits >> 23 & 0xFF;
  if (exponent == 0xFF) return slices_of_not_finite(bits);
  const auto is_normal = static_cast<uint64_t>(exponent > 0);
  const uint64_t mantissa = (bits & 0x7FFFFF) | is_normal << 23;
  const int64_t place = exponent - static_cast<int64_t>(is_normal);  // of the last bit of the mantissa
  const int64_t bin = (place + mantissa_bits - 1) / bin_bits;
  const uint64_t both = mantissa << (place - bin_bits * (bin - 1));  // bins bin and bin - 1
  const int64_t sign = -static_cast<int64_t>(bits >> 31);            // 0 or -1
  const auto signed_slice = [sign](uint64_t slice) { return (static_cast<int64_t>(slice) ^ sign) - sign; };
  return {bin, signed_slice(both >> bin_bits), signed_slice(both & 0xFFFFFFFF)};
}

/// Adds slices, or a state, to the i-th state.
void add(const Parts<int64_t, int8_t>& sums, int64_t i, const Slices& more) {
  const int64_t bin = sums.bin[i];  // NOLINT(bugprone-signed-char-misuse): a number, no character
  const int64_t high = sums.high[i];
  const int64_t low = sums.low[i];
  const int64_t top = std::max(bin, more.bin);
  const int64_t rise = top - bin;
  const int64_t below = top - more.bin;
  sums.bin[i] = static_cast<int8_t>(top);
  sums.high[i] = (rise == 0 ? high : 0) + (below == 0 ? more.high : 0);
  sums.low[i] = (rise == 0 ? low : rise == 1 ? high : 0) + (below == 0 ? more.low : below == 1 ? more.high : 0);
}

float rounded(const Slices& sum) {
  if (sum.bin == not_finite) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (sum.low == 0) return infinity;
    return sum.high == 0 ? -infinity : std::numeric_limits<float>::quiet_NaN();
  }
  const int unit = static_cast<int>(bin_bits * (sum.bin - 1) + lowest_bit);  // exponent of the unit of low
  const double both = std::ldexp(static_cast<double>(sum.high), bin_bits) + static_cast<double>(sum.low);
  return static_cast<float>(std::ldexp(both, unit));
}

}  // namespace

void add_to_sums(int64_t* words, const float* values, int64_t n) {
  const auto sums = parts_of(words, n);
  for (int64_t i = 0; i < n; ++i) add(sums, i, slices_of(values[i]));
}

void merge_sums(int64_t* words, const int64_t* other, int64_t n) {
  const auto sums = parts_of(words, n);
  const auto more = parts_of(other, n);
  for (int64_t i = 0; i < n; ++i) add(sums, i, {more.bin[i], more.high[i], more.low[i]});
}

void round_sums(const int64_t* words, float* values, int64_t n) {
  const auto sums = parts_of(words, n);
  for (int64_t i = 0; i < n; ++i) values[i] = rounded({sums.bin[i], sums.high[i], sums.low[i]});
}

}  // namespace equipoise
