// Every size of pool plans the same steps, so that sizes differ in nothing else; the fastest is advised. Larger pools
// level more and exchange over more ranks: where they gain next to nothing, the smaller size is taken.
#include "equipoise/study/advise.h"

#include <algorithm>
#include <bit>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"
#include "equipoise/study/planned_step.h"

namespace equipoise {
namespace {

__extension__ typedef __int128 Wide;

bool leaves_node(const PlanInputs& inputs) {
  const Mesh& mesh = inputs.mesh;
  for (int64_t replica = 0; replica < mesh.dp; ++replica) {
    const int64_t first = replica - replica % inputs.pool;
    for (int64_t cp_rank = 0; cp_rank < mesh.cp; ++cp_rank)
      if (!same_node(mesh, first, 0, replica, cp_rank)) return true;
  }
  return false;
}

/// Sequences of one pool between two waits of the replicas.
int64_t sequences_between_waits(const PlanInputs& inputs) {
  return inputs.dp_sync == DpSync::micro_step ? inputs.pool : inputs.pool * inputs.micro_steps;
}

/// Adds one step to sums of steps.
void add_step(const PlanInputs& inputs, const StepPlan& step, PoolMeasures& sums) {
  const std::vector<BucketPlan> buckets = plan_buckets(inputs, step);
  const StepSummary summary = summarize(inputs, step, buckets);
  std::vector<int64_t> work;
  for (const Sequence& sequence : step.sequences) work.push_back(sequence_work_ns(inputs, sequence));
  const int64_t variation = variation_ppm(work);
  sums.steps += 1;
  sums.tokens += summary.tokens;
  sums.imbalance_ppm += step.pools.imbalance_ppm;
  sums.variation_ppm += variation;
  sums.chance_ppm += chance_imbalance_ppm(variation, sequences_between_waits(inputs), inputs.mesh.dp / inputs.pool);
  sums.mean_sent_bytes += summary.mean_sent_bytes;
  sums.max_sent_bytes = std::max(sums.max_sent_bytes, summary.max_sent_bytes);
  for (const BucketPlan& bucket : buckets) sums.held_bytes = std::max(sums.held_bytes, most_held_bytes(inputs, bucket));
  sums.exchange_ns += summary.exchange_ns;
  sums.step_ns += summary.step_ns;
}

PoolMeasures mean_of(PoolMeasures sums) {
  if (sums.steps == 0) return sums;
  sums.token_ps = sums.tokens == 0 ? 0 : mul_div(sums.step_ns, 1000, sums.tokens);
  for (int64_t PoolMeasures::* sum :
       {&PoolMeasures::imbalance_ppm, &PoolMeasures::variation_ppm, &PoolMeasures::chance_ppm,
        &PoolMeasures::mean_sent_bytes, &PoolMeasures::exchange_ns, &PoolMeasures::step_ns})
    sums.*sum /= sums.steps;
  return sums;
}

/// The square root, rounded down.
int64_t root(Wide square) {
  int64_t result = 0;
  for (int64_t bit = int64_t{1} << 62; bit > 0; bit /= 2)
    if (static_cast<Wide>(result + bit) * (result + bit) <= square) result += bit;
  return result;
}

/// The natural logarithm of n >= 1 in parts per million. Squaring a number between 1 and 2 doubles its logarithm: each
/// carry is the next binary digit.
int64_t logarithm_ppm(uint64_t n) {
  constexpr int unit_bits = 31;
  constexpr int digits = 30;
  constexpr int64_t ln2_ppb = 693'147'181;
  const int whole = std::bit_width(n) - 1;
  uint64_t rest = (n << unit_bits) >> whole;
  int64_t log2 = whole;
  for (int digit = 0; digit < digits; ++digit) {
    rest = (rest * rest) >> unit_bits;
    const uint64_t carry = rest >> (unit_bits + 1);
    rest >>= carry;
    log2 = 2 * log2 + static_cast<int64_t>(carry);
  }
  return mul_div(log2, ln2_ppb, int64_t{1000} << digits);
}

}  // namespace

std::vector<int64_t> pool_sizes(int64_t dp) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= dp; ++size)
    if (dp % size == 0) sizes.push_back(size);
  return sizes;
}

PoolMeasures measure_pool(const PlanInputs& inputs, const Corpus& corpus, int64_t most_steps) {
  if (!options_of(inputs.strategy).pool)
    throw InputError("strategy '" + std::string(name(inputs.strategy)) + "' shares no attention in pools",
                     "field strategy", "use libra or equipoise");
  PoolMeasures sums{.pool = inputs.pool, .leaves_node = leaves_node(inputs)};
  const auto positions = static_cast<int64_t>(corpus.order.size());
  PackerState state;
  while (state.step < most_steps && (state.position < positions || !state.held.empty())) {
    StepPlan step = plan_step(inputs, corpus, state);
    state = std::move(step.state_after);
    if (state.position == positions && sums.steps > 0) break;
    add_step(inputs, step, sums);
  }
  return mean_of(sums);
}

PoolChoice choose_pool(std::span<const PoolMeasures> sizes) {
  const auto fastest = std::min_element(
      sizes.begin(), sizes.end(), [](const PoolMeasures& a, const PoolMeasures& b) { return a.token_ps < b.token_ps; });
  const int64_t most_ps = mul_div(fastest->token_ps, 101, 100);
  const auto chosen =
      std::find_if(sizes.begin(), sizes.end(), [&](const PoolMeasures& size) { return size.token_ps <= most_ps; });
  return {static_cast<size_t>(fastest - sizes.begin()), static_cast<size_t>(chosen - sizes.begin())};
}

int64_t variation_ppm(std::span<const int64_t> work) {
  const auto count = static_cast<int64_t>(work.size());
  int64_t total = 0;
  for (const int64_t load : work) total += load;
  if (total == 0) return 0;
  Wide squares = 0;
  for (const int64_t load : work) {
    const int64_t off = mul_div(load, count * ppm_one, total) - ppm_one;
    squares += static_cast<Wide>(off) * off;
  }
  return root(squares / count);
}

int64_t chance_imbalance_ppm(int64_t variation_ppm, int64_t sequences, int64_t pools) {
  const Wide variance = static_cast<Wide>(2) * logarithm_ppm(static_cast<uint64_t>(pools)) * ppm_one / sequences;
  return ppm_one + mul_div(variation_ppm, root(variance), ppm_one);
}

}  // namespace equipoise
