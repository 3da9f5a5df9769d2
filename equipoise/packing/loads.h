#pragma once

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
    int64_t sequence = 0;
  };

  /// Chosen by a mask: which of two is lighter is a coin toss, and a branch on it is predicted wrong half of the time.
  Player winner(Player a, Player b) const {
    if (a.time_ns == b.time_ns) return wins_tie(a.sequence, b.sequence) ? a : b;
    const int64_t b_wins = -static_cast<int64_t>(b.time_ns < a.time_ns);  // all ones or none
    return {a.time_ns ^ ((a.time_ns ^ b.time_ns) & b_wins), a.sequence ^ ((a.sequence ^ b.sequence) & b_wins)};
  }
  bool wins_tie(int64_t a, int64_t b) const;

  std::vector<Load> loads_;
  std::vector<Player> winners_;  ///< a tournament: winner i met winners 2 i and 2 i + 1; the last M are the sequences
};

}  // namespace equipoise
