// Other tiles on the same shards. Without any, the owners of rows compute them; the keys of their context group still
// travel.

#include "equipoise/planner/bucket_stages.h"
#include "equipoise/planner/planner.h"

namespace equipoise {

BucketPlan with_tiles(const PlanInputs& inputs, BucketPlan bucket, int64_t mask_index, std::vector<Tile> tiles) {
  bucket.layers[mask_index] = make_layer(inputs, bucket, inputs.masks[mask_index], std::move(tiles));
  return bucket;
}

BucketPlan stay_home(const PlanInputs& inputs, const BucketPlan& bucket) {
  BucketPlan home = bucket;
  for (int64_t mask = 0; mask < std::ssize(home.layers); ++mask) home = with_tiles(inputs, std::move(home), mask, {});
  return home;
}

}  // namespace equipoise
