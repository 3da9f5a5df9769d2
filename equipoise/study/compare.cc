// Strategies are compared by what their steps are predicted to cost and by how long tokens wait for them. A step is
// measured by itself; a run is its steps added up, without those that only finish what is left of the corpus.
#include "equipoise/study/compare.h"

#include <algorithm>
#include <map>

#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/planner/planner.h"
#include "equipoise/study/planned_step.h"

namespace equipoise {
namespace {

__extension__ typedef __int128 Wide;

using DelayTokens = std::map<int64_t, int64_t>;  ///< tokens by delay

std::vector<DelayCount> counts_of(const DelayTokens& tokens) {
  std::vector<DelayCount> counts;
  for (const auto& [steps, count] : tokens) counts.push_back({steps, count});
  return counts;
}

void measure_sequences(const PlanInputs& inputs, const StepPlan& step, StepMeasures& measures) {
  measures.sequences = static_cast<int64_t>(step.sequences.size());
  for (const Sequence& sequence : step.sequences) {
    int64_t time = 0;
    for (const Segment& segment : sequence.segments) {
      const int64_t alone = document_time_ns(inputs, segment.length_tokens);
      measures.bound_ns = std::max(measures.bound_ns, alone);
      time += alone;
    }
    measures.heaviest_ns = std::max(measures.heaviest_ns, time);
    measures.total_ns += time;
  }
  measures.bound_ns = std::max(measures.bound_ns, ceil_div(measures.total_ns, measures.sequences));
}

void measure_delays(const PackerState& before, const StepPlan& step, StepMeasures& measures) {
  std::map<DocId, int64_t> arrival;  // of those held before; pieces of a document arrive together
  for (const Held& piece : before.held) arrival.emplace(piece.document, piece.since_step);
  DelayTokens delays;
  for (const Sequence& sequence : step.sequences)
    for (const Segment& segment : sequence.segments) {
      const auto held = arrival.find(segment.document);
      delays[held == arrival.end() ? 0 : step.step - held->second] += segment.length_tokens;
    }
  measures.delays = counts_of(delays);
  for (const Held& piece : step.state_after.held) {
    measures.held_tokens += piece.length_tokens;
    measures.held_steps = std::max(measures.held_steps, step.step + 1 - piece.since_step);
  }
}

void predict_costs(const PlanInputs& inputs, const StepPlan& step, StepMeasures& measures) {
  const StepSummary summary = summarize(inputs, step, plan_buckets(inputs, step));
  measures.tokens = summary.tokens;
  measures.step_ns = summary.step_ns;
  measures.mean_sent_bytes = summary.mean_sent_bytes;
  measures.max_sent_bytes = summary.max_sent_bytes;
}

/// `time_ns` of one sequence over the mean; 1 where nothing takes time.
int64_t over_mean_ppm(const StepMeasures& step, int64_t time_ns) {
  if (step.total_ns == 0) return ppm_one;
  return static_cast<int64_t>(static_cast<Wide>(time_ns) * step.sequences * ppm_one / step.total_ns);
}

void add_balance(std::span<const StepMeasures> steps, RunMeasures& run) {
  Wide imbalance = 0;
  Wide bound = 0;
  Wide heaviest = 0;
  Wide total = 0;
  std::vector<int64_t> sorted;
  for (const StepMeasures& step : steps) {
    sorted.push_back(over_mean_ppm(step, step.heaviest_ns));
    imbalance += sorted.back();
    bound += over_mean_ppm(step, step.bound_ns);
    heaviest += static_cast<Wide>(step.heaviest_ns) * step.sequences;
    total += step.total_ns;
  }
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<int64_t>(steps.size());
  run.imbalance_ppm = static_cast<int64_t>(imbalance / count);
  run.imbalance_p95_ppm = sorted[static_cast<size_t>(ceil_div(95 * count, 100) - 1)];
  run.weighted_imbalance_ppm = total == 0 ? ppm_one : static_cast<int64_t>(heaviest * ppm_one / total);
  run.bound_ppm = static_cast<int64_t>(bound / count);
  run.gap_ppm = static_cast<int64_t>((imbalance - bound) / count);
}

void add_delays(std::span<const StepMeasures> steps, RunMeasures& run) {
  DelayTokens tokens;
  for (const StepMeasures& step : steps)
    for (const DelayCount& delay : step.delays) tokens[delay.steps] += delay.tokens;
  Wide waited = 0;
  for (const auto& [delay, count] : tokens) {
    run.tokens += count;
    run.delayed_tokens += delay > 0 ? count : 0;
    waited += static_cast<Wide>(delay) * count;
  }
  run.mean_delay_ppm = run.tokens == 0 ? 0 : static_cast<int64_t>(waited * ppm_one / run.tokens);
  run.delays = counts_of(tokens);
}

void add_costs(std::span<const StepMeasures> steps, RunMeasures& run) {
  Wide sent = 0;
  int64_t work_ns = 0;
  for (const StepMeasures& step : steps) {
    run.time_ns += step.step_ns;
    work_ns += step.total_ns;
    sent += step.mean_sent_bytes;
    run.max_sent_bytes = std::max(run.max_sent_bytes, step.max_sent_bytes);
  }
  const int64_t tokens = std::max<int64_t>(1, run.tokens);
  run.token_ps = mul_div(run.time_ns, 1000, tokens);
  run.token_work_ps = mul_div(work_ns, 1000, tokens);
  run.mean_sent_bytes = static_cast<int64_t>(sent / static_cast<int64_t>(steps.size()));
}

/// What is told of all steps.
void add_accounts(std::span<const StepMeasures> steps, RunMeasures& run) {
  for (const StepMeasures& step : steps) {
    run.documents += step.documents;
    run.truncated_tokens += step.truncated_tokens;
    run.dropped_tokens += step.dropped_tokens;
    if (!step.delays.empty()) run.worst_delay_steps = std::max(run.worst_delay_steps, step.delays.back().steps);
  }
  run.held_tokens = steps.back().held_tokens;
  run.worst_delay_steps = std::max(run.worst_delay_steps, steps.back().held_steps);
}

}  // namespace

StepMeasures measure_step(const PlanInputs& inputs, const Corpus& corpus, const PackerState& before,
                          const StepPlan& step) {
  StepMeasures measures;
  measures.step = step.step;
  measures.ending = step.state_after.position == static_cast<int64_t>(corpus.order.size());
  measures.documents = step.arrived.second - step.arrived.first;
  measure_sequences(inputs, step, measures);
  measure_delays(before, step, measures);
  for (const auto& [document, tokens] : step.untrained.truncated) measures.truncated_tokens += tokens;
  for (const auto& [document, tokens] : step.untrained.dropped) measures.dropped_tokens += tokens;
  predict_costs(inputs, step, measures);
  return measures;
}

RunMeasures measure_run(std::span<const StepMeasures> steps) {
  RunMeasures run;
  if (steps.empty()) {
    run.imbalance_ppm = run.imbalance_p95_ppm = run.weighted_imbalance_ppm = run.bound_ppm = ppm_one;
    return run;
  }
  const auto end = std::find_if(steps.begin(), steps.end(), [](const StepMeasures& step) { return step.ending; });
  const auto before_end = static_cast<size_t>(end - steps.begin());
  const auto measured = steps.first(before_end == 0 ? steps.size() : before_end);
  run.steps = static_cast<int64_t>(measured.size());
  add_balance(measured, run);
  add_delays(measured, run);
  add_costs(measured, run);
  run.ending_steps = static_cast<int64_t>(steps.size()) - run.steps;
  for (const StepMeasures& step : steps.subspan(measured.size())) run.ending_tokens += step.tokens;
  add_accounts(steps, run);
  return run;
}

int64_t speed_up_ppm(const RunMeasures& first, const RunMeasures& run) {
  if (first.token_ps == 0 || run.token_ps == 0) return ppm_one;
  return mul_div(first.token_ps, ppm_one, run.token_ps);
}

}  // namespace equipoise
