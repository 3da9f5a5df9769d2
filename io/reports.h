#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/packing/tune_queues.h"
#include "equipoise/study/advise.h"
#include "equipoise/study/compare.h"
#include "equipoise/study/inspect.h"
#include "equipoise/study/planned_step.h"
#include "io/verify_file.h"

// What commands answer with --json: one object each, under the names of the structs, with a line break at its end.

namespace equipoise {

/// A step in a report of planning.
struct PlannedRow {
  int64_t step = 0;
  int64_t documents = 0;  ///< that arrived
  int64_t sequences = 0;
  int64_t held = 0;  ///< documents or pieces that wait after the step
  int64_t held_tokens = 0;
  int64_t truncated_tokens = 0;
  int64_t dropped_tokens = 0;
  StepSummary summary;
};

/// What `plan` did.
struct PlanReport {
  std::string file;
  PlanInputs inputs;
  bool default_hardware = false;  ///< nobody named the hardware
  bool brief = false;
  int64_t documents = 0;       ///< of the input
  int64_t left_documents = 0;  ///< that did not arrive in the planned steps
  std::vector<PlannedRow> steps;
  std::optional<TunedQueues> tuned;  ///< where the queues were found for these lengths
};

/// One strategy of `compare`.
struct ComparedStrategy {
  PlanInputs inputs;
  std::vector<StepMeasures> steps;
  std::vector<int64_t> planning_ns;  ///< by step: measured time of packing and placement, on this machine
  RunMeasures run;
};

/// What `compare` found, in the order of the strategies that were given.
struct CompareReport {
  bool default_hardware = false;  ///< nobody named the hardware
  int64_t documents = 0;          ///< of the input
  std::vector<ComparedStrategy> strategies;
  std::optional<TunedQueues> tuned;  ///< the queues of wlb, where they were found for these lengths
};

/// What `advise` found about the size of pools.
struct AdviseReport {
  PlanInputs inputs;              ///< with the chosen size
  bool default_hardware = false;  ///< nobody named the hardware
  int64_t documents = 0;          ///< of the input
  std::vector<PoolMeasures> sizes;
  PoolChoice choice;
  std::string reason;  ///< why it is chosen, one sentence
};

/// Mean of planning_ns; 0 without steps.
int64_t mean_planning_ns(const ComparedStrategy& strategy);

PlannedRow planned_row(const PlannedStep& planned);

std::string report_json(const Inspection& inspection, const PlanInputs& inputs);
std::string report_json(const PlanReport& report);
std::string report_json(const CompareReport& report);
std::string report_json(const AdviseReport& report);
std::string report_json(const FileVerdict& verdict, const std::string& file);

}  // namespace equipoise
