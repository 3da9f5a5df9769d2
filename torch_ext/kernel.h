#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "equipoise/model/mask.h"

namespace equipoise {

// What the attention kernel reads and writes, as strided views; the same two structs hold a whole store
// (torch_ext/stores.h) and one entry's part of it. Letters: R rows of queries, K keys, Hq and Hkv heads with Hq a
// multiple of Hkv, D elements of one head.

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

/// Which keys a row sees: row i stands `diagonal` keys after key 0. Full: all; causal: j <= i + diagonal; sliding
/// window: i + diagonal - window < j <= i + diagonal.
struct Visibility {
  MaskKind kind = MaskKind::causal;
  int64_t window = 0;
  int64_t diagonal = 0;
};

/// Writes out and lse. Rows without a key get 0 and -inf.
void attend_forward(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale);

/// Writes dq, adds to dk and dv; `out` and `lse` are those of the whole row, so an entry with a part of a row's keys
/// gives its exact part of the gradients. Rows without a key get 0.
void attend_backward(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale);

}  // namespace equipoise
