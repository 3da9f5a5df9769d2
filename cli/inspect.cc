// `equipoise inspect`: what a corpus is like, before any plan.
#include <memory>

#include "cli/commands.h"
#include "cli/planning_flags.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "equipoise/study/inspect.h"
#include "io/reports.h"

namespace equipoise {
namespace {

struct InspectFlags {
  PlanningFlags planning;
  bool json = false;
};

std::string quantile_name(int64_t thousandths) {
  if (thousandths == 0) return "shortest";
  if (thousandths == 1000) return "longest";
  const std::string tenths = thousandths % 10 ? "." + std::to_string(thousandths % 10) : "";
  return "p" + std::to_string(thousandths / 10) + tenths;
}

Pairs counts(const Inspection& inspection, int64_t window) {
  Pairs pairs = {{"documents", grouped(inspection.documents)},
                 {"without a token", grouped(inspection.empty_documents)},
                 {"longer than " + grouped(window),
                  grouped(inspection.overlong_documents) + " with " + grouped(inspection.overlong_tokens) + " tokens"},
                 {"tokens", grouped(inspection.tokens)},
                 {"mean", grouped(inspection.mean_tokens)}};
  for (const Quantile& quantile : inspection.quantiles)
    pairs.emplace_back(quantile_name(quantile.thousandths), grouped(quantile.length_tokens));
  return pairs;
}

Table histogram(const Inspection& inspection) {
  Table table{{"length", "documents", "tokens", "of tokens", "of attention"}, {}};
  for (const LengthBin& bin : inspection.bins) {
    const std::string range = bin.least_tokens == bin.most_tokens
                                  ? grouped(bin.least_tokens)
                                  : grouped(bin.least_tokens) + " - " + grouped(bin.most_tokens);
    table.rows.push_back(
        {range, grouped(bin.documents), grouped(bin.tokens), percent_text(bin.tokens_ppm), percent_text(bin.work_ppm)});
  }
  return table;
}

std::string plain_packing(const Inspection& inspection, const PlanInputs& inputs, bool colour) {
  if (inspection.steps == 0) return "No step of plain packing was looked at.\n";
  const std::string head = "Plain packing over " + grouped(inspection.steps) + " steps, mesh " + describe(inputs.mesh) +
                           ", " + grouped(inputs.micro_steps) + " micro-steps, window " +
                           grouped(inputs.limits.window_tokens) + ": heaviest over mean attention work\n";
  const Table table{
      {"level", "mean", "worst step"},
      {{"sequences", ratio_text(inspection.micro_batches.mean_ppm), ratio_text(inspection.micro_batches.max_ppm)},
       {"pools of " + grouped(inputs.pool), ratio_text(inspection.pools.mean_ppm),
        ratio_text(inspection.pools.max_ppm)}}};
  return head + render(table, colour);
}

int run_inspect(const InspectFlags& flags) {
  const PlanInputs inputs = make_inputs(flags.planning);
  const Corpus corpus = read_corpus(flags.planning, inputs);
  const Inspection inspection = inspect_corpus(inputs, corpus, step_limit(flags.planning));
  if (flags.json) {
    print(report_json(inspection, inputs));
    return 0;
  }
  const bool colour = shows_colour();
  print(render(counts(inspection, inputs.limits.window_tokens)) + "\n" + render(histogram(inspection), colour) + "\n" +
        plain_packing(inspection, inputs, colour));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& program, Run& run) {
  CLI::App* const command =
      program.add_subcommand("inspect", "Show lengths, attention work by length, and the imbalance of plain packing");
  const auto flags = std::make_shared<InspectFlags>();
  add_corpus_flags(*command, flags->planning);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &run] { run = [flags] { return run_inspect(*flags); }; });
}

}  // namespace equipoise
