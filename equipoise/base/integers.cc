#include "equipoise/base/integers.h"

#include <algorithm>
#include <limits>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

__extension__ typedef __int128 Wide;

}  // namespace

int64_t mul_div_wide(int64_t a, int64_t b, int64_t c) {
  EQ_ASSERT(a >= 0 && b >= 0 && c > 0);
  const Wide product = static_cast<Wide>(a) * b / c;
  constexpr Wide largest = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(product, largest));
}

int64_t evaluate(const Curve& curve, int64_t x) {
  EQ_ASSERT(!curve.empty());
  if (x >= curve.back().x) return curve.back().y;
  const auto above = std::upper_bound(curve.begin(), curve.end(), x,
                                      [](int64_t value, const CurvePoint& point) { return value < point.x; });
  if (above == curve.begin()) return curve.front().y;
  const CurvePoint& left = *(above - 1);
  const CurvePoint& right = *above;
  const Wide rise = static_cast<Wide>(right.y) - left.y;
  const Wide run = static_cast<Wide>(right.x) - left.x;
  Wide scaled = rise * (static_cast<Wide>(x) - left.x);
  // Floor division: C++ truncates towards zero, which would bend a falling curve upwards.
  Wide step = scaled / run;
  if (scaled % run != 0 && scaled < 0) --step;
  return left.y + static_cast<int64_t>(step);
}

}  // namespace equipoise
