// A look at a corpus before any training. Attention work grows with the square of a length, so the histogram shows for
// each length both its share of tokens and its share of work; the distance between the two is what balancing is for.
#include "equipoise/study/inspect.h"

#include <algorithm>
#include <array>
#include <bit>

#include "equipoise/base/integers.h"
#include "equipoise/model/workload.h"
#include "equipoise/planner/planner.h"

namespace equipoise {
namespace {

__extension__ typedef __int128 Wide;

constexpr std::array<int64_t, 8> shown_thousandths = {0, 100, 250, 500, 900, 990, 999, 1000};

std::vector<Quantile> quantiles_of(const Corpus& corpus) {
  std::vector<Quantile> quantiles;
  std::vector<int64_t> lengths;
  for (const Document& document : corpus.documents) lengths.push_back(document.length_tokens);
  if (lengths.empty()) return quantiles;
  std::sort(lengths.begin(), lengths.end());
  const auto count = static_cast<int64_t>(lengths.size());
  for (const int64_t thousandths : shown_thousandths) {
    const int64_t rank = std::max<int64_t>(1, ceil_div(count * thousandths, 1000));
    quantiles.push_back({thousandths, lengths[static_cast<size_t>(rank - 1)]});
  }
  return quantiles;
}

/// Pairs over all layers of a document that is cut into pieces of one window.
Wide work_of(const PlanInputs& inputs, int64_t length) {
  const int64_t window = inputs.limits.window_tokens;
  return static_cast<Wide>(length / window) * layered_pairs(inputs.masks, window) +
         layered_pairs(inputs.masks, length % window);
}

int64_t share_ppm(Wide part, Wide all) { return all > 0 ? static_cast<int64_t>(part * ppm_one / all) : 0; }

/// 0 for length 0, else the number of binary digits: bin b > 0 holds 2^(b-1) .. 2^b - 1.
size_t bin_of(int64_t length) { return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(length))); }

std::vector<LengthBin> bins_of(const PlanInputs& inputs, const Corpus& corpus) {
  constexpr size_t bins = 64;
  std::array<LengthBin, bins> all{};
  std::array<Wide, bins> work{};
  Wide total_work = 0;
  int64_t total_tokens = 0;
  for (const Document& document : corpus.documents) {
    const int64_t length = document.length_tokens;
    const size_t bin = bin_of(length);
    ++all[bin].documents;
    all[bin].tokens += length;
    work[bin] += work_of(inputs, length);
    total_tokens += length;
    total_work += work_of(inputs, length);
  }
  std::vector<LengthBin> result;
  size_t last = bins;
  while (last > 0 && all[last - 1].documents == 0) --last;
  for (size_t bin = 0; bin < last; ++bin) {
    if (result.empty() && all[bin].documents == 0) continue;
    LengthBin entry = all[bin];
    entry.least_tokens = bin == 0 ? 0 : int64_t{1} << (bin - 1);
    entry.most_tokens = bin == 0 ? 0 : 2 * entry.least_tokens - 1;
    entry.tokens_ppm = share_ppm(entry.tokens, total_tokens);
    entry.work_ppm = share_ppm(work[bin], total_work);
    result.push_back(entry);
  }
  return result;
}

/// Plans steps as they come and keeps the imbalance of each.
void study_plain_packing(PlanInputs inputs, const Corpus& corpus, int64_t max_steps, Inspection& result) {
  inputs.strategy = Strategy::plain;
  inputs.delay = {};
  const auto positions = static_cast<int64_t>(corpus.order.size());
  Wide micro_batch_sum = 0;
  Wide pool_sum = 0;
  PackerState state;
  while (result.steps < max_steps && (state.position < positions || !state.held.empty())) {
    const StepPlan step = plan_step(inputs, corpus, state);
    micro_batch_sum += step.micro_batches.imbalance_ppm;
    pool_sum += step.pools.imbalance_ppm;
    result.micro_batches.max_ppm = std::max(result.micro_batches.max_ppm, step.micro_batches.imbalance_ppm);
    result.pools.max_ppm = std::max(result.pools.max_ppm, step.pools.imbalance_ppm);
    state = step.state_after;
    ++result.steps;
  }
  if (result.steps == 0) return;
  result.micro_batches.mean_ppm = static_cast<int64_t>(micro_batch_sum / result.steps);
  result.pools.mean_ppm = static_cast<int64_t>(pool_sum / result.steps);
}

}  // namespace

Inspection inspect_corpus(const PlanInputs& inputs, const Corpus& corpus, int64_t max_steps) {
  Inspection result;
  for (const Document& document : corpus.documents) {
    const int64_t length = document.length_tokens;
    const bool overlong = length > inputs.limits.window_tokens;
    result.tokens += length;
    result.empty_documents += length == 0 ? 1 : 0;
    result.overlong_documents += overlong ? 1 : 0;
    result.overlong_tokens += overlong ? length : 0;
  }
  result.documents = static_cast<int64_t>(corpus.documents.size());
  result.mean_tokens = result.documents > 0 ? result.tokens / result.documents : 0;
  result.quantiles = quantiles_of(corpus);
  result.bins = bins_of(inputs, corpus);
  study_plain_packing(inputs, corpus, max_steps, result);
  return result;
}

}  // namespace equipoise
