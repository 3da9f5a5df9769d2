#pragma once

#include <vector>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/planner/presets.h"

namespace equipoise {

/// Whether the bucket's exchange buffers stay within limits.exchange_bytes (most_held_bytes()). Free without a limit.
bool fits_memory(const PlanInputs& inputs, const BucketPlan& plan);

/// One mask of a bucket whose sequences and shardings stand, with the messages that its tiles need.
LayerPlan make_layer(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, std::vector<Tile> tiles);

/// The bucket by one choice for each stage; whether its tiles pay is not asked. Pooled tiles stay within the memory
/// that limits.exchange_bytes leaves beside the other layers, or home.
BucketPlan plan_stages(const PlanInputs& inputs, const Stages& stages, const StepPlan& step, const Bucket& bucket);

}  // namespace equipoise
