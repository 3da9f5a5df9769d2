#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "equipoise/base/exact_sum.h"

namespace equipoise {

/// How the gradients of one key, computed in parts by several members, become one.
///   fast       parts travel in the input's type and are added in floating point, in an order that the plan gives: bits
///              depend on the plan
///   invariant  the work is cut at a grid that depends on the segments and their shards alone, each grid cell is one
///              kernel entry, and its parts are summed exactly (base/exact_sum.h): outputs and gradients have the
///              same bits whoever computes which cell
enum class GradientSum : int64_t { fast = 0, invariant = 1 };

inline constexpr std::array gradient_sums = {GradientSum::fast, GradientSum::invariant};

/// Query rows of a grid cell: the rows [i * grid_rows, (i + 1) * grid_rows) of a segment, as far as
/// they lie in one shard piece, times one KV head's query heads.
inline constexpr int64_t default_grid_rows = 512;

std::string_view name(GradientSum sum);
/// Throws InputError naming the choices.
GradientSum parse_gradient_sum(std::string_view text);

}  // namespace equipoise
