#pragma once

#include <span>
#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"

namespace equipoise {

/// Steps planned with pools of one size. Ratios are in parts per million; what is of a step is the mean of the steps.
struct PoolMeasures {
  int64_t pool = 1;             ///< P
  bool leaves_node = false;     ///< some pool has ranks in several nodes
  int64_t steps = 0;            ///< measured; all below is 0 without any
  int64_t tokens = 0;           ///< trained in them
  int64_t imbalance_ppm = 0;    ///< attention that pools wait for over their mean (StepPlan::pools)
  int64_t variation_ppm = 0;    ///< variation_ppm of the attention work of a step's sequences
  int64_t chance_ppm = 0;       ///< chance_imbalance_ppm of that: the imbalance if nothing placed the sequences
  int64_t mean_sent_bytes = 0;  ///< by a rank in a step, forward, all layers and micro-steps
  int64_t max_sent_bytes = 0;   ///< by any rank in any step
  int64_t held_bytes = 0;       ///< exchange buffers of the fullest member in any step
  int64_t exchange_ns = 0;      ///< exposed exchange in a step, of its slowest pool
  int64_t step_ns = 0;          ///< predicted time of a step on the whole mesh
  int64_t token_ps = 0;         ///< predicted time of a trained token, picoseconds
  bool operator==(const PoolMeasures&) const = default;
};

/// Positions in a list of pool sizes.
struct PoolChoice {
  size_t fastest = 0;  ///< trains a token fastest; of equals the smallest
  size_t chosen = 0;   ///< the smallest that is at most 1 % slower: its exchange stays in a smaller domain
  bool operator==(const PoolChoice&) const = default;
};

/// The sizes that pools of dp >= 1 replicas can have: the divisors of dp, rising.
std::vector<int64_t> pool_sizes(int64_t dp);

/// Plans at most `most_steps` steps with all of their buckets, in pools of inputs.pool, and measures them. A step that
/// leaves no document to arrive packs what remains: it is left out, unless it is the first.
/// Cost: plan_step and plan_bucket of all pools. Errors: as these, and InputError for a strategy without pools.
PoolMeasures measure_pool(const PlanInputs& inputs, const Corpus& corpus, int64_t most_steps);

/// Chooses among sizes that rise, at least one, by the time of a token.
PoolChoice choose_pool(std::span<const PoolMeasures> sizes);

/// Coefficient of variation: standard deviation over mean, parts per million, rounded down. 0 without work.
int64_t variation_ppm(std::span<const int64_t> work);

/// What the slowest of `pools` pools is expected to have over their mean, if each is given `sequences` sequences at
/// random: 1 + CV sqrt(2 ln(pools) / sequences), in parts per million; 1 for one pool. For many pools: it is above the
/// true expectation for few. In integers, with a logarithm by squaring, so that it is the same on every machine.
/// Requires 1 <= pools < 2^32, sequences >= 1. Source: the largest of n normal deviates is near sqrt(2 ln n).
int64_t chance_imbalance_ppm(int64_t variation_ppm, int64_t sequences, int64_t pools);

}  // namespace equipoise
