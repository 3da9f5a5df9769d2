#pragma once

#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "equipoise/model/mask.h"

namespace equipoise {

// The variable-length flash attention of torch (FlashAttention-2, Dao 2023), forward and backward. It is called through
// the dispatcher by the names of its arguments, because its C++ signature differs between versions of torch, and needs
// neither a CUDA compiler nor CUDA headers.

/// What both directions read. Sequence i has the rows [cu_q[i], cu_q[i + 1]) and the keys [cu_k[i], cu_k[i + 1]), at
/// least one of each; its last row stands at its last key. Only the last dimension has to be dense.
struct FlashInputs {
  at::Tensor q;           ///< [R, H, D]
  at::Tensor k;           ///< [K, Hkv, D], H a multiple of Hkv
  at::Tensor v;           ///< [K, Hkv, D]
  at::Tensor cu_q;        ///< int32, on the device of q
  at::Tensor cu_k;        ///< int32, likewise
  int64_t most_rows = 0;  ///< of a sequence
  int64_t most_keys = 0;
  Mask mask;
  double scale = 1.0;
};

/// What the kernel can take: float16 or bfloat16, D a multiple of 8 and at most 256, a torch whose kernel
/// has the arguments that we know. Errors: InputError.
void check_flash(const at::Tensor& q, const std::string& where);

/// Returns out [R, H, D] and log-sum-exp [H, R], float.
std::tuple<at::Tensor, at::Tensor> flash_forward(const FlashInputs& inputs);

/// `out` [R, H, D] and `lse` [H, R], contiguous, are those of the whole rows. Returns dq, dk, dv like q, k, v, in their
/// type. The same bits each time only where torch.use_deterministic_algorithms(True) is set.
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const FlashInputs& inputs, const at::Tensor& grad_out,
                                                              const at::Tensor& out, const at::Tensor& lse);

}  // namespace equipoise
