#pragma once

#include <vector>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/tiling/tiling.h"

namespace equipoise {

/// Pooled tiles of one mask of a bucket whose sequences and shardings stand.
PooledTiles place_pooled(const PlanInputs& inputs, const BucketPlan& plan, const Mask& mask, Effort effort);

/// Owners of the bucket's rows, for pooled tiles: contiguous shards, and where that makes the largest traffic of a
/// member smaller, the longest segments of the busiest member's sequence spread over all its ranks.
///
/// Each step places tiles for one more sharding of one sequence, with less effort than the final tiles get; how many
/// steps there are follows from inputs.effort. Traffic counts each mask with its layers.
/// Guarantee: by those tiles never more traffic than contiguous shards have. Cost: tile_pooled() a step and mask.
std::vector<Sharding> search_owners(const PlanInputs& inputs, const BucketPlan& plan);

}  // namespace equipoise
