// Whole runs of small random instances under every packing: checked step by step by the verifier, by their sums, and
// where trying all ways is quick, against the optimum. EQUIPOISE_SWEEP=1000000 sweeps as many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"
#include "equipoise/verify/verify.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

struct Instance {
  PlanInputs inputs;
  std::vector<int64_t> lengths;
};

Delay random_delay(SplitMix64& rng, Strategy strategy, int64_t window) {
  Delay delay{.max_delay_steps = default_max_delay(strategy), .queue_tokens = {}};
  if (strategy == Strategy::equipoise) delay.max_delay_steps = random_between(rng, 0, 5);
  if (strategy == Strategy::wlb && random_between(rng, 0, 2) == 0) delay.max_delay_steps = random_between(rng, 0, 4);
  if (strategy == Strategy::fixed) delay.repack_window_steps = random_between(rng, 1, 4);
  if (strategy == Strategy::wlb)
    for (int64_t tokens = window; random_between(rng, 0, 3) > 0 && tokens > 1;)
      delay.queue_tokens.insert(delay.queue_tokens.begin(), tokens -= random_between(rng, 1, tokens - 1));
  return delay;
}

std::vector<int64_t> lengths_for(SplitMix64& rng, int64_t window) {
  const int64_t shape = random_between(rng, 0, 4);
  std::vector<int64_t> lengths(random_between(rng, 0, 60));
  for (int64_t& length : lengths) {
    const bool outlier = random_between(rng, 0, 9) == 0;
    switch (shape) {
      case 0: length = random_between(rng, 0, window); break;
      case 1: length = outlier ? window : random_between(rng, 0, window / 8); break;
      case 2: length = window / 2 + random_between(rng, 0, 1); break;
      case 3: length = outlier ? random_between(rng, window, 3 * window) : random_between(rng, 1, window / 2); break;
      default: length = window / random_between(rng, 1, 6); break;
    }
  }
  return lengths;
}

