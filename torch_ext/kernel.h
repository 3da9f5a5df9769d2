#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "equipoise/model/rank_program.h"

namespace equipoise {

// What attention kernels read and write. The same two structs hold a whole store (torch_ext/stores.h) and, as strided
// views, one entry's part of it. Letters: R rows of queries, K keys, Hq and Hkv heads with Hq a multiple of Hkv, D
// elements of one head.

struct Queries {
  at::Tensor q;         ///< [R, Hq, D]
  at::Tensor out;       ///< [R, Hq, D]
  at::Tensor lse;       ///< [R, Hq, 1], log-sum-exp; double for double, else float
  at::Tensor grad_out;  ///< [R, Hq, D], backward only
  at::Tensor dq;        ///< [R, Hq, D], backward only
};

struct Keys {
  at::Tensor k;   ///< [K, Hkv, D]
  at::Tensor v;   ///< [K, Hkv, D]
  at::Tensor dk;  ///< [K, Hkv, D], type of lse, backward only: results are added
  at::Tensor dv;  ///< [K, Hkv, D], type of lse, backward only: results are added
};

/// Entries of one round and the stores that they point into, [cells, E] each; guests and arena may be undefined where
/// no entry does.
struct Work {
  const Mask& mask;
  std::span<const KernelEntry> entries;
  double scale;  ///< of q.k
  Queries local;
  Queries guests = {};
  Keys local_keys;
  Keys arena = {};
};

/// A back end: the kernel for one kind of device.
struct Kernel {
  /// Whether it can take tensors like q [T, Hq, D]. Errors: InputError, at `where`.
  void (*check)(const at::Tensor& q, const std::string& where);
  /// Writes out and lse of all rows of the entries. Rows without a key get 0 and -inf.
  void (*forward)(const Work& work);
  /// Writes dq, adds to dk and dv; `out` and `lse` are those of the whole row, so an entry with a part of a row's keys
  /// gives its exact part of the gradients. Rows without a key get 0.
  void (*backward)(const Work& work);
};

extern const Kernel cpu_kernel;
extern const Kernel cuda_kernel;

}  // namespace equipoise
