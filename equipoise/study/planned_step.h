#pragma once

#include <span>
#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// A step in numbers: what a table shows and a plan file carries. Everything here follows from the step and its
/// buckets.
struct StepSummary {
  int64_t tokens = 0;           ///< in sequences
  int64_t loss_tokens = 0;      ///< planned targets
  int64_t padding_rows = 0;     ///< of all ranks of dp x cp
  int64_t empty_sequences = 0;  ///< sequences without a segment
  int64_t attention_pairs = 0;  ///< allowed query-key pairs of one head, summed over the model's layers; saturates
  Balance micro_batches;        ///< work of sequences
  Balance pools;                ///< work that pools wait for, by dp_sync
  Balance ranks;  ///< predicted attention time inside each pool, summed over buckets: what members wait for over what
                  ///< they do
  int64_t moved_query_rows =
      0;  ///< rows sent to another rank in one layer, in rows of all query heads; the mean of all layers, rounded up
  int64_t moved_kv_rows = 0;    ///< the same for rows of keys and values of all KV heads
  int64_t mean_sent_bytes = 0;  ///< by a rank, forward, all layers and micro-steps
  int64_t max_sent_bytes = 0;   ///< by the rank that sends most
  int64_t rounds = 1;           ///< the most rounds of any bucket and mask; 1: nothing travels
  int64_t attention_ns =
      0;  ///< slowest member's attention, forward and backward, summed over layers and micro-steps, of the slowest pool
  int64_t linear_ns = 0;    ///< the same for everything linear in tokens
  int64_t exchange_ns = 0;  ///< the same for exposed exchange
  int64_t step_ns = 0;      ///< predicted time of the step; pipeline bubbles and gradient reduction are not in it
  bool operator==(const StepSummary&) const = default;
};

/// A step with all of its buckets.
struct PlannedStep {
  StepPlan step;
  std::vector<BucketPlan> buckets;  ///< by step.buckets
  StepSummary summary;
  bool operator==(const PlannedStep&) const = default;
};

/// plan_pool for all pools of a step: its buckets, in their order. Errors: as plan_pool.
std::vector<BucketPlan> plan_buckets(const PlanInputs& inputs, const StepPlan& step);

/// plan_step and plan_pool for every pool: what one rank never needs, and a command does. Errors: as plan_step.
PlannedStep plan_all_buckets(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Counts a step up. `buckets` are all of the step's, in order, with their exchanges. Cost: O(pieces + work items +
/// messages).
StepSummary summarize(const PlanInputs& inputs, const StepPlan& step, std::span<const BucketPlan> buckets);

}  // namespace equipoise
