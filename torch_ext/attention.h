#pragma once

#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "equipoise/model/rank_program.h"

namespace equipoise {

// Letters: T rows of this member, Hq query and Hkv KV heads, D elements of one head.

/// Names of a pool's two process groups: a return never delays the next dispatch.
struct GroupNames {
  std::string dispatch;
  std::string give_back;
};

/// Type of log-sum-exp and of sums of gradients: double for double, else float.
at::ScalarType sum_type(at::ScalarType type);

/// Runs a member's program; all members of the pool must. Requires checked arguments (torch_ext/checks.h).
/// q [T, Hq, D], k and v [T, Hkv, D], contiguous. Returns out [T, Hq, D] and lse [T, Hq]; padding rows get 0 and -inf.
/// Errors: std::runtime_error if the communicator fails.
std::tuple<at::Tensor, at::Tensor> run_forward(const RankProgram& program, const GroupNames& groups,
                                               const std::tuple<at::Tensor, at::Tensor, at::Tensor>& qkv, double scale);

/// What the backward reads beside q, k and v: grad_out and out [T, Hq, D], lse [T, Hq].
struct Saved {
  at::Tensor grad_out;
  at::Tensor out;
  at::Tensor lse;
};

/// Returns dq [T, Hq, D], dk and dv [T, Hkv, D]; padding rows get 0. Partial dk and dv travel in the input's type and
/// are added in its sum type, own first, then by round and member.
std::tuple<at::Tensor, at::Tensor, at::Tensor> run_backward(const RankProgram& program, const GroupNames& groups,
                                                            const std::tuple<at::Tensor, at::Tensor, at::Tensor>& qkv,
                                                            const Saved& saved, double scale);

}  // namespace equipoise
