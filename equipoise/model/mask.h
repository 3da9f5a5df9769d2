#pragma once

#include <cstdint>
#include <string_view>

namespace equipoise {

enum class MaskKind : int64_t { causal = 0, full = 1, sliding_window = 2 };

/// Which keys a query row of a segment sees, and how many layers of the model see them so.
///   causal          row i sees keys 0 .. i
///   full            row i sees every key of its segment
///   sliding_window  row i sees the last window_tokens keys up to and including itself
struct Mask {
  MaskKind kind = MaskKind::causal;
  int64_t window_tokens = 0;  ///< sliding_window only, >= 1, counts the row itself; 0 otherwise
  int64_t layers = 1;         ///< >= 1
  bool operator==(const Mask&) const = default;
};

/// "causal", "full" or "sliding_window".
std::string_view name(MaskKind kind);

}  // namespace equipoise
