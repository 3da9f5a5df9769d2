// Reports as JSON. Numbers are those of the structs, in their units; nothing is rounded for the eye here.
#include "io/reports.h"

#include "io/inputs_json.h"
#include "io/summary_json.h"
#include "io/tuning_json.h"

namespace equipoise {
namespace {

std::string text_of(const OrderedJson& json) { return json.dump(1) + "\n"; }

OrderedJson spread_json(const Spread& spread) { return {{"mean_ppm", spread.mean_ppm}, {"max_ppm", spread.max_ppm}}; }

OrderedJson bin_json(const LengthBin& bin) {
  return {{"least_tokens", bin.least_tokens}, {"most_tokens", bin.most_tokens},
          {"documents", bin.documents},       {"tokens", bin.tokens},
          {"tokens_ppm", bin.tokens_ppm},     {"work_ppm", bin.work_ppm}};
}

OrderedJson row_json(const PlannedRow& row) {
  OrderedJson json = {{"step", row.step},
                      {"documents", row.documents},
                      {"sequences", row.sequences},
                      {"held", row.held},
                      {"held_tokens", row.held_tokens},
                      {"truncated_tokens", row.truncated_tokens},
                      {"dropped_tokens", row.dropped_tokens}};
  json.update(summary_json(row.summary));
  return json;
}

OrderedJson violation_json(const Violation& violation) {
  return {{"rule", violation.rule}, {"where", violation.where}, {"what", violation.what}};
}

}  // namespace

PlannedRow planned_row(const PlannedStep& planned) {
  const StepPlan& step = planned.step;
  PlannedRow row;
  row.step = step.step;
  row.documents = step.arrived.second - step.arrived.first;
  row.sequences = static_cast<int64_t>(step.sequences.size());
  row.held = static_cast<int64_t>(step.state_after.held.size());
  for (const Held& held : step.state_after.held) row.held_tokens += held.length_tokens;
  for (const auto& [document, tokens] : step.untrained.truncated) row.truncated_tokens += tokens;
  for (const auto& [document, tokens] : step.untrained.dropped) row.dropped_tokens += tokens;
  row.summary = planned.summary;
  return row;
}

std::string report_json(const Inspection& inspection, const PlanInputs& inputs) {
  OrderedJson quantiles = OrderedJson::array();
  for (const Quantile& quantile : inspection.quantiles)
    quantiles.push_back({{"thousandths", quantile.thousandths}, {"length_tokens", quantile.length_tokens}});
  OrderedJson bins = OrderedJson::array();
  for (const LengthBin& bin : inspection.bins) bins.push_back(bin_json(bin));
  return text_of({{"documents", inspection.documents},
                  {"empty_documents", inspection.empty_documents},
                  {"tokens", inspection.tokens},
                  {"mean_tokens", inspection.mean_tokens},
                  {"overlong_documents", inspection.overlong_documents},
                  {"overlong_tokens", inspection.overlong_tokens},
                  {"quantiles", quantiles},
                  {"bins", bins},
                  {"plain",
                   {{"mesh", describe(inputs.mesh)},
                    {"pool", inputs.pool},
                    {"micro_steps", inputs.micro_steps},
                    {"window", inputs.limits.window_tokens},
                    {"steps", inspection.steps},
                    {"micro_batches", spread_json(inspection.micro_batches)},
                    {"pools", spread_json(inspection.pools)}}}});
}

std::string report_json(const PlanReport& report) {
  OrderedJson steps = OrderedJson::array();
  for (const PlannedRow& row : report.steps) steps.push_back(row_json(row));
  OrderedJson json = {{"file", report.file},
                      {"brief", report.brief},
                      {"hardware", report.inputs.cost.hardware},
                      {"default_hardware", report.default_hardware},
                      {"documents", report.documents},
                      {"left_documents", report.left_documents},
                      {"inputs", inputs_json(report.inputs)},
                      {"steps", steps}};
  put_tuned(json, report.tuned);
  return text_of(json);
}

std::string report_json(const FileVerdict& verdict, const std::string& file) {
  OrderedJson violations = OrderedJson::array();
  for (const Violation& violation : verdict.violations) violations.push_back(violation_json(violation));
  return text_of({{"file", file},
                  {"valid", verdict.violations.empty()},
                  {"steps", verdict.steps},
                  {"documents", verdict.documents},
                  {"tokens", verdict.tokens},
                  {"sequences", verdict.sequences},
                  {"buckets", verdict.buckets},
                  {"programs", verdict.programs},
                  {"replanned", verdict.replanned},
                  {"held", verdict.held},
                  {"violations", violations},
                  {"unchecked", verdict.unchecked}});
}

}  // namespace equipoise
