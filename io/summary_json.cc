// The fields of StepSummary under their own names; a balance is an object of its own.
#include "io/summary_json.h"

#include "equipoise/model/limits.h"

namespace equipoise {
namespace {

OrderedJson balance_json(const Balance& balance) {
  return {{"imbalance_ppm", balance.imbalance_ppm}, {"lower_bound_ppm", balance.lower_bound_ppm}};
}

Balance read_balance(Fields fields) {
  const Balance balance{.imbalance_ppm = fields.integer("imbalance_ppm"),
                        .lower_bound_ppm = fields.integer("lower_bound_ppm")};
  fields.finish();
  return balance;
}

}  // namespace

OrderedJson summary_json(const StepSummary& summary) {
  return {{"tokens", summary.tokens},
          {"loss_tokens", summary.loss_tokens},
          {"padding_rows", summary.padding_rows},
          {"empty_sequences", summary.empty_sequences},
          {"attention_pairs", summary.attention_pairs},
          {"micro_batches", balance_json(summary.micro_batches)},
          {"pools", balance_json(summary.pools)},
          {"ranks", balance_json(summary.ranks)},
          {"moved_query_rows", summary.moved_query_rows},
          {"moved_kv_rows", summary.moved_kv_rows},
          {"mean_sent_bytes", summary.mean_sent_bytes},
          {"max_sent_bytes", summary.max_sent_bytes},
          {"rounds", summary.rounds},
          {"attention_ns", summary.attention_ns},
          {"linear_ns", summary.linear_ns},
          {"exchange_ns", summary.exchange_ns},
          {"step_ns", summary.step_ns}};
}

StepSummary read_summary(Fields fields) {
  const StepSummary summary{.tokens = fields.integer("tokens"),
                            .loss_tokens = fields.integer("loss_tokens"),
                            .padding_rows = fields.integer("padding_rows"),
                            .empty_sequences = fields.integer("empty_sequences"),
                            .attention_pairs = fields.integer("attention_pairs", {.most = no_limit}),
                            .micro_batches = read_balance(fields.object("micro_batches")),
                            .pools = read_balance(fields.object("pools")),
                            .ranks = read_balance(fields.object("ranks")),
                            .moved_query_rows = fields.integer("moved_query_rows"),
                            .moved_kv_rows = fields.integer("moved_kv_rows"),
                            .mean_sent_bytes = fields.integer("mean_sent_bytes"),
                            .max_sent_bytes = fields.integer("max_sent_bytes"),
                            .rounds = fields.integer("rounds"),
                            .attention_ns = fields.integer("attention_ns"),
                            .linear_ns = fields.integer("linear_ns"),
                            .exchange_ns = fields.integer("exchange_ns"),
                            .step_ns = fields.integer("step_ns")};
  fields.finish();
  return summary;
}

}  // namespace equipoise
