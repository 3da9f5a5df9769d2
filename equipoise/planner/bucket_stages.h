#pragma once

#include <vector>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/planner/presets.h"

namespace equipoise {

/// One mask of a bucket whose sequences and shardings stand, with the messages that its tiles need.
LayerPlan make_layer(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, std::vector<Tile> tiles);

/// The bucket by one choice for each stage; whether its tiles pay is not asked.
BucketPlan plan_stages(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket);

}  // namespace equipoise
