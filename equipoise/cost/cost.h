#pragma once

#include <span>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/model/work.h"
#include "equipoise/model/workload.h"

namespace equipoise {

/// Forward and backward time of one thing, nanoseconds.
struct PassTime {
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  constexpr int64_t total() const { return forward_ns + backward_ns; }
  bool operator==(const PassTime&) const = default;
};

/// Kernel tiles of one head for rows of a segment against their visible keys: row blocks of tile_rows from rows.begin, key blocks of tile_keys; partly used
/// tiles count whole. A causal document of 1024 tokens in 128 x 128 tiles has 36.
int64_t kernel_tiles(const AttentionCost& cost, const Mask& mask, Range rows, int64_t length_tokens);

/// Predicted time of one entry: `query_heads` heads, `kv_heads` of keys, of the given rows. Without the call's own launch.
PassTime entry_time(const CostTable& cost, const Mask& mask, const Heads& heads, Range rows, int64_t length_tokens, int64_t query_heads);

/// Predicted time of the linear part of one layer for `rows` rows on a rank.
PassTime linear_time(const CostTable& cost, int64_t rows);

/// What one member does in one layer.
struct MemberLoad {
  PassTime attention;
  PassTime linear;
  int64_t pairs = 0;                 ///< allowed pairs x query heads
  int64_t sent_bytes = 0;            ///< forward
  int64_t received_bytes = 0;        ///< forward
  PassTime exchange;                 ///< its messages, each on its own link, both trips of both passes
  bool operator==(const MemberLoad&) const = default;
};

/// Loads of all members for one mask of a bucket, by member.
std::vector<MemberLoad> member_loads(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Predicted time of a bucket through the whole model: for each mask its layers times (slowest linear + slowest attention + exposed exchange).
/// With rounds run one after another all of the exchange is exposed: the slowest member's.
PassTime bucket_time(const PlanInputs& inputs, const BucketPlan& bucket);

/// Attention work of a sequence in predicted nanoseconds, all layers, forward and backward, one rank: what packing and placement balance.
int64_t sequence_work_ns(const PlanInputs& inputs, const Sequence& sequence);

/// Predicted time of a step from its buckets' times, which are in order (micro_step, pool): sync per step = the slowest pool's sum; per micro-step = the sum of the
/// slowest.
int64_t step_time_ns(DpSync dp_sync, std::span<const PassTime> buckets, int64_t pools);

}  // namespace equipoise