Instance random_instance(uint64_t seed) {
  SplitMix64 rng{seed};
  constexpr Strategy strategies[] = {Strategy::plain, Strategy::fixed, Strategy::wlb, Strategy::equipoise};
  Instance instance;
  PlanInputs& inputs = instance.inputs;
  inputs.strategy = strategies[random_between(rng, 0, 3)];
  inputs.pool = random_between(rng, 1, 2);
  inputs.mesh.dp = inputs.pool * random_between(rng, 1, 2);
  inputs.micro_steps = random_between(rng, 1, 3);
  inputs.dp_sync = random_between(rng, 0, 1) == 0 ? DpSync::step : DpSync::micro_step;
  const int64_t window = random_between(rng, 8, 200);
  inputs.limits.window_tokens = window;
  inputs.limits.max_tokens = window + (random_between(rng, 0, 1) == 0 ? 0 : random_between(rng, 0, window));
  if (random_between(rng, 0, 4) == 0) inputs.limits.max_documents = random_between(rng, 1, 8);
  constexpr Overlong policies[] = {Overlong::split, Overlong::truncate, Overlong::drop};
  inputs.arrival.overlong = policies[random_between(rng, 0, 2)];
  inputs.arrival.shuffle = random_between(rng, 0, 1) == 0;
  inputs.arrival.seed = static_cast<int64_t>(seed);
  inputs.delay = random_delay(rng, inputs.strategy, window);
  inputs.cost.attention.tile_rows = random_between(rng, 1, 8);
  inputs.cost.attention.tile_keys = random_between(rng, 1, 8);
  inputs.cost.attention.tile_ps = {{0, 40'000}};
  inputs.cost.attention.entry_ns = random_between(rng, 0, 100);
  inputs.cost.linear.token_ps = {{0, random_between(rng, 0, 1) * 1'000'000}};
  instance.lengths = lengths_for(rng, window);
  return instance;
}

/// Time of the slowest sequence in the best packing of the step's segments under its caps, by trying all.
struct Exhaustive {
  const PlanInputs& inputs;
  std::vector<int64_t> times;
  std::vector<int64_t> tokens;
  std::vector<int64_t> load_ns;
  std::vector<int64_t> load_tokens;
  std::vector<int64_t> load_segments;
  int64_t best_ns = no_limit;

  void place(size_t piece) {
    const int64_t slowest = *std::max_element(load_ns.begin(), load_ns.end());
    if (slowest >= best_ns) return;
    if (piece == times.size()) {
      best_ns = slowest;
      return;
    }
    for (size_t s = 0; s < load_ns.size(); ++s) {
      if (load_tokens[s] + tokens[piece] > inputs.limits.max_tokens) continue;
      if (load_segments[s] == inputs.limits.max_documents) continue;
      const bool empty = load_segments[s] == 0;
      load_ns[s] += times[piece];
      load_tokens[s] += tokens[piece];
      ++load_segments[s];
      place(piece + 1);
      load_ns[s] -= times[piece];
      load_tokens[s] -= tokens[piece];
      --load_segments[s];
      if (empty) break;  // empty sequences are alike
    }
  }
};

struct Counts {
  int64_t steps = 0;
  int64_t refused = 0;  ///< instances that have no plan
  int64_t compared = 0;
  int64_t optimal = 0;
  int64_t late = 0;  ///< pieces that waited
  std::map<Strategy, int64_t> runs;
};

/// Bound <= optimum <= result: the stated gap, result less bound, holds the distance to the optimum.
void compare_with_optimum(const PlanInputs& inputs, const StepPlan& step, Counts& counts) {
  const size_t sequences = step.sequences.size();
  Exhaustive search{inputs, {}, {}, std::vector<int64_t>(sequences, 0), {}, {}};
  search.load_tokens = search.load_segments = search.load_ns;
  int64_t total_ns = 0;
  int64_t slowest_ns = 0;
  int64_t heaviest_ns = 0;
  for (const Sequence& sequence : step.sequences) {
    int64_t time_ns = 0;
    for (const Segment& segment : sequence.segments) {
      search.times.push_back(document_time_ns(inputs, segment.length_tokens));
      search.tokens.push_back(segment.length_tokens);
      heaviest_ns = std::max(heaviest_ns, search.times.back());
      time_ns += search.times.back();
    }
    total_ns += time_ns;
    slowest_ns = std::max(slowest_ns, time_ns);
  }
  if (search.times.size() > 9 || sequences > 3) return;
  search.place(0);
  const int64_t bound_ns = std::max(heaviest_ns, ceil_div(total_ns, static_cast<int64_t>(sequences)));
  EXPECT_LE(bound_ns, search.best_ns);
  EXPECT_LE(search.best_ns, slowest_ns);
  ++counts.compared;
  counts.optimal += search.best_ns == slowest_ns ? 1 : 0;
}

/// What a failure needs to be read.
std::string describe(uint64_t seed) {
  const auto [inputs, lengths] = random_instance(seed);
  std::string text;
  for (const auto& [field, value] : input_fields(inputs))
    if (field != "cost.model" && field != "cost.hardware") text += field + "=" + value + " ";
  text += "lengths";
  for (const int64_t length : lengths) text += " " + std::to_string(length);
  return text;
}

std::string first_of(const Violations& found) {
  return found.empty() ? "" : found[0].rule + ", " + found[0].where + ": " + found[0].what;
}

/// Plans the instance to its end. Over the run every admitted token is trained once.
void sweep(uint64_t seed, Counts& counts) {
  const auto [inputs, lengths] = random_instance(seed);
  const Corpus corpus = make_corpus(lengths, inputs.arrival);
  int64_t left_tokens = 0;
  for (const int64_t length : lengths) left_tokens += length;
  const bool whole = inputs.strategy == Strategy::wlb || inputs.delay.max_delay_steps > 0;
  PackerState state;
  while (!is_finished(corpus, state)) {
    StepPlan step;
    try {
      step = plan_step(inputs, corpus, state);
    } catch (const InputError&) {
      ++counts.refused;
      return;
    }
    ASSERT_EQ(first_of(verify_step(inputs, state, step, {})), "") << "step " << step.step;
    for (const Sequence& sequence : step.sequences) left_tokens -= sequence.tokens();
    for (const auto& [document, tokens] : step.untrained.truncated) left_tokens -= tokens;
    for (const auto& [document, tokens] : step.untrained.dropped) left_tokens -= tokens;
    if (whole) compare_with_optimum(inputs, step, counts);
    state = std::move(step.state_after);
    counts.late += std::ssize(state.held);
    ++counts.steps;
    ASSERT_LT(state.step, 1000) << "the run does not end";
  }
  EXPECT_EQ(left_tokens, 0);
  ++counts.runs[inputs.strategy];
}

TEST(PackingSweep, EveryRunOfASmallInstanceIsValidAndItsStatedGapHoldsTheOptimum) {
  const char* wanted = std::getenv("EQUIPOISE_SWEEP");
  const int64_t instances = wanted == nullptr ? random_runs<int64_t>(10'000) : std::stoll(wanted);
  Counts counts;
  for (int64_t seed = 0; seed < instances; ++seed) {
    SCOPED_TRACE("instance " + std::to_string(seed) + ", " + describe(seed));
    sweep(static_cast<uint64_t>(seed), counts);
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%ld instances, %ld steps; %ld pieces held, %ld instances refused; %ld steps compared, %ld optimal\n",
              instances, counts.steps, counts.late, counts.refused, counts.compared, counts.optimal);
  EXPECT_GT(counts.late, instances);
  EXPECT_LT(counts.refused, instances / 20);
  for (const auto& [strategy, runs] : counts.runs) EXPECT_GT(runs, instances / 8) << name(strategy);
  EXPECT_GT(counts.compared, instances / 4);
  EXPECT_GT(counts.optimal, counts.compared * 8 / 10);
}

}  // namespace
}  // namespace equipoise
