#pragma once

#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"

namespace equipoise {

/// The length that `thousandths` of a thousand documents do not exceed.
struct Quantile {
  int64_t thousandths = 0;
  int64_t length_tokens = 0;
  bool operator==(const Quantile&) const = default;
};

/// Documents of least_tokens .. most_tokens, and their share of the corpus in parts per million.
struct LengthBin {
  int64_t least_tokens = 0;
  int64_t most_tokens = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t tokens_ppm = 0;
  int64_t work_ppm = 0;  ///< attention pairs over all layers
  bool operator==(const LengthBin&) const = default;
};

/// Imbalance over the steps of a plan: heaviest over mean, parts per million.
struct Spread {
  int64_t mean_ppm = 0;
  int64_t max_ppm = 0;
  bool operator==(const Spread&) const = default;
};

/// What a list of lengths is like, and what it does to a mesh that takes it as it comes.
struct Inspection {
  int64_t documents = 0;
  int64_t empty_documents = 0;  ///< of 0 tokens
  int64_t tokens = 0;
  int64_t mean_tokens = 0;         ///< rounded down
  int64_t overlong_documents = 0;  ///< longer than the window
  int64_t overlong_tokens = 0;     ///< tokens of these
  std::vector<Quantile> quantiles;
  std::vector<LengthBin> bins;  ///< 0, 1, 2..3, 4..7, ...: from the first to the last with a document
  int64_t steps = 0;            ///< of plain packing that were looked at
  Spread micro_batches;         ///< of sequences; 0 where there are no steps
  Spread pools;                 ///< of buckets, slots as they come
  bool operator==(const Inspection&) const = default;
};

/// Looks at lengths: counts, quantiles, a histogram by powers of two, and at most `max_steps` steps of plain packing.
/// The work of an over-long document is that of its pieces of one window, whatever the policy. Reads of the inputs all
/// but strategy. Cost: O(n log n). Errors: as plan_step.
Inspection inspect_corpus(const PlanInputs& inputs, const Corpus& corpus, int64_t max_steps);

}  // namespace equipoise
