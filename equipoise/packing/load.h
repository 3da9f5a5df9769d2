#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "equipoise/model/plans.h"

namespace equipoise {

/// A document or piece that waits to be packed, with its predicted time through the whole model.
struct Waiting {
  Held held;
  int64_t time_ns = 0;
  bool operator==(const Waiting&) const = default;
};

/// Longest predicted time first; ties by document, then by begin: the order in which packing looks at pieces.
inline bool longer(const Waiting& a, const Waiting& b) {
  if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
  if (a.held.document != b.held.document) return a.held.document < b.held.document;
  return a.held.begin_tokens < b.held.begin_tokens;
}

/// What levelling needs of a piece. Small: there can be a million to sort and compare.
struct Item {
  int64_t time_ns = 0;
  int64_t tokens = 0;
  size_t index = 0;  ///< of the piece in the caller's list
  bool operator==(const Item&) const = default;
};

inline Item item_of(const Waiting& piece, size_t index) { return {piece.time_ns, piece.held.length_tokens, index}; }

/// Longest predicted time first; ties by index.
inline bool goes_before(const Item& a, const Item& b) {
  return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.index < b.index;
}

/// What a sequence holds so far.
struct Load {
  int64_t time_ns = 0;
  int64_t tokens = 0;
  int64_t segments = 0;

  void add(const Item& item) {
    time_ns += item.time_ns;
    tokens += item.tokens;
    ++segments;
  }
  void remove(const Item& item) {
    time_ns -= item.time_ns;
    tokens -= item.tokens;
    --segments;
  }
  void add(const Waiting& piece) { add(item_of(piece, 0)); }
};

/// The caps of one sequence, and how long a piece may wait.
struct Caps {
  int64_t tokens = 0;  ///< S_max
  int64_t segments = 0;
  int64_t max_delay_steps = 0;  ///< a piece of this age or more is due: it is placed now; no_bound: never due

  bool admits(const Load& load, int64_t more_tokens) const {
    return load.tokens + more_tokens <= tokens && load.segments < segments;
  }
  bool is_due(const Waiting& piece, int64_t step) const {
    return max_delay_steps >= 0 && step - piece.held.since_step >= max_delay_steps;
  }
};

inline bool lighter(const Load& a, const Load& b) {
  return std::pair(a.time_ns, a.tokens) < std::pair(b.time_ns, b.tokens);
}

inline int64_t slowest(std::span<const Load> loads) {
  int64_t most = 0;
  for (const Load& load : loads) most = std::max(most, load.time_ns);
  return most;
}

/// The sequence of least time that admits a piece of so many tokens, or -1. Ties go to the one with fewer tokens, then
/// to the lower.
inline int64_t lightest_with_room(std::span<const Load> loads, const Caps& caps, int64_t tokens) {
  int64_t best = -1;
  for (size_t s = 0; s < loads.size(); ++s)
    if (caps.admits(loads[s], tokens) && (best < 0 || lighter(loads[s], loads[static_cast<size_t>(best)])))
      best = static_cast<int64_t>(s);
  return best;
}

}  // namespace equipoise
