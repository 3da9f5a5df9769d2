#pragma once

#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"

namespace equipoise {

/// What to tune for.
struct QueueGoal {
  int64_t mean_delay_ppm = 500'000;  ///< of a token, at most, in millionths of a step
  int64_t most_queues = 3;
};

/// Thresholds that were tried, and what `wlb` makes of the sample with them.
struct QueueTrial {
  std::vector<int64_t> queue_tokens;
  int64_t weighted_imbalance_ppm = 0;  ///< sum of the heaviest sequences over the sum of means: the time really lost
  int64_t mean_delay_ppm = 0;          ///< tokens that wait after a step over tokens that a step trains, on average
  bool operator==(const QueueTrial&) const = default;
};

struct TunedQueues {
  QueueTrial best;                   ///< within the goal, of the least delay that costs at most 1/1000 of time
  bool meets_goal = false;           ///< else no trial waits as little as wanted, and the one that waits least is best
  std::vector<QueueTrial> frontier;  ///< by rising delay and falling imbalance: nothing tried beats one in both
  int64_t steps = 0;                 ///< measured in each trial
  int64_t trials = 0;
};

/// Finds outlier thresholds for strategy `wlb` on the first steps of the corpus: 100 of up to 16 sequences, 20 of many;
/// the first fifth of them only fills the queues.
///
/// Thresholds come from 16 quantiles of length above S / 16, weighted by tokens; for each number of queues, coordinate
/// descent from two starts changes one threshold at a time. Where the corpus ends earlier, it is measured to its last
/// step but the end that drains. Cost: some hundred times the packing of the sample, at most 16 * 4 * most_queues^2
/// trials a start. Errors: as pack_wlb. Source: tuning on a sample is WLB-LLM's; the search is ours.
TunedQueues tune_queues(const PlanInputs& inputs, const Corpus& corpus, const QueueGoal& goal);

}  // namespace equipoise
