#pragma once

#include <vector>

#include "equipoise/packing/load.h"

namespace equipoise {

/// Effort and taste of the look-ahead. Ratios in parts per million of the time or tokens of a full step.
struct LookAhead {
  int64_t beam = 16;             ///< states kept
  int64_t children = 8;          ///< decisions kept of one state
  int64_t backlog_ppm = 50'000;  ///< price of tokens left waiting
  int64_t tokens_ppm = 20'000;   ///< price of a step with more or fewer tokens than S a sequence, squared
  int64_t age_ppm = 50'000;      ///< price of long documents still waiting at the horizon, by age squared
};

/// One problem of the look-ahead. What it levels are sequences, or buckets of P sequences that share their attention:
/// then there are M / P, each with P times the window, the caps and the time.
struct Outlook {
  int64_t sequences = 1;      ///< M, or M / P
  int64_t window_tokens = 1;  ///< S, or P S
  int64_t window_ns = 1;      ///< time of window_tokens without attention: the unit of the score
  int64_t big_tokens = 1;     ///< S / 8: documents of so many are decided one by one, shorter ones level what is left
  int64_t step = 0;
  Caps caps;

  bool is_big(const Waiting& piece) const { return piece.held.length_tokens >= big_tokens; }
};

/// Chooses how full the sequences of this step should be: the level, in ns, up to which pack_to_level() fills them.
///
/// bigs, shorts  what waits now; bigs longest first, shorts first in first out
/// future        arrivals of the next steps that are known, by step from step + 1 on
/// Searches levels over this step and the future steps with a beam, each step scored by its imbalance, what it leaves
/// waiting and its tokens, and returns the level that begins the best path. Returns -1 if bigs that are due fit on no
/// level. Cost: O(depth * beam * levels * (bigs * M)). Restarts at each step: no hidden state. Source: ours.
int64_t choose_level(const Outlook& outlook, const LookAhead& effort, const std::vector<Waiting>& bigs,
                     const std::vector<Waiting>& shorts, const std::vector<std::vector<Waiting>>& future);

/// Places bigs up to a level: due ones first, on the lightest sequence with room, raising the level if they must; then
/// the others, longest first, where they fit under it. Fills `loads` (M entries) and `place` (by big: its sequence, or
/// -1: left waiting). False if a due one finds no room.
bool place_bigs(const Outlook& outlook, const std::vector<Waiting>& bigs, int64_t level_ns, std::vector<Load>& loads,
                std::vector<int64_t>& place);

}  // namespace equipoise
