#pragma once

#include "torch_ext/kernel.h"

namespace equipoise {

// Invariant gradient sums (equipoise/model/gradient_sum.h): the attention of one grid cell in bits that depend on its
// numbers alone, and exact sums of its gradients of keys. Letters as in torch_ext/kernel.h; W words of one block of D
// states (equipoise/base/exact_sum.h), int64.
//
// The stock kernel changes bits with the memory alignment and strides of its arguments, and with the number of threads.
// So every grid cell is copied to contiguous memory of its own, aligned at 64 bytes, and computed on one thread. It is
// computed in float: bfloat16 is copied as it is, and rounded once where a result returns.

/// float and bfloat16 on a CPU. Its sums of dk and dv are exact: int64 [cells, W] where other kernels have numbers
/// [cells, D].
extern const Kernel grid_kernel;

/// Adds other sums [R, H, W] to sums [R, H, W], as above.
void merge_exactly(const at::Tensor& sums, const at::Tensor& other);

/// Sums [R, H, W] as numbers [R, H, D] of a type, rounded to float and then to it.
at::Tensor round_exactly(const at::Tensor& sums, at::ScalarType type);

}  // namespace equipoise
