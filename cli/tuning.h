#pragma once

#include <optional>
#include <string>

#include "cli/planning_flags.h"
#include "equipoise/packing/tune_queues.h"

namespace equipoise {

/// Finds the thresholds of --queues auto on the first steps of the corpus, within --mean-delay, and puts them into
/// inputs of strategy wlb; null where nobody asked for it. Errors: InputError for another strategy or a mean delay that
/// nothing is tuned for.
std::optional<TunedQueues> tune(const PlanningFlags& flags, const Corpus& corpus, PlanInputs& inputs);

/// The frontier as a table, with the thresholds that were taken; empty where nothing was tuned.
std::string tuned_text(const std::optional<TunedQueues>& tuned, bool colour);

}  // namespace equipoise
