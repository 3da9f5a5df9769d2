#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace equipoise {

/// How long planning searches, counted in candidates and tries, never in time: equal inputs give equal plans.
///   fast      one fixed rule
///   normal    what a planner beside the step affords
///   thorough  as low as we can get
enum class Effort : int64_t { fast = 0, normal, thorough };

inline constexpr std::array efforts = {Effort::fast, Effort::normal, Effort::thorough};

std::string_view name(Effort effort);
/// Throws InputError naming the choices.
Effort parse_effort(std::string_view text);

}  // namespace equipoise
