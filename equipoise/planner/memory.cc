// What the operator will allocate for a bucket follows from the programs of its members.

#include <algorithm>

#include "equipoise/exchange/program.h"
#include "equipoise/model/buffers.h"
#include "equipoise/planner/planner.h"

namespace equipoise {

int64_t most_held_bytes(const PlanInputs& inputs, const BucketPlan& bucket) {
  std::vector<HeldBytes> held(inputs.members());
  for (size_t mask = 0; mask < bucket.layers.size(); ++mask) {
    const auto programs = make_rank_programs(inputs, bucket, static_cast<int64_t>(mask), 0);
    for (size_t member = 0; member < held.size(); ++member) {
      const auto [pass, kept] = buffer_bytes(programs[member], number_bytes(inputs.cost));
      held[member].pass = std::max(held[member].pass, pass);
      held[member].kept += inputs.masks[mask].layers * kept;
    }
  }
  int64_t most = 0;
  for (const auto& [pass, kept] : held) most = std::max(most, pass + kept);
  return most;
}

}  // namespace equipoise
