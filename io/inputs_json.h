#pragma once

#include "equipoise/model/plan_inputs.h"
#include "io/json_fields.h"

// The inputs of a plan by value, as the key "inputs" of a plan file holds them. For the sources of io only.

namespace equipoise {

/// "no limit" and "no bound" are null, so that no number in the file needs more bits than a reader in another language
/// has.
OrderedJson inputs_json(const PlanInputs& inputs);

/// Reads what inputs_json() wrote and validates it. Errors: FormatError with the place and the key.
PlanInputs read_inputs(Fields fields);

}  // namespace equipoise
