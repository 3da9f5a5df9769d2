#pragma once

#include <span>

#include "equipoise/model/mask.h"

namespace equipoise {

/// A half-open range [begin, begin + length) of tokens or rows.
struct Range {
  int64_t begin = 0;
  int64_t length = 0;
  bool operator==(const Range&) const = default;

  constexpr int64_t end() const { return begin + length; }
};

/// The keys that at least one of the rows [rows.begin, rows.end()) of a segment of `length_tokens` sees: always one
/// range.
Range visible_keys(const Mask& mask, Range rows, int64_t length_tokens);

/// Allowed query-key pairs of one head for the given rows of a segment of `length_tokens`. Exact in 64 bits to 2^31
/// tokens. O(1).
int64_t attention_pairs(const Mask& mask, Range rows, int64_t length_tokens);

/// Allowed pairs of one head of a whole segment, summed over the model's layers: each mask counts layers times.
int64_t layered_pairs(std::span<const Mask> masks, int64_t length_tokens);

}  // namespace equipoise
