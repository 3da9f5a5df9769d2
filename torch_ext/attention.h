#pragma once

#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "equipoise/model/buffers.h"
#include "equipoise/model/rank_program.h"
#include "torch_ext/kernel.h"

namespace equipoise {

// Letters: T rows of this member, Hq query and Hkv KV heads, D elements of one head.

/// Names of a pool's two process groups: a return never delays the next dispatch.
struct GroupNames {
  std::string dispatch;
  std::string give_back;
};

/// Type of log-sum-exp and of sums of gradients: double for double, else float.
at::ScalarType sum_type(at::ScalarType type);

/// Bytes of one number where q, k and v are of this type.
NumberBytes number_bytes(at::ScalarType type);

/// A member's program and what it runs with.
struct Call {
  const RankProgram& program;
  const GroupNames& groups;
  const Kernel& kernel;
  double scale;
};

using Tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Runs a member's program; all members of the pool must. Requires checked arguments (torch_ext/checks.h).
/// q [T, Hq, D], k and v [T, Hkv, D], contiguous. Returns out [T, Hq, D] and lse [T, Hq], where padding rows get 0 and
/// -inf, and what the backward reads with keep_received: uint8 [PassBuffers::kept_bytes], empty without.
/// Errors: std::runtime_error if the communicator fails.
Tensors run_forward(const Call& call, const Tensors& qkv);

/// What the backward reads beside q, k and v: grad_out and out [T, Hq, D], lse [T, Hq], and what the forward kept.
struct Saved {
  at::Tensor grad_out;
  at::Tensor out;
  at::Tensor lse;
  at::Tensor kept;
};

/// Returns dq [T, Hq, D], dk and dv [T, Hkv, D]; padding rows get 0. Partial dk and dv travel in the input's type and
/// are added in its sum type, own first, then by round and member; under invariant sums they travel as exact sums.
Tensors run_backward(const Call& call, const Tensors& qkv, const Saved& saved);

}  // namespace equipoise
