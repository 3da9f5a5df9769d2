#include "equipoise/model/workload.h"

#include <algorithm>

namespace equipoise {
namespace {

/// Pairs of rows 0 .. rows - 1 where row i sees min(i + 1, window) keys.
int64_t windowed_pairs(int64_t rows, int64_t window) {
  const int64_t growing = std::min(rows, window);
  return growing * (growing + 1) / 2 + (rows - growing) * window;
}

}  // namespace

std::string_view name(MaskKind kind) {
  switch (kind) {
    case MaskKind::causal: return "causal";
    case MaskKind::full: return "full";
    case MaskKind::sliding_window: return "sliding_window";
  }
  return "unknown";
}

Range visible_keys(const Mask& mask, Range rows, int64_t length_tokens) {
  if (rows.length <= 0) return {rows.begin, 0};
  switch (mask.kind) {
    case MaskKind::full: return {0, length_tokens};
    case MaskKind::causal: return {0, rows.end()};
    case MaskKind::sliding_window: {
      const int64_t first = std::max<int64_t>(0, rows.begin - mask.window_tokens + 1);
      return {first, rows.end() - first};
    }
  }
  return {};
}

int64_t attention_pairs(const Mask& mask, Range rows, int64_t length_tokens) {
  if (rows.length <= 0) return 0;
  const int64_t window = mask.kind == MaskKind::sliding_window ? mask.window_tokens : length_tokens;
  if (mask.kind == MaskKind::full) return rows.length * length_tokens;
  return windowed_pairs(rows.end(), window) - windowed_pairs(rows.begin, window);
}

int64_t layered_pairs(std::span<const Mask> masks, int64_t length_tokens) {
  int64_t pairs = 0;
  for (const Mask& mask : masks) pairs += mask.layers * attention_pairs(mask, {0, length_tokens}, length_tokens);
  return pairs;
}

}  // namespace equipoise
