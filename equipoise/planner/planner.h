#pragma once

#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

namespace equipoise {

/// Plans the global part of the next optimizer step: packing and placement. Small; every rank makes it alone and gets the same.
/// Requires validate(inputs). Errors: InputError under policy error for an over-long document; for a step that cannot be packed, with the reason.
StepPlan plan_step(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state);

/// Plans one bucket: sharding, tiling, exchange. A rank calls it for its own pool only, so its cost does not grow with the cluster.
BucketPlan plan_bucket(const PlanInputs& inputs, const StepPlan& step, const Bucket& bucket);

}  // namespace equipoise
