#pragma once

#include <cstdint>
#include <vector>

namespace equipoise {

/// Ratios are integers in parts per million, so that every machine computes the same plan.
inline constexpr int64_t ppm_one = 1'000'000;

/// ceil(a / b) for a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of b that is at least a, for a >= 0, b > 0.
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// mul_div() for any arguments; callers use that one.
int64_t mul_div_wide(int64_t a, int64_t b, int64_t c);

/// floor(a * b / c) with a 128-bit product, for a, b >= 0, c > 0; saturates at the largest int64. Inline, because most
/// products fit 64 bits and most divisors are constants: then no division is left.
inline int64_t mul_div(int64_t a, int64_t b, int64_t c) {
  int64_t product = 0;
  const bool fits = a >= 0 && b >= 0 && c > 0 && !__builtin_mul_overflow(a, b, &product);
  return fits ? product / c : mul_div_wide(a, b, c);
}

/// One point of an integer curve.
struct CurvePoint {
  int64_t x = 0;
  int64_t y = 0;
  bool operator==(const CurvePoint&) const = default;
};

/// A function of an integer, linear between points and flat outside of them: no logarithm, no rounding that differs
/// between machines. Points are sorted by x, strictly increasing; at least one point.
using Curve = std::vector<CurvePoint>;

/// The value of the curve at x. Interpolates with floor division on 128-bit products.
int64_t evaluate(const Curve& curve, int64_t x);

}  // namespace equipoise
