#pragma once

#include <vector>

#include "equipoise/base/ids.h"

namespace equipoise {

/// Where a sequence runs: M sequences <-> N x dp slots, one to one.
struct Slot {
  int64_t micro_step = 0;
  int64_t replica = 0;
  auto operator<=>(const Slot&) const = default;
};

/// The sequences that the replicas of one pool process at the same micro-step. Pool p holds the replicas p * P .. (p +
/// 1) * P - 1.
struct Bucket {
  int64_t micro_step = 0;
  int64_t pool = 0;
  std::vector<SeqId> sequences;  ///< by replica in pool, P entries
  bool operator==(const Bucket&) const = default;
};

/// The buckets of a step in order (micro_step, pool). `slots` is by sequence and one to one with N x dp.
std::vector<Bucket> make_buckets(const std::vector<Slot>& slots, int64_t dp, int64_t pool);

}  // namespace equipoise
