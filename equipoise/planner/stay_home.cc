// Without tiles the owners of rows compute them; the keys of their context group still travel.

#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/planner.h"

namespace equipoise {

BucketPlan stay_home(const PlanInputs& inputs, const BucketPlan& bucket) {
  BucketPlan home = bucket;
  const auto work = attention_work(home.sequences, home.shardings, {}, inputs.heads, inputs.mesh.cp);
  for (std::size_t m = 0; m < home.layers.size(); ++m) {
    home.layers[m].tiles.clear();
    home.layers[m].exchange =
        plan_exchange(home.sequences, home.shardings, work, inputs.masks[m], inputs.heads, inputs.mesh.cp);
  }
  return home;
}

}  // namespace equipoise
