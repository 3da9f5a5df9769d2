#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "equipoise/exchange/loopback.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

// Attention of a whole bucket on one rank, as the definition says: for each row of each segment a softmax over the keys
// that the mask allows. It knows nothing of tiles, messages or programs, and is what those are compared with.

namespace equipoise {

/// The tensors of one packed sequence, row-major doubles in packed order: q, out, grad_out, dq [tokens, Hq, D]; k, v,
/// dk, dv [tokens, Hkv, D]; lse [tokens, Hq].
using DenseTensors = LoopbackTensors;

/// Random q, k, v and grad_out in (-1, 1) for each sequence.
std::vector<DenseTensors> random_tensors(std::span<const Sequence> sequences, const Heads& heads, uint64_t seed);

/// Fills out, lse, dq, dk and dv.
void dense_attention(const Sequence& sequence, const Mask& mask, const Heads& heads, double scale,
                     DenseTensors& tensors);

/// Deals q, k, v and grad_out to the members, as the shardings say; padding rows are NaN.
std::vector<LoopbackTensors> deal_tensors(const PlanInputs& inputs, const BucketPlan& bucket,
                                          std::span<const DenseTensors> dense);

/// The largest difference over all rows of all members. Padding rows are compared with out 0, lse -inf and gradients 0;
/// a NaN anywhere makes it infinite.
struct LargestDifference {
  double out = 0, lse = 0, dq = 0, dk = 0, dv = 0;
  double any() const;
};
LargestDifference compare_tensors(const PlanInputs& inputs, const BucketPlan& bucket,
                                  std::span<const DenseTensors> dense, std::span<const LoopbackTensors> members);

}  // namespace equipoise
