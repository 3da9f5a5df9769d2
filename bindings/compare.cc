// Measures of planned steps and of runs of them. Delays are pairs (steps, tokens) in Python.

#include "equipoise/study/compare.h"

#include "bindings/bindings.h"
#include "equipoise/planner/presets.h"

namespace equipoise::bindings {
namespace {

using DelayPairs = std::vector<std::pair<int64_t, int64_t>>;

DelayPairs delay_pairs(const std::vector<DelayCount>& delays) {
  DelayPairs pairs;
  for (const DelayCount& delay : delays) pairs.emplace_back(delay.steps, delay.tokens);
  return pairs;
}

std::vector<DelayCount> delay_counts(const DelayPairs& pairs) {
  std::vector<DelayCount> delays;
  for (const auto& [steps, tokens] : pairs) delays.push_back({steps, tokens});
  return delays;
}

void bind_step(nb::module_& module) {
  nb::class_<StepMeasures>(module, "StepMeasures")
      .def(nb::init<>())
      .def_rw("step", &StepMeasures::step)
      .def_rw("ending", &StepMeasures::ending)
      .def_rw("documents", &StepMeasures::documents)
      .def_rw("sequences", &StepMeasures::sequences)
      .def_rw("heaviest_ns", &StepMeasures::heaviest_ns)
      .def_rw("total_ns", &StepMeasures::total_ns)
      .def_rw("bound_ns", &StepMeasures::bound_ns)
      .def_rw("tokens", &StepMeasures::tokens)
      .def_prop_rw(
          "delays", [](const StepMeasures& step) { return delay_pairs(step.delays); },
          [](StepMeasures& step, const DelayPairs& pairs) { step.delays = delay_counts(pairs); })
      .def_rw("held_tokens", &StepMeasures::held_tokens)
      .def_rw("held_steps", &StepMeasures::held_steps)
      .def_rw("truncated_tokens", &StepMeasures::truncated_tokens)
      .def_rw("dropped_tokens", &StepMeasures::dropped_tokens)
      .def_rw("step_ns", &StepMeasures::step_ns)
      .def_rw("mean_sent_bytes", &StepMeasures::mean_sent_bytes)
      .def_rw("max_sent_bytes", &StepMeasures::max_sent_bytes);
}

void bind_run(nb::module_& module) {
  nb::class_<RunMeasures>(module, "RunMeasures")
      .def_ro("steps", &RunMeasures::steps)
      .def_ro("imbalance_ppm", &RunMeasures::imbalance_ppm)
      .def_ro("imbalance_p95_ppm", &RunMeasures::imbalance_p95_ppm)
      .def_ro("weighted_imbalance_ppm", &RunMeasures::weighted_imbalance_ppm)
      .def_ro("bound_ppm", &RunMeasures::bound_ppm)
      .def_ro("gap_ppm", &RunMeasures::gap_ppm)
      .def_ro("tokens", &RunMeasures::tokens)
      .def_ro("delayed_tokens", &RunMeasures::delayed_tokens)
      .def_ro("mean_delay_ppm", &RunMeasures::mean_delay_ppm)
      .def_ro("worst_delay_steps", &RunMeasures::worst_delay_steps)
      .def_prop_ro("delays", [](const RunMeasures& run) { return delay_pairs(run.delays); })
      .def_ro("time_ns", &RunMeasures::time_ns)
      .def_ro("token_ps", &RunMeasures::token_ps)
      .def_ro("token_work_ps", &RunMeasures::token_work_ps)
      .def_ro("mean_sent_bytes", &RunMeasures::mean_sent_bytes)
      .def_ro("max_sent_bytes", &RunMeasures::max_sent_bytes)
      .def_ro("ending_steps", &RunMeasures::ending_steps)
      .def_ro("ending_tokens", &RunMeasures::ending_tokens)
      .def_ro("documents", &RunMeasures::documents)
      .def_ro("held_tokens", &RunMeasures::held_tokens)
      .def_ro("truncated_tokens", &RunMeasures::truncated_tokens)
      .def_ro("dropped_tokens", &RunMeasures::dropped_tokens);
}

}  // namespace

void init_compare(nb::module_& module) {
  bind_step(module);
  bind_run(module);
  module.def("measure_step", &measure_step, Unlocked());
  module.def("measure_run", [](const std::vector<StepMeasures>& steps) { return measure_run(steps); });
  module.def("speed_up_ppm", &speed_up_ppm);
  module.def("shares_attention", [](const PlanInputs& inputs) { return options_of(inputs.strategy).pool; });
}

}  // namespace equipoise::bindings
