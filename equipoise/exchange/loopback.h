#pragma once

#include <span>
#include <vector>

#include "equipoise/model/rank_program.h"

namespace equipoise {

/// The tensors of one member, row-major doubles: q, out, grad_out, dq [T, Hq, D]; k, v, dk, dv [T, Hkv, D]; lse [T,
/// Hq].
struct LoopbackTensors {
  std::vector<double> q, k, v;
  std::vector<double> out, lse;    ///< written by loopback_forward; rows in no entry: 0 and -inf
  std::vector<double> grad_out;    ///< read by loopback_backward
  std::vector<double> dq, dk, dv;  ///< written by loopback_backward
};

/// Runs the programs of all members of a pool, by member, in memory and in double precision: what the operator does
/// with real collectives and kernels, and its oracle. Wires are real arrays, packed and unpacked by the programs' own
/// lists; rows x keys are computed one by one. `scale` multiplies q.k. Gradients of keys are summed at their owner: its
/// own entries in order, then its own rows of the arena, then what peers send back, by member. The backward reads out
/// and lse as the forward left them. Errors: InputError if the programs do not match each other (a send without its
/// receive, other counts), with round, sender and receiver; if a tensor has another size; if a program names a cell
/// that its store does not have.
void loopback_forward(std::span<const RankProgram> programs, double scale, std::span<LoopbackTensors> tensors);
void loopback_backward(std::span<const RankProgram> programs, double scale, std::span<LoopbackTensors> tensors);

}  // namespace equipoise
