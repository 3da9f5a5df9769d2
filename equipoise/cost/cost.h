#pragma once

#include <span>
#include <vector>

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
  constexpr PassTime& operator+=(const PassTime& other) {
    forward_ns += other.forward_ns;
    backward_ns += other.backward_ns;
    return *this;
  }
  bool operator==(const PassTime&) const = default;
};

/// Kernel tiles of one head for rows of a segment against their visible keys: row blocks of tile_rows from rows.begin,
/// key blocks of tile_keys; partly used tiles count whole. A causal document of 1024 tokens in 128 x 128 tiles has 36.
/// Key blocks count from the first key that any of the rows sees. O(log length).
int64_t kernel_tiles(const AttentionCost& cost, const Mask& mask, Range rows, int64_t length_tokens);

/// What attention time depends on besides the work itself: one mask of one model on one machine. Refers, does not own.
struct AttentionModel {
  const CostTable& cost;
  const Mask& mask;
  const Heads& heads;
  int64_t grid_rows =
      0;  ///< each grid cell (model/gradient_sum.h) is an entry of its own; 0: all rows and heads are one
};

/// Predicted time of one entry: `query_heads` heads, and the KV heads that serve them, of the given rows. Without the
/// call's own launch. Cheap: searches call it.
PassTime entry_time(const AttentionModel& model, Range rows, int64_t length_tokens, int64_t query_heads);

/// Predicted time of the linear part of one layer for `rows` rows on a rank.
PassTime linear_time(const CostTable& cost, int64_t rows);

/// `ns` of a rank of nominal speed, on a rank of `speed_ppt` parts per thousand of it.
int64_t at_speed(int64_t ns, int64_t speed_ppt);

/// Predicted attention time of one layer, by member at nominal speed: the entries of its work, and one call in each
/// round in which it has any.
std::vector<PassTime> attention_times(const AttentionModel& model, std::span<const Sequence> sequences,
                                      std::span<const WorkItem> work, int64_t members);

/// The same by (member, round), of `rounds` rounds.
std::vector<PassTime> attention_times(const AttentionModel& model, std::span<const Sequence> sequences,
                                      std::span<const WorkItem> work, int64_t members, int64_t rounds);

/// Bytes of rows that each member receives and holds at once in the forward: its foreign keys and values, which live
/// through all rounds, and the queries of its fullest round. What pooled tiling caps; the operator's buffers for them
/// are a multiple of it (planner's most_held_bytes).
std::vector<int64_t> held_bytes(const CostTable& cost, const Heads& heads, const Exchange& exchange, int64_t members);

/// What one member does in one round of a layer, each part as if it had nothing to wait for.
struct RoundTimes {
  PassTime dispatch = {};  ///< its messages out, each on its own link, both directions at once
  PassTime attention = {};
  PassTime give_back = {};  ///< its messages back
  bool operator==(const RoundTimes&) const = default;
};

/// What one member does in one layer.
struct MemberLoad {
  std::vector<RoundTimes> rounds;  ///< as many for each member
  PassTime linear;
  int64_t pairs = 0;           ///< allowed pairs x query heads
  int64_t sent_bytes = 0;      ///< forward
  int64_t received_bytes = 0;  ///< forward
  bool operator==(const MemberLoad&) const = default;

  PassTime attention() const;
  PassTime exchange() const;  ///< all its messages, hidden behind attention or not
};

/// Loads of all members for one mask of a bucket, by member.
std::vector<MemberLoad> member_loads(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Parts of a layer's predicted time, which come one after another.
struct LayerTime {
  PassTime linear;     ///< of the slowest rank
  PassTime attention;  ///< of the slowest rank
  PassTime exposed;    ///< exchange that no attention hides
  PassTime all() const;
  bool operator==(const LayerTime&) const = default;
};

/// Predicted time of one layer for ranks that wait for each other in each exchange, at least one. Rounds overlap as the
/// operator runs them: dispatch r + 1 is under way while r computes, return r while r + 1 does, and an exchange begins
/// when all have come to it. Exchanges are taken not to slow each other or the computing down.
LayerTime layer_time(std::span<const MemberLoad> loads);

/// Of one mask of a bucket, of the slowest replica. Ranks of replicas that exchange rows wait for each other; others do
/// not, as with NCCL, which skips empty messages (with Gloo they meet there).
LayerTime layer_time(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Predicted time of a bucket through the whole model, by replica of the pool: each mask's layers times its layer's
/// time. Replicas that exchange rows in any layer wait for each other in all, and so last alike.
std::vector<PassTime> replica_times(const PlanInputs& inputs, const BucketPlan& bucket);

/// The time of the bucket's slowest replica.
PassTime bucket_time(const PlanInputs& inputs, const BucketPlan& bucket);

/// Predicted attention time of some rows of a segment through the whole model on one rank, forward and backward.
int64_t rows_work_ns(const PlanInputs& inputs, Range rows, int64_t length_tokens);

/// Attention work of a sequence in predicted nanoseconds, all layers, forward and backward, one rank: what packing and
/// placement balance.
int64_t sequence_work_ns(const PlanInputs& inputs, const Sequence& sequence);

/// Predicted time of a sequence through the whole model on one rank, attention and linear: what replicas wait for.
int64_t sequence_time_ns(const PlanInputs& inputs, const Sequence& sequence);

/// Predicted time of a whole document through the whole model on one rank, attention and linear, forward and backward:
/// what packing trades. The linear part is priced as in a full window.
int64_t document_time_ns(const PlanInputs& inputs, int64_t length_tokens);

/// Predicted time of the linear part of `tokens` tokens through the whole model, priced the same way.
int64_t tokens_time_ns(const PlanInputs& inputs, int64_t tokens);

/// Predicted time of a step from the replica_times of its buckets, which are in order (micro_step, pool): sync per step
/// = the slowest replica's sum; per micro-step = the sum of the slowest.
int64_t step_time_ns(DpSync dp_sync, std::span<const std::vector<PassTime>> buckets, int64_t pools);

}  // namespace equipoise
