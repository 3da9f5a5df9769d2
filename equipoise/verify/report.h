#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "equipoise/base/errors.h"

// What the checkers share: texts of violations, and sets of integers as ranges. No rule of a plan stands here.

namespace equipoise::verifying {

inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, int64_t part) { out += std::to_string(part); }

/// Texts and integers as one text.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

/// Whether [begin, begin + length) is not empty and lies in [0, limit). Safe for any values.
constexpr bool inside(int64_t begin, int64_t length, int64_t limit) {
  return begin >= 0 && length > 0 && begin <= limit && length <= limit - begin;
}

/// The integers begin .. end - 1.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  auto operator<=>(const Interval&) const = default;
  constexpr int64_t length() const { return end - begin; }
};

/// A set of integers. Sorted, disjoint and merged where a function says so.
using Intervals = std::vector<Interval>;

inline std::string text(const Interval& range) { return text("[", range.begin, ", ", range.end, ")"); }

/// The parts that more than one of the intervals holds. Sorts `all`.
inline Intervals overlaps(Intervals& all) {
  std::sort(all.begin(), all.end());
  Intervals found;
  int64_t reach = all.empty() ? 0 : all.front().begin;
  for (const Interval& next : all) {
    if (next.begin < reach) found.push_back({next.begin, std::min(next.end, reach)});
    reach = std::max(reach, next.end);
  }
  return found;
}

/// The union, sorted, disjoint and merged.
inline Intervals merge(Intervals all) {
  std::sort(all.begin(), all.end());
  Intervals merged;
  for (const Interval& next : all) {
    if (next.begin >= next.end) continue;
    if (!merged.empty() && next.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, next.end);
    else
      merged.push_back(next);
  }
  return merged;
}

/// What of `all` is not in `without`. Both sorted and disjoint; so is the result.
inline Intervals subtract(const Intervals& all, const Intervals& without) {
  Intervals rest;
  auto hole = without.begin();
  for (Interval part : all) {
    while (hole != without.end() && hole->end <= part.begin) ++hole;
    for (auto next = hole; next != without.end() && next->begin < part.end; ++next) {
      if (next->begin > part.begin) rest.push_back({part.begin, next->begin});
      part.begin = std::max(part.begin, next->end);
    }
    if (part.begin < part.end) rest.push_back(part);
  }
  return rest;
}

}  // namespace equipoise::verifying
