// `equipoise plan`: plans steps until the documents end, and writes the plan file line by line.
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/planning_flags.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/tuning.h"
#include "equipoise/base/errors.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/study/planned_step.h"
#include "io/files.h"
#include "io/plan_file.h"
#include "io/reports.h"

namespace equipoise {
namespace {

constexpr size_t shown_steps = 20;

constexpr const char* columns =
    "Columns of the table:\n"
    "sequences / bound: attention work of sequences, heaviest over mean; no plan is below the bound\n"
    "pools / bound: the same for what pools wait for: their sums of the step, or with --dp-sync micro_step of each "
    "micro-step\n"
    "ranks / bound: the same for the attention time of the ranks inside each pool\n"
    "moved q rows, kv rows: rows of queries, of keys and values, sent to another rank in a layer, on average\n"
    "most sent: bytes that the rank which sends most sends in the forward pass of the step\n"
    "rounds: exchanges one after the other in a layer, at most; 1 where nothing travels";

struct PlanFlags {
  PlanningFlags planning;
  std::string out;
  bool brief = false;
  bool json = false;
};

/// A plan never replaces the lengths it is made of, nor does the part file that it grows in.
void check_out(const PlanFlags& flags) {
  if (flags.out.empty()) throw InputError("the name of the plan file is empty", "option --out", "give a file to write");
  const std::string lengths = flags.planning.lengths == "-" ? "/dev/stdin" : flags.planning.lengths;
  std::error_code ignored;
  for (const std::string& written : {flags.out, flags.out + ".part"})
    if (std::filesystem::is_regular_file(written, ignored) && std::filesystem::equivalent(lengths, written, ignored))
      throw InputError("the plan would overwrite the lengths in " + written, "option --out", "give another file");
}

PlanReport plan_steps(const PlanFlags& flags, const PlanInputs& inputs, const Corpus& corpus) {
  PlanReport report{.file = flags.out,
                    .inputs = inputs,
                    .default_hardware = flags.planning.hardware.empty(),
                    .brief = flags.brief,
                    .documents = static_cast<int64_t>(corpus.documents.size()),
                    .left_documents = 0,
                    .steps = {},
                    .tuned = {}};
  const int64_t most = step_limit(flags.planning);
  OutputFile file(flags.out);
  Progress progress("planning");
  PackerState state;
  while (!is_finished(corpus, state) && state.step < most) {
    PlanLine line{.inputs = inputs, .planned = plan_all_buckets(inputs, corpus, state), .brief = flags.brief};
    file.write(write_plan_line(line));
    report.steps.push_back(planned_row(line.planned));
    state = std::move(line.planned.step.state_after);
    progress.show(state.position, report.documents, "documents");
  }
  file.finish();
  report.left_documents = report.documents - state.position;
  return report;
}

std::string with_bound(const Balance& balance) {
  return ratio_text(balance.imbalance_ppm) + " / " + ratio_text(balance.lower_bound_ppm);
}

/// Imbalances stand beside the bound that no plan can beat.
Table step_table(const PlanReport& report) {
  Table table{{"step", "tokens", "held", "sequences / bound", "pools / bound", "ranks / bound", "moved q rows",
               "kv rows", "most sent", "rounds", "step time"},
              {}};
  for (const PlannedRow& row : report.steps) {
    if (table.rows.size() == shown_steps) break;
    const StepSummary& summary = row.summary;
    table.rows.push_back({grouped(row.step), grouped(summary.tokens), grouped(row.held),
                          with_bound(summary.micro_batches), with_bound(summary.pools), with_bound(summary.ranks),
                          grouped(summary.moved_query_rows), grouped(summary.moved_kv_rows),
                          bytes_text(summary.max_sent_bytes), grouped(summary.rounds), time_text(summary.step_ns)});
  }
  return table;
}

Pairs totals(const PlanReport& report) {
  int64_t tokens = 0;
  int64_t truncated = 0;
  int64_t dropped = 0;
  int64_t predicted_ns = 0;
  int64_t padding = 0;
  int64_t sequences = 0;
  int64_t empty = 0;
  for (const PlannedRow& row : report.steps) {
    tokens += row.summary.tokens;
    truncated += row.truncated_tokens;
    dropped += row.dropped_tokens;
    predicted_ns += row.summary.step_ns;
    padding += row.summary.padding_rows;
    sequences += row.sequences;
    empty += row.summary.empty_sequences;
  }
  const int64_t held = report.steps.empty() ? 0 : report.steps.back().held;
  const int64_t held_tokens = report.steps.empty() ? 0 : report.steps.back().held_tokens;
  return {{"steps", grouped(static_cast<int64_t>(report.steps.size()))},
          {"documents", grouped(report.documents - report.left_documents) + " of " + grouped(report.documents) + ", " +
                            grouped(held) + " pieces held with " + grouped(held_tokens) + " tokens"},
          {"tokens", grouped(tokens) + ", not trained: " + grouped(truncated) + " truncated and " + grouped(dropped) +
                         " dropped"},
          {"sequences",
           grouped(sequences) + ", " + grouped(empty) + " of them empty, " + grouped(padding) + " rows of padding"},
          {"predicted time", time_text(predicted_ns)},
          {"written to", report.file}};
}

std::string report_text(const PlanFlags& flags, const PlanReport& report, bool colour) {
  Pairs choices = shown_inputs(flags.planning, report.inputs);
  choices.insert(choices.begin(), {"strategy", std::string(name(report.inputs.strategy))});
  std::string text = render(choices) + "\n" + tuned_text(report.tuned, colour);
  if (!report.steps.empty()) text += render(step_table(report), colour);
  if (report.steps.size() > shown_steps)
    text += "... and " + grouped(static_cast<int64_t>(report.steps.size() - shown_steps)) +
            " more steps, all of them in the file\n";
  return text + (report.steps.empty() ? "" : "\n") + render(totals(report));
}

int run_plan(const PlanFlags& flags) {
  check_out(flags);
  PlanInputs inputs = make_inputs(flags.planning);
  const Corpus corpus = read_corpus(flags.planning, inputs);
  std::optional<TunedQueues> tuned = tune(flags.planning, corpus, inputs);
  PlanReport report = plan_steps(flags, inputs, corpus);
  report.tuned = std::move(tuned);
  print(flags.json ? report_json(report) : report_text(flags, report, shows_colour()));
  return 0;
}

}  // namespace

void add_plan(CLI::App& program, Run& run) {
  CLI::App* const command = program.add_subcommand("plan", "Plan optimizer steps and write them to a file");
  const auto flags = std::make_shared<PlanFlags>();
  command->footer(columns);
  add_corpus_flags(*command, flags->planning);
  add_strategy_flags(*command, flags->planning);
  command->add_option("--out", flags->out, "Plan file to write")->required();
  command->add_flag("--brief", flags->brief, "Leave shards and tiles out of the file; verify plans them again");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &run] { run = [flags] { return run_plan(*flags); }; });
}

}  // namespace equipoise
