#pragma once

#include <span>
#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Tokens that were trained `steps` steps after they arrived.
struct DelayCount {
  int64_t steps = 0;
  int64_t tokens = 0;
  bool operator==(const DelayCount&) const = default;
};

/// One planned step in the numbers by which strategies are compared.
///
/// The time of a sequence is what its segments are predicted to take through the whole model on one rank, attention and
/// linear part, forward and backward. Pieces of a split document arrive together and are delayed each for itself.
struct StepMeasures {
  int64_t step = 0;
  bool ending = false;      ///< no document is left to arrive: what it packs is what remained, not what it would choose
  int64_t documents = 0;    ///< that arrived
  int64_t sequences = 0;    ///< M
  int64_t heaviest_ns = 0;  ///< time of the heaviest sequence
  int64_t total_ns = 0;     ///< time of all sequences
  int64_t bound_ns = 0;     ///< no packing of these segments is below: the mean (rounded up), or the heaviest one alone
  int64_t tokens = 0;       ///< trained
  std::vector<DelayCount> delays;  ///< by rising delay; their tokens sum to `tokens`
  int64_t held_tokens = 0;         ///< that wait after the step
  int64_t held_steps = 0;          ///< the least delay that is left to the oldest of them; 0 where none waits
  int64_t truncated_tokens = 0;    ///< of documents that arrived, as are dropped_tokens
  int64_t dropped_tokens = 0;
  int64_t step_ns = 0;          ///< predicted time of the step on the whole mesh
  int64_t mean_sent_bytes = 0;  ///< by a rank, forward, all layers and micro-steps
  int64_t max_sent_bytes = 0;   ///< by the rank that sends most
  bool operator==(const StepMeasures&) const = default;
};

/// Steps of one strategy together. Ratios are in parts per million.
///
/// Steps that end the corpus are counted apart, so that a last partial batch and what drains after it distort nothing;
/// where there are no others, they are measured.
struct RunMeasures {
  int64_t steps = 0;                   ///< measured: all below is over these, unless it says otherwise
  int64_t imbalance_ppm = 0;           ///< heaviest over mean sequence, mean of the steps
  int64_t imbalance_p95_ppm = 0;       ///< that 95 of 100 steps do not exceed
  int64_t weighted_imbalance_ppm = 0;  ///< sum of heaviest over sum of means: the time really lost
  int64_t bound_ppm = 0;               ///< bound over mean sequence, mean of the steps
  int64_t gap_ppm = 0;                 ///< imbalance less bound, mean of the steps
  int64_t tokens = 0;                  ///< trained
  int64_t delayed_tokens = 0;          ///< trained in a later step than that of their arrival
  int64_t mean_delay_ppm = 0;          ///< of a token, in millionths of a step
  int64_t worst_delay_steps = 0;       ///< of any piece in any step, ending or not; of those still held the least left
  std::vector<DelayCount> delays;      ///< by rising delay
  int64_t time_ns = 0;                 ///< predicted
  int64_t token_ps = 0;                ///< predicted time of a trained token, picoseconds
  int64_t token_work_ps = 0;           ///< time of all sequences per token: cut documents and held ones change it
  int64_t mean_sent_bytes = 0;         ///< by a rank in a step
  int64_t max_sent_bytes = 0;          ///< by any rank in any step
  int64_t ending_steps = 0;            ///< counted apart
  int64_t ending_tokens = 0;           ///< trained in these
  int64_t documents = 0;               ///< that arrived, all steps, as for all that follow
  int64_t held_tokens = 0;             ///< after the last step
  int64_t truncated_tokens = 0;
  int64_t dropped_tokens = 0;
  bool operator==(const RunMeasures&) const = default;
};

/// Measures what plan_step(inputs, corpus, before) returned. Plans the step's buckets for its time and bytes, which
/// takes longer than planning the step: whoever times planning times plan_step alone.
/// Cost: plan_pool of all pools. Errors: as plan_pool.
StepMeasures measure_step(const PlanInputs& inputs, const Corpus& corpus, const PackerState& before,
                          const StepPlan& step);

/// Sums steps up. They are of one strategy and follow one another; those of a warm-up may be left out at the front.
RunMeasures measure_run(std::span<const StepMeasures> steps);

/// How many times as fast a run trains a token as the first one is predicted to, parts per million; 1 where either has
/// no time.
int64_t speed_up_ppm(const RunMeasures& first, const RunMeasures& run);

}  // namespace equipoise
