// `equipoise compare`: the same documents under several strategies, one row each.
#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/commands.h"
#include "cli/planning_flags.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/tuning.h"
#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"
#include "io/reports.h"

namespace equipoise {
namespace {

constexpr const char* columns =
    "Columns of the table:\n"
    "imbalance: predicted time of a step's heaviest sequence over the mean, on one rank each, before pools share work\n"
    "p95, W: what 95 of 100 steps do not exceed; the mean weighted with the time of steps, which is the time lost\n"
    "bound, gap: what no packing of the same pieces is below, mean; imbalance less bound\n"
    "delay, worst: steps from arrival to training, mean of tokens; of any document, for those held the least left\n"
    "work: time of all sequences per token, over the first strategy's: cut documents have less attention to compute\n"
    "a token: predicted time of a step per token, without pipeline bubbles and gradient reduction\n"
    "speed-up: of that time, over the first strategy\n"
    "sent: bytes that a rank sends in the forward pass of a step, mean\n"
    "planning: time of packing and placement of a step on this machine, mean\n"
    "pool: replicas that share attention; 1 where a strategy shares none\n"
    "ending: steps after which no document is left to arrive; only worst counts them above, if there are others\n"
    "held: tokens that wait after the last step";

struct CompareFlags {
  PlanningFlags planning;
  std::string strategies = "plain,fixed,wlb,equipoise";
  bool json = false;
};

/// An option that none of the strategies has is refused, so that none is ignored in silence.
void check_options(const CompareFlags& flags, const std::vector<Strategy>& strategies) {
  const PlanningFlags& given = flags.planning;
  const auto check = [&](bool is_given, bool StrategyOptions::* option, const std::string& flag) {
    const auto has = [&](Strategy strategy) { return options_of(strategy).*option; };
    if (is_given && std::none_of(strategies.begin(), strategies.end(), has))
      throw InputError("no strategy of " + flags.strategies + " has " + flag, "option " + flag,
                       "leave it out, or compare a strategy that has it");
  };
  check(given.pool.has_value(), &StrategyOptions::pool, "--pool");
  check(given.max_delay.has_value(), &StrategyOptions::max_delay, "--max-delay");
  check(given.repack_window != PlanningFlags{}.repack_window, &StrategyOptions::repack_window, "--repack-window");
  check(!given.queues.empty(), &StrategyOptions::queues, "--queues");
  check(given.mean_delay.has_value(), &StrategyOptions::queues, "--mean-delay");
}

/// The flags as one strategy takes them: without the options that it does not have. Replicas that share no attention
/// are pools of one.
PlanInputs inputs_of(PlanningFlags flags, Strategy strategy) {
  const StrategyOptions has = options_of(strategy);
  flags.strategy = name(strategy);
  if (!has.pool) flags.pool = 1;
  if (!has.max_delay) flags.max_delay.reset();
  if (!has.repack_window) flags.repack_window = PlanningFlags{}.repack_window;
  if (!has.queues) flags.queues.clear();
  return make_inputs(flags);
}

ComparedStrategy run_strategy(const PlanInputs& inputs, const Corpus& corpus, int64_t most_steps) {
  using Clock = std::chrono::steady_clock;
  ComparedStrategy result{.inputs = inputs, .steps = {}, .planning_ns = {}, .run = {}};
  Progress progress("planning " + std::string(name(inputs.strategy)));
  PackerState state;
  while (!is_finished(corpus, state) && state.step < most_steps) {
    const auto began = Clock::now();
    StepPlan step = plan_step(inputs, corpus, state);
    const std::chrono::nanoseconds took = Clock::now() - began;
    result.planning_ns.push_back(took.count());
    result.steps.push_back(measure_step(inputs, corpus, state, step));
    state = std::move(step.state_after);
    progress.show(state.position, static_cast<int64_t>(corpus.order.size()), "documents");
  }
  result.run = measure_run(result.steps);
  return result;
}

/// 1 where either has no work.
int64_t work_ppm(const RunMeasures& first, const RunMeasures& run) {
  if (first.token_work_ps == 0 || run.token_work_ps == 0) return ppm_one;
  return mul_div(run.token_work_ps, ppm_one, first.token_work_ps);
}

Table balance_table(const CompareReport& report) {
  Table table{{"strategy", "imbalance", "p95", "W", "bound", "gap", "delay", "worst", "work", "a token", "speed-up",
               "sent", "planning"},
              {}};
  const RunMeasures& first = report.strategies.front().run;
  for (const ComparedStrategy& strategy : report.strategies) {
    const RunMeasures& run = strategy.run;
    table.rows.push_back({std::string(name(strategy.inputs.strategy)), ratio_text(run.imbalance_ppm),
                          ratio_text(run.imbalance_p95_ppm), ratio_text(run.weighted_imbalance_ppm),
                          ratio_text(run.bound_ppm), ratio_text(run.gap_ppm), ratio_text(run.mean_delay_ppm),
                          grouped(run.worst_delay_steps), ratio_text(work_ppm(first, run)),
                          time_text(run.token_ps / 1000), ratio_text(speed_up_ppm(first, run)),
                          bytes_text(run.mean_sent_bytes), time_text(mean_planning_ns(strategy))});
  }
  return table;
}

/// What each strategy trained: where these differ, times compare unequal work.
Table token_table(const CompareReport& report) {
  Table table{{"strategy", "pool", "steps", "tokens", "delayed", "ending steps", "ending tokens", "documents", "held",
               "truncated", "dropped"},
              {}};
  for (const ComparedStrategy& strategy : report.strategies) {
    const RunMeasures& run = strategy.run;
    table.rows.push_back({std::string(name(strategy.inputs.strategy)), grouped(strategy.inputs.pool),
                          grouped(run.steps), grouped(run.tokens), grouped(run.delayed_tokens),
                          grouped(run.ending_steps), grouped(run.ending_tokens), grouped(run.documents),
                          grouped(run.held_tokens), grouped(run.truncated_tokens), grouped(run.dropped_tokens)});
  }
  return table;
}

std::string report_text(const CompareFlags& flags, const CompareReport& report, bool colour) {
  const auto pooled = std::max_element(
      report.strategies.begin(), report.strategies.end(),
      [](const ComparedStrategy& a, const ComparedStrategy& b) { return a.inputs.pool < b.inputs.pool; });
  return render(shown_inputs(flags.planning, pooled->inputs)) + "\n" + tuned_text(report.tuned, colour) +
         render(balance_table(report), colour) + "\n" + render(token_table(report), colour);
}

int run_compare(const CompareFlags& flags) {
  const std::vector<Strategy> strategies = parse_strategies(flags.strategies);
  check_options(flags, strategies);
  std::vector<PlanInputs> inputs;
  for (const Strategy strategy : strategies) inputs.push_back(inputs_of(flags.planning, strategy));
  const Corpus corpus = read_corpus(flags.planning, inputs.front());
  for (const PlanInputs& one : inputs) check_corpus(one, corpus);
  if (corpus.documents.empty())
    throw InputError("there is no step to plan", flags.planning.lengths, "give at least one document and one step");
  CompareReport report{.default_hardware = flags.planning.hardware.empty(),
                       .documents = static_cast<int64_t>(corpus.documents.size()),
                       .strategies = {},
                       .tuned = {}};
  for (PlanInputs& one : inputs)
    if (options_of(one.strategy).queues) report.tuned = tune(flags.planning, corpus, one);
  const int64_t most_steps = step_limit(flags.planning);
  for (const PlanInputs& one : inputs) report.strategies.push_back(run_strategy(one, corpus, most_steps));
  print(flags.json ? report_json(report) : report_text(flags, report, shows_colour()));
  return 0;
}

}  // namespace

void add_compare(CLI::App& program, Run& run) {
  CLI::App* const command =
      program.add_subcommand("compare", "Plan the same documents under several strategies, one row each");
  const auto flags = std::make_shared<CompareFlags>();
  command->footer(columns);
  add_corpus_flags(*command, flags->planning);
  command->add_option("--strategies", flags->strategies, "What to compare, by name [plain,fixed,wlb,equipoise]");
  add_strategy_options(*command, flags->planning);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &run] { run = [flags] { return run_compare(*flags); }; });
}

}  // namespace equipoise
