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
  Memory memory;
  Queries local;
  Keys local_keys;
  Keys arena;
  std::vector<Queries> guests;  ///< by round; those of two rounds are in use at a time
};

/// Takes the memory of a pass over q, k and v of this type, to be given back after it (torch_ext/workspace.h); if the
/// communicator fails it is left to the transfers under way. `kept` is what the forward kept, or undefined.
Memory take_buffers(const RankProgram& program, Pass pass, const at::Tensor& q, const at::Tensor& kept);

/// Lays out a pass: a backward where the stores have gradients. The arena has its own keys in place.
Run make_run(const Call& call, Memory memory, Queries local, Keys local_keys);

/// Nothing yet, and its memory.
Freight freight_of(const Memory& memory, const WireBuffers& wires);

/// Queries, keys and values of a round.
void add_inputs(const Run& run, int64_t round, Freight& freight);

/// The part of the stores that an entry of a round computes with.
struct EntryParts {
  Visibility visibility;
  Queries queries;
  Keys keys;
};
EntryParts parts_of(const Run& run, int64_t round, const KernelEntry& entry);

/// What a pass does in a round; an empty Transfer where nothing moves.
struct RoundSteps {
  Transfer (*dispatch)(Run& run, int64_t round);
  void (*compute)(const Run& run, int64_t round);
  Transfer (*give_back)(Run& run, int64_t round);
};

/// Runs the rounds in the one order on which all members agree: dispatch r + 1 is under way while r computes, and
/// return r while r + 1 does. Each step is a span of torch.profiler, "equipoise::STEP round R" with STEP one of
/// dispatch, wait_dispatch, compute, return, wait_return: waits are what is exposed.
void run_rounds(Run& run, const RoundSteps& steps);

}  // namespace equipoise
