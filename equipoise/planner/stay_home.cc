// Without tiles the owners of rows compute them; the keys of their context group still travel.

#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/planner.h"

namespace equipoise {

BucketPlan with_tiles(const PlanInputs& inputs, BucketPlan bucket, int64_t mask_index, std::vector<Tile> tiles) {
  const auto work = attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, inputs.mesh.cp);
  Exchange exchange =
      plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[mask_index], inputs.heads, inputs.mesh.cp);
  bucket.layers[mask_index] = {std::move(tiles), std::move(exchange)};
  return bucket;
}

BucketPlan stay_home(const PlanInputs& inputs, const BucketPlan& bucket) {
  BucketPlan home = bucket;
  for (int64_t mask = 0; mask < std::ssize(home.layers); ++mask) home = with_tiles(inputs, std::move(home), mask, {});
  return home;
}

}  // namespace equipoise
