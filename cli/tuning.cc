// --queues auto: thresholds found on the user's own lengths, and what else could have been had for how long a wait.
#include "cli/tuning.h"

#include <cmath>

#include "cli/table.h"
#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"

namespace equipoise {
namespace {

constexpr double default_mean_delay = 0.5;
constexpr int64_t few_steps = 20;  ///< of a sample that may be unlike the rest

std::string thresholds_text(const QueueTrial& trial) {
  std::string text;
  for (const int64_t tokens : trial.queue_tokens) text += (text.empty() ? "" : ",") + std::to_string(tokens);
  return text.empty() ? "none" : text;
}

}  // namespace

std::optional<TunedQueues> tune(const PlanningFlags& flags, const Corpus& corpus, PlanInputs& inputs) {
  if (!wants_tuning(flags)) {
    if (flags.mean_delay)
      throw InputError("nothing is tuned for a mean delay", "option --mean-delay",
                       "add --queues auto, or leave it out");
    return std::nullopt;
  }
  if (inputs.strategy != Strategy::wlb)
    throw InputError("strategy '" + std::string(name(inputs.strategy)) + "' has no outlier queues", "option --queues",
                     "leave it out, or use wlb");
  const double steps = flags.mean_delay.value_or(default_mean_delay);
  if (!(steps >= 0 && steps <= 1e6))
    throw InputError("a mean delay of " + std::to_string(steps) + " steps is out of range", "option --mean-delay",
                     "give a number from 0 to 1000000");
  TunedQueues tuned = tune_queues(inputs, corpus, {.mean_delay_ppm = std::llround(steps * ppm_one)});
  inputs.delay.queue_tokens = tuned.best.queue_tokens;
  return tuned;
}

std::string tuned_text(const std::optional<TunedQueues>& tuned, bool colour) {
  if (!tuned) return "";
  Table table{{"queues", "W", "waiting", ""}, {}};
  for (const QueueTrial& trial : tuned->frontier)
    table.rows.push_back({thresholds_text(trial), ratio_text(trial.weighted_imbalance_ppm),
                          ratio_text(trial.mean_delay_ppm), trial == tuned->best ? "taken" : ""});
  return "outlier queues of wlb, best of " + grouped(tuned->trials) + " on " + grouped(tuned->steps) +
         " steps; waiting: tokens that wait after a step over those it trains\n" +
         (tuned->steps < few_steps ? "so few steps say little of others: tune on more documents\n" : "") +
         (tuned->meets_goal ? "" : "none waits as little as --mean-delay wants\n") + render(table, colour) + "\n";
}

}  // namespace equipoise
