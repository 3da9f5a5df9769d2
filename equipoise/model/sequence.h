#pragma once

#include <vector>

#include "equipoise/base/ids.h"

namespace equipoise {

/// A contiguous piece [begin, begin + length) of one document inside one packed sequence. Attention never crosses
/// segments; positions count from the segment's first token. Invariant: length_tokens > 0.
struct Segment {
  DocId document;
  int64_t begin_tokens = 0;  ///< from the start of the document
  int64_t length_tokens = 0;
  bool operator==(const Segment&) const = default;
};

/// One micro-batch of one replica: segments in packed order. Invariant: total <= Limits::max_tokens. May be empty.
struct Sequence {
  std::vector<Segment> segments;
  bool operator==(const Sequence&) const = default;

  int64_t tokens() const {
    int64_t total = 0;
    for (const Segment& segment : segments) total += segment.length_tokens;
    return total;
  }
};

}  // namespace equipoise
