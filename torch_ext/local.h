#pragma once

#include <string>
#include <tuple>

#include "torch_ext/attention.h"
#include "torch_ext/kernel.h"

namespace equipoise {

// Attention of whole documents at home, nothing exchanged: for tests, measurements, and a model without a plan.
// Document i has the query rows [cu_q[i], cu_q[i + 1]) and the keys [cu_k[i], cu_k[i + 1]); masks are aligned bottom
// right: its last row stands at its last key.

/// Cumulative lengths, 1-D int64 CPU tensors.
struct CumulativeLengths {
  at::Tensor q;
  at::Tensor k;
};

struct LocalCall {
  const Kernel& kernel;
  Mask mask;
  CumulativeLengths lengths;
  double scale;
};

/// "causal", "full" or "sliding_window" with a window of at least 1. Errors: InputError.
Mask parse_local_mask(const std::string& mask, int64_t window);

/// As run_forward and run_backward, by document; rows without a key get 0 and -inf. Requires checked arguments; strided
/// ones are copied.
std::tuple<at::Tensor, at::Tensor> run_local_forward(const LocalCall& call, const Tensors& qkv);
Tensors run_local_backward(const LocalCall& call, const Tensors& qkv, const Saved& saved);

}  // namespace equipoise
