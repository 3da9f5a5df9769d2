// `equipoise advise --pool-size`: the same steps in pools of every size, one row each, and the size to take.
#include <memory>

#include "cli/commands.h"
#include "cli/planning_flags.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "io/reports.h"

namespace equipoise {
namespace {

constexpr const char* columns =
    "Columns of the table:\n"
    "pool: replicas that share attention, every divisor of dp\n"
    "imbalance: attention time that pools wait for over their mean, before ranks of a pool share it, mean of the "
    "steps\n"
    "CV: standard deviation over mean of the attention time of a step's sequences, mean\n"
    "chance: imbalance to expect if sequences met in pools at random: 1 + CV sqrt(2 ln(pools) / sequences of a pool)\n"
    "sent, most: bytes that a rank sends in the forward pass of a step, mean; by any rank in any step\n"
    "held: bytes of exchange buffers that a rank holds at once, the most of any rank in any step\n"
    "exposed: time of a step in which its slowest pool only exchanges, mean\n"
    "step, a token: predicted time, without pipeline bubbles and gradient reduction\n"
    "A step after which no document is left to arrive is left out, unless it is the first.";

constexpr int64_t default_steps = 8;

struct AdviseFlags {
  PlanningFlags planning;
  bool pool_size = false;
  bool json = false;
};

std::vector<PoolMeasures> measure_sizes(PlanInputs inputs, const Corpus& corpus, int64_t most_steps) {
  const std::vector<int64_t> sizes = pool_sizes(inputs.mesh.dp);
  std::vector<PoolMeasures> measured;
  Progress progress("planning");
  for (const int64_t size : sizes) {
    inputs.pool = size;
    measured.push_back(measure_pool(inputs, corpus, most_steps));
    progress.show(static_cast<int64_t>(measured.size()), static_cast<int64_t>(sizes.size()), "sizes of pools");
  }
  return measured;
}

/// ", pools of 4, 8 leave a node of 4 ranks"; empty where none does.
std::string leaving_text(const AdviseReport& report) {
  std::string sizes;
  for (const PoolMeasures& one : report.sizes)
    if (one.leaves_node) sizes += (sizes.empty() ? "" : ", ") + std::to_string(one.pool);
  if (sizes.empty()) return "";
  return "; pools of " + sizes + " leave a node of " + std::to_string(report.inputs.mesh.ranks_per_node) + " ranks";
}

/// Why the size is chosen, one sentence.
std::string reason_text(const AdviseReport& report) {
  const PoolMeasures& chosen = report.sizes[report.choice.chosen];
  const PoolMeasures& fastest = report.sizes[report.choice.fastest];
  const PoolMeasures& single = report.sizes.front();
  std::string reason = "pools of " + std::to_string(chosen.pool) + ": ";
  if (fastest.pool == single.pool)
    reason += "no larger pool is faster";
  else if (chosen.pool == fastest.pool)
    reason += "the fastest, " + ratio_text(mul_div(single.token_ps, ppm_one, chosen.token_ps)) +
              " times as fast as pools of 1";
  else
    reason += percent_text(mul_div(chosen.token_ps - fastest.token_ps, ppm_one, fastest.token_ps)) +
              " slower than the fastest, pools of " + std::to_string(fastest.pool) +
              ", but their exchange stays in a smaller domain";
  return reason + leaving_text(report);
}

std::string mark(const AdviseReport& report, size_t size) {
  if (size == report.choice.chosen) return "chosen";
  return size == report.choice.fastest ? "fastest" : "";
}

Table size_table(const AdviseReport& report) {
  Table table{{"pool", "imbalance", "CV", "chance", "sent", "most", "held", "exposed", "step", "a token", "node", ""},
              {}};
  for (size_t s = 0; s < report.sizes.size(); ++s) {
    const PoolMeasures& size = report.sizes[s];
    table.rows.push_back({grouped(size.pool), ratio_text(size.imbalance_ppm), ratio_text(size.variation_ppm),
                          ratio_text(size.chance_ppm), bytes_text(size.mean_sent_bytes),
                          bytes_text(size.max_sent_bytes), bytes_text(size.held_bytes), time_text(size.exchange_ns),
                          time_text(size.step_ns), time_text(size.token_ps / 1000),
                          size.leaves_node ? "leaves" : "inside", mark(report, s)});
  }
  return table;
}

std::string report_text(const AdviseFlags& flags, const AdviseReport& report, bool colour) {
  Pairs pairs = shown_inputs(flags.planning, report.inputs);
  pairs.emplace_back("steps",
                     grouped(report.sizes.front().steps) + " of strategy " + std::string(name(report.inputs.strategy)));
  pairs.emplace_back("advice", report.reason);
  return render(pairs) + "\n" + render(size_table(report), colour);
}

int run_advise(const AdviseFlags& flags) {
  if (!flags.pool_size)
    throw InputError("it was not said what to advise on", "command line",
                     "give --pool-size, the one question that is answered so far");
  PlanInputs inputs = make_inputs(flags.planning);
  const Corpus corpus = read_corpus(flags.planning, inputs);
  const int64_t most_steps = flags.planning.steps ? step_limit(flags.planning) : default_steps;
  AdviseReport report{.inputs = inputs,
                      .default_hardware = flags.planning.hardware.empty(),
                      .documents = static_cast<int64_t>(corpus.documents.size()),
                      .sizes = measure_sizes(inputs, corpus, most_steps),
                      .choice = {},
                      .reason = ""};
  if (report.sizes.front().steps == 0)
    throw InputError("there is no step to plan", flags.planning.lengths, "give at least one document and one step");
  report.choice = choose_pool(report.sizes);
  report.inputs.pool = report.sizes[report.choice.chosen].pool;
  report.reason = reason_text(report);
  print(flags.json ? report_json(report) : report_text(flags, report, shows_colour()));
  return 0;
}

/// The sizes of pools are the question, and only other strategies have queues or repack.
void remove_flags(CLI::App& command) {
  for (const char* flag : {"--pool", "--queues", "--mean-delay", "--repack-window"})
    command.remove_option(command.get_option(flag));
}

}  // namespace

void add_advise(CLI::App& program, Run& run) {
  CLI::App* const command =
      program.add_subcommand("advise", "Plan the same steps in pools of every size and choose one");
  const auto flags = std::make_shared<AdviseFlags>();
  command->footer(columns);
  add_corpus_flags(*command, flags->planning);
  command->get_option("--steps")->description("Optimizer steps at most [" + std::to_string(default_steps) + "]");
  command->add_flag("--pool-size", flags->pool_size, "Advise on the number of replicas that share attention");
  add_strategy_options(*command, flags->planning);
  remove_flags(*command);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &run] { run = [flags] { return run_advise(*flags); }; });
}

}  // namespace equipoise
