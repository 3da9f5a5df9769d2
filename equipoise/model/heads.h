#pragma once

#include <cstdint>

namespace equipoise {

/// Attention heads of ONE tensor-parallel rank. Invariant: query % kv == 0, all > 0.
struct Heads {
  int64_t query = 1;
  int64_t kv = 1;
  int64_t size = 1;  ///< elements of one head of one row (D)
  bool operator==(const Heads&) const = default;

  /// Query heads that share one KV head.
  constexpr int64_t group() const { return query / kv; }
};

}  // namespace equipoise
