#pragma once

#include <compare>
#include <vector>

#include "equipoise/packing/load.h"

namespace equipoise {

/// What the sequences of a step hold so far, with the lightest at hand: by time, ties to fewer tokens, then to the
/// lower sequence. Finding the lightest costs nothing, adding a piece O(log M).
class Loads {
 public:
  /// `sequences` >= 1, all empty.
  explicit Loads(int64_t sequences);

  const std::vector<Load>& by_sequence() const { return loads_; }

  int64_t lightest() const { return winners_[1].sequence; }

  /// The lightest sequence that admits a piece of so many tokens, or -1. O(1) where the lightest of all does, else
  /// O(M).
  int64_t lightest_with_room(const Caps& caps, int64_t tokens) const;

  void add(int64_t sequence, const Item& item);

 private:
  struct Player {
    int64_t time_ns = 0;
    int64_t tokens = 0;
    int64_t sequence = 0;
    auto operator<=>(const Player&) const = default;
  };

  std::vector<Load> loads_;
  std::vector<Player> winners_;  ///< a tournament: winner i met winners 2 i and 2 i + 1; the last M are the sequences
};

}  // namespace equipoise
