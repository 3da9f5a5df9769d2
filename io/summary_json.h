#pragma once

#include "equipoise/study/planned_step.h"
#include "io/json_fields.h"

// A step's numbers as the key "summary" of a plan file holds them. For the sources of io only.

namespace equipoise {

OrderedJson summary_json(const StepSummary& summary);
StepSummary read_summary(Fields fields);

}  // namespace equipoise
