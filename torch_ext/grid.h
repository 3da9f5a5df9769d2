#pragma once

#include <cstdint>
#include <functional>

#include "torch_ext/kernel.h"

namespace equipoise {

// Invariant gradient sums (equipoise/model/gradient_sum.h): the attention of one grid cell in bits that depend on its
// numbers alone, and exact sums of its gradients of keys. Letters as in torch_ext/kernel.h; W words of one block of D
// states (equipoise/base/exact_sum.h), int64.
//
// The stock kernel changes bits with the memory alignment and strides of its arguments, and with the number of threads.
// So every grid cell is copied to contiguous memory of its own, aligned at 64 bytes, and computed on one thread. It is
// computed in float: bfloat16 is copied as it is, and rounded once where a result returns.

/// As attend_forward.
void attend_grid_cell(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale);

/// A grid cell's part of the gradients of its keys.
struct KeyParts {
  at::Tensor dk;  ///< [K, Hkv, D], float
  at::Tensor dv;  ///< [K, Hkv, D], float
};

/// As attend_backward, but returns its parts of dk and dv.
KeyParts attend_grid_cell_backward(const Visibility& visibility, const Queries& queries, const Keys& keys,
                                   double scale);

/// Calls work(i) for 0 <= i < count, each on one thread, several at a time where there are threads.
void for_each_grid_cell(int64_t count, const std::function<void(int64_t)>& work);

/// Adds numbers [R, H, D], float, to sums [R, H, W]; any strides, but cells of one row and head lie together.
void add_exactly(const at::Tensor& sums, const at::Tensor& values);

/// Adds other sums [R, H, W] to sums [R, H, W], as above.
void merge_exactly(const at::Tensor& sums, const at::Tensor& other);

/// Sums [R, H, W] as numbers [R, H, D] of a type, rounded to float and then to it.
at::Tensor round_exactly(const at::Tensor& sums, at::ScalarType type);

}  // namespace equipoise
