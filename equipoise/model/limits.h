#pragma once

#include <cstdint>
#include <limits>

namespace equipoise {

inline constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();

/// Hard caps: constraints, never objectives. Invariant: 1 <= window_tokens <= max_tokens; 1 <= align_tokens, at most
/// 128 or the window; max_tokens is a multiple of what sequences are padded to (model/shard.h), so that one of as many
/// tokens has no rows of padding.
struct Limits {
  int64_t window_tokens = 131072;       ///< S: tokens of a sequence on average; a longer document is over-long
  int64_t max_tokens = 131072;          ///< S_max: rows that the memory of one sequence allows, padding included
  int64_t align_tokens = 1;             ///< rows of a rank are padded to a multiple of this (model/shard.h)
  int64_t exchange_bytes = no_limit;    ///< exchange buffers that a member may hold at once
  int64_t activation_bytes = no_limit;  ///< kept activations of one rank
  int64_t max_documents = no_limit;     ///< segments of one sequence
  bool operator==(const Limits&) const = default;
};

}  // namespace equipoise
