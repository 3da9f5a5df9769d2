// The report of `compare` as JSON: the structs of study/compare.h under their own names, delays as pairs
// [steps, tokens].
#include <numeric>

#include "io/inputs_json.h"
#include "io/reports.h"
#include "io/tuning_json.h"

namespace equipoise {
namespace {

OrderedJson delays_json(const std::vector<DelayCount>& delays) {
  OrderedJson pairs = OrderedJson::array();
  for (const DelayCount& delay : delays) pairs.push_back({delay.steps, delay.tokens});
  return pairs;
}

OrderedJson step_json(const StepMeasures& step, int64_t planning_ns) {
  return {{"step", step.step},
          {"ending", step.ending},
          {"documents", step.documents},
          {"sequences", step.sequences},
          {"heaviest_ns", step.heaviest_ns},
          {"total_ns", step.total_ns},
          {"bound_ns", step.bound_ns},
          {"tokens", step.tokens},
          {"delays", delays_json(step.delays)},
          {"held_tokens", step.held_tokens},
          {"held_steps", step.held_steps},
          {"truncated_tokens", step.truncated_tokens},
          {"dropped_tokens", step.dropped_tokens},
          {"step_ns", step.step_ns},
          {"mean_sent_bytes", step.mean_sent_bytes},
          {"max_sent_bytes", step.max_sent_bytes},
          {"planning_ns", planning_ns}};
}

OrderedJson run_json(const RunMeasures& run) {
  return {{"steps", run.steps},
          {"imbalance_ppm", run.imbalance_ppm},
          {"imbalance_p95_ppm", run.imbalance_p95_ppm},
          {"weighted_imbalance_ppm", run.weighted_imbalance_ppm},
          {"bound_ppm", run.bound_ppm},
          {"gap_ppm", run.gap_ppm},
          {"tokens", run.tokens},
          {"delayed_tokens", run.delayed_tokens},
          {"mean_delay_ppm", run.mean_delay_ppm},
          {"worst_delay_steps", run.worst_delay_steps},
          {"delays", delays_json(run.delays)},
          {"time_ns", run.time_ns},
          {"token_ps", run.token_ps},
          {"token_work_ps", run.token_work_ps},
          {"mean_sent_bytes", run.mean_sent_bytes},
          {"max_sent_bytes", run.max_sent_bytes},
          {"ending_steps", run.ending_steps},
          {"ending_tokens", run.ending_tokens},
          {"documents", run.documents},
          {"held_tokens", run.held_tokens},
          {"truncated_tokens", run.truncated_tokens},
          {"dropped_tokens", run.dropped_tokens}};
}

OrderedJson strategy_json(const ComparedStrategy& strategy, const RunMeasures& first) {
  OrderedJson steps = OrderedJson::array();
  for (size_t s = 0; s < strategy.steps.size(); ++s)
    steps.push_back(step_json(strategy.steps[s], strategy.planning_ns[s]));
  return {{"strategy", name(strategy.inputs.strategy)},     {"speed_up_ppm", speed_up_ppm(first, strategy.run)},
          {"mean_planning_ns", mean_planning_ns(strategy)}, {"run", run_json(strategy.run)},
          {"inputs", inputs_json(strategy.inputs)},         {"steps", steps}};
}

}  // namespace

int64_t mean_planning_ns(const ComparedStrategy& strategy) {
  const std::vector<int64_t>& times = strategy.planning_ns;
  if (times.empty()) return 0;
  return std::accumulate(times.begin(), times.end(), int64_t{0}) / static_cast<int64_t>(times.size());
}

std::string report_json(const CompareReport& report) {
  OrderedJson strategies = OrderedJson::array();
  for (const ComparedStrategy& strategy : report.strategies)
    strategies.push_back(strategy_json(strategy, report.strategies.front().run));
  OrderedJson json = {{"hardware", report.strategies.front().inputs.cost.hardware},
                      {"default_hardware", report.default_hardware},
                      {"documents", report.documents},
                      {"strategies", strategies}};
  put_tuned(json, report.tuned);
  return json.dump(1) + "\n";
}

}  // namespace equipoise
