#pragma once

#include <cstdint>
#include <limits>

namespace equipoise {

inline constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();

/// Hard caps: constraints, never objectives. Invariant: 1 <= window_tokens <= max_tokens, align_tokens >= 1.
struct Limits {
  int64_t window_tokens = 131072;       ///< S: tokens of a sequence on average; a longer document is over-long
  int64_t max_tokens = 131072;          ///< S_max: tokens that the memory of one sequence allows
  int64_t align_tokens = 1;             ///< rows of a rank are padded to a multiple of this
  int64_t exchange_bytes = no_limit;    ///< received bytes that a member may hold at once, forward
  int64_t activation_bytes = no_limit;  ///< kept activations of one rank
  int64_t max_documents = no_limit;     ///< segments of one sequence
  bool operator==(const Limits&) const = default;
};

}  // namespace equipoise
