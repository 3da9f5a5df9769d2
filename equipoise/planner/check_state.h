#pragma once

#include "equipoise/model/document.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Refuses a state that leads out of the documents: the part of check_state() that is quick enough for every step.
/// Cost: O(held). Errors: InputError with what does not fit.
void check_inside(const Corpus& corpus, const PackerState& state);

}  // namespace equipoise
