#pragma once

#include <functional>
#include <vector>

#include "torch_ext/attention.h"
#include "torch_ext/transfer.h"

namespace equipoise {

// What the forward and the backward have in common: the order of rounds, what both send, the work of a round.

/// All that lives through the rounds of one pass.
struct Run {
  const RankProgram& program;
  double scale;
  Line dispatch_line;
  Line return_line;
  Queries local;
  Keys local_keys;
  Keys arena;
  std::vector<Queries> guests;  ///< by round; only two rounds' are there at a time
};

/// pass: "forward" or "backward". The arena has its own keys in place.
Run make_run(const RankProgram& program, const GroupNames& groups, const char* pass, double scale, Queries local,
             Keys local_keys);

/// Queries, keys and values of a round, which both passes dispatch.
void add_inputs(const Run& run, int64_t round, Blocks& send, Blocks& receive);

/// Calls the kernel for every entry of a round.
using Attend = void (*)(const Visibility&, const Queries&, const Keys&, double);
void compute_round(const Run& run, int64_t round, Attend attend);

/// The guests of a round, which are not needed in the run any more.
Queries take_guests(Run& run, int64_t round);

/// What a pass does in a round; an empty Transfer where nothing moves.
struct RoundSteps {
  Transfer (*dispatch)(Run& run, int64_t round);
  Attend attend;
  Transfer (*give_back)(Run& run, int64_t round);
};

/// Runs the rounds in the one order on which all members agree: dispatch r + 1 is under way while r computes, and
/// return r while r + 1 does.
void run_rounds(Run& run, const RoundSteps& steps);

}  // namespace equipoise
