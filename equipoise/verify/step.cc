// All checks of one optimizer step in the order in which it was planned. Later checks need the sizes that earlier ones
// vouch for, so a bucket that does not belong to the step is named and left alone.

#include "equipoise/verify/report.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

bool has_sound_segments(const BucketPlan& plan) {
  constexpr int64_t longest = int64_t{1} << 40;
  for (const Sequence& sequence : plan.sequences)
    for (const Segment& segment : sequence.segments)
      if (!inside(0, segment.length_tokens, longest)) return false;
  return true;
}

/// Whether the bucket is one of the step's, with its sequences.
bool follows_step(const StepPlan& step, const BucketPlan& plan) {
  if (std::find(step.buckets.begin(), step.buckets.end(), plan.bucket) == step.buckets.end()) return false;
  if (plan.bucket.sequences.size() != plan.sequences.size()) return false;
  for (size_t r = 0; r < plan.sequences.size(); ++r) {
    const int64_t id = plan.bucket.sequences[r].value;
    if (id < 0 || id >= static_cast<int64_t>(step.sequences.size()) || step.sequences[id] != plan.sequences[r])
      return false;
  }
  return has_sound_segments(plan);
}

void check_bucket(const PlanInputs& inputs, const BucketPlan& plan, Violations& found) {
  const auto keep = [&](Violations more, const std::string& place) {
    for (Violation& violation : more) {
      if (!place.empty()) violation.where = place + ", " + violation.where;
      found.push_back(std::move(violation));
    }
  };
  const size_t before = found.size();
  for (size_t r = 0; r < std::min(plan.sequences.size(), plan.shardings.size()); ++r)
    keep(check_sharding(plan.sequences[r], plan.shardings[r], inputs),
         text("micro-step ", plan.bucket.micro_step, ", pool ", plan.bucket.pool, ", replica ",
              static_cast<int64_t>(r)));
  for (int64_t mask = 0; mask < static_cast<int64_t>(inputs.masks.size()); ++mask) {
    keep(check_tiling(inputs, plan, mask), "");
    keep(check_exchange(inputs, plan, mask), "");
  }
  if (found.size() == before) keep(check_memory(inputs, plan), "");
}

}  // namespace

Violations verify_step(const PlanInputs& inputs, const PackerState& before, const StepPlan& step,
                       std::span<const BucketPlan> buckets) {
  Violations found;
  if (step.inputs_hash != hash_inputs(inputs))
    found.push_back({"inputs hash", text("step ", step.step), "the plan was made from other inputs"});
  for (Violation& violation : check_packing(inputs, before, step)) found.push_back(std::move(violation));
  for (Violation& violation : check_placement(inputs, step)) found.push_back(std::move(violation));
  for (const BucketPlan& plan : buckets) {
    if (follows_step(step, plan))
      check_bucket(inputs, plan, found);
    else
      found.push_back({"bucket follows step", text("micro-step ", plan.bucket.micro_step, ", pool ", plan.bucket.pool),
                       "its sequences are not those of the step"});
  }
  return found;
}

}  // namespace equipoise
