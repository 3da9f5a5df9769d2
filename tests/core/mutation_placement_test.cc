#include "equipoise/verify/verify.h"
#include "tests/core/dense_count.h"
#include "tests/core/mutations.h"

namespace equipoise {
namespace {

struct PlacedPlan {
  PlanInputs inputs;
  StepPlan step;
  bool operator==(const PlacedPlan&) const = default;
};

PlacedPlan make_plan(uint64_t seed) {
  const RandomPlan plan = random_plan(seed);
  return {plan.inputs, plan.step};
}

using Rng = SplitMix64;

auto on_slot(auto action) {
  return [action](PlacedPlan& plan, Rng& rng) { return action(plan, *pick(plan.step.slots, rng), rng); };
}

auto on_bucket(auto action) {
  return [action](PlacedPlan& plan, Rng& rng) { return action(plan, *pick(plan.step.buckets, rng), rng); };
}

std::vector<Fault<PlacedPlan>> slot_faults() {
  const std::set<std::string> twice = {"slot used once"};
  return {
      {"slot dropped", [](PlacedPlan& plan, Rng& rng) { return drop_one(plan.step.slots, rng); }, twice},
      {"slot repeated", [](PlacedPlan& plan, Rng& rng) { return repeat_one(plan.step.slots, rng); }, twice},
      {"slots swapped, buckets not",
       [](PlacedPlan& plan, Rng& rng) { return swap_two(plan.step.slots, rng); },
       {"buckets follow slots"}},
      {"slots swapped with their buckets",
       [](PlacedPlan& plan, Rng& rng) {
         swap_two(plan.step.slots, rng);
         plan.step.buckets = make_buckets(plan.step.slots, plan.inputs.mesh.dp, plan.inputs.pool);
         return true;
       },
       {}},
      {"another replica", on_slot([](PlacedPlan& plan, Slot& slot, Rng& rng) {
         return change(slot.replica, 0, plan.inputs.mesh.dp - 1, rng);
       }),
       twice},
      {"another micro-step", on_slot([](PlacedPlan& plan, Slot& slot, Rng& rng) {
         return change(slot.micro_step, 0, plan.inputs.micro_steps - 1, rng);
       }),
       twice},
      {"no such replica",
       on_slot([](PlacedPlan& plan, Slot& slot, Rng& rng) {
         return slot.replica = random_between(rng, 0, 1) ? plan.inputs.mesh.dp : -1, true;
       }),
       {"slot in mesh"}},
      {"no such micro-step",
       on_slot([](PlacedPlan& plan, Slot& slot, Rng& rng) {
         return slot.micro_step = random_between(rng, 0, 1) ? plan.inputs.micro_steps : -1, true;
       }),
       {"slot in mesh"}},
  };
}

std::vector<Fault<PlacedPlan>> bucket_faults() {
  const std::set<std::string> rules = {"buckets follow slots"};
  return {
      {"bucket dropped", [](PlacedPlan& plan, Rng& rng) { return drop_one(plan.step.buckets, rng); }, rules},
      {"bucket repeated", [](PlacedPlan& plan, Rng& rng) { return repeat_one(plan.step.buckets, rng); }, rules},
      {"buckets swapped", [](PlacedPlan& plan, Rng& rng) { return swap_two(plan.step.buckets, rng); }, rules},
      {"bucket of another pool",
       on_bucket([](PlacedPlan&, Bucket& bucket, Rng& rng) { return nudge(bucket.pool, rng); }), rules},
      {"bucket of another micro-step",
       on_bucket([](PlacedPlan&, Bucket& bucket, Rng& rng) { return nudge(bucket.micro_step, rng); }), rules},
      {"bucket with another sequence",
       on_bucket([](PlacedPlan&, Bucket& bucket, Rng& rng) { return nudge(pick(bucket.sequences, rng)->value, rng); }),
       rules},
      {"bucket with sequences swapped",
       on_bucket([](PlacedPlan&, Bucket& bucket, Rng& rng) { return swap_two(bucket.sequences, rng); }), rules},
      {"bucket without a sequence",
       on_bucket([](PlacedPlan&, Bucket& bucket, Rng& rng) { return drop_one(bucket.sequences, rng); }), rules},
      {"bucket with one sequence more",
       on_bucket([](PlacedPlan&, Bucket& bucket, Rng& rng) { return repeat_one(bucket.sequences, rng); }), rules},
      {"better than the bound",
       [](PlacedPlan& plan, Rng& rng) {
         Balance& balance = random_between(rng, 0, 1) ? plan.step.pools : plan.step.micro_batches;
         return balance.imbalance_ppm = balance.lower_bound_ppm - random_between(rng, 1, 9), true;
       },
       {"bound below result"}},
  };
}

MutationTrial<PlacedPlan> trial() {
  return {make_plan, [](const PlacedPlan& plan) { return check_placement(plan.inputs, plan.step); },
          [](const PlacedPlan& a, const PlacedPlan& b) { return a == b; },
          [](const PlacedPlan& plan) { return dense_placement_fault(plan.inputs, plan.step); }};
}

TEST(PlacementMutations, ABrokenSlotIsFound) { run_mutations(trial(), slot_faults()); }
TEST(PlacementMutations, ABrokenBucketIsFound) { run_mutations(trial(), bucket_faults()); }

}  // namespace
}  // namespace equipoise
