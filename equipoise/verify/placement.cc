// M sequences and N x dp slots, one to one. The buckets are then what the slots say: walked here bucket by bucket from
// a table of slots.

#include <map>

#include "equipoise/verify/report.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

using SlotTable = std::map<Slot, int64_t>;  ///< slot -> sequence

std::string place(const StepPlan& step, const char* what, int64_t index) {
  return text(what, " ", index, " of step ", step.step);
}

SlotTable check_slots(const PlanInputs& inputs, const StepPlan& step, Violations& found) {
  SlotTable table;
  const auto count = static_cast<int64_t>(step.slots.size());
  if (count != inputs.sequences() || count != static_cast<int64_t>(step.sequences.size()))
    found.push_back({"slot used once", text("step ", step.step),
                     text(count, " slots for ", step.sequences.size(), " sequences, expected ", inputs.sequences())});
  for (int64_t s = 0; s < count; ++s) {
    const Slot& slot = step.slots[s];
    const std::string value = text("micro-step ", slot.micro_step, " on replica ", slot.replica);
    if (slot.micro_step < 0 || slot.micro_step >= inputs.micro_steps || slot.replica < 0 ||
        slot.replica >= inputs.mesh.dp)
      found.push_back({"slot in mesh", place(step, "sequence", s), text(value, " does not exist")});
    else if (!table.emplace(slot, s).second)
      found.push_back({"slot used once", place(step, "sequence", s), text(value, " has sequence ", table[slot])});
  }
  return table;
}

void check_bucket(const PlanInputs& inputs, const StepPlan& step, const SlotTable& table, int64_t index,
                  Violations& found) {
  const Bucket& bucket = step.buckets[index];
  const int64_t pools = inputs.mesh.dp / inputs.pool;
  const auto say = [&](const std::string& what) {
    found.push_back({"buckets follow slots", place(step, "bucket", index), what});
  };
  if (bucket.micro_step != index / pools || bucket.pool != index % pools)
    say(text("is micro-step ", bucket.micro_step, ", pool ", bucket.pool, ", expected ", index / pools, ", ",
             index % pools));
  if (static_cast<int64_t>(bucket.sequences.size()) != inputs.pool)
    return say(text("has ", bucket.sequences.size(), " sequences, expected ", inputs.pool));
  for (int64_t r = 0; r < inputs.pool; ++r) {
    const auto entry = table.find({index / pools, index % pools * inputs.pool + r});
    const int64_t expected = entry == table.end() ? -1 : entry->second;
    if (bucket.sequences[r].value != expected)
      say(text("replica ", r, " of the pool has sequence ", bucket.sequences[r].value, ", expected ", expected));
  }
}

}  // namespace

Violations check_placement(const PlanInputs& inputs, const StepPlan& step) {
  Violations found;
  const SlotTable table = check_slots(inputs, step, found);
  const auto buckets = static_cast<int64_t>(step.buckets.size());
  const int64_t expected = inputs.micro_steps * (inputs.mesh.dp / inputs.pool);
  if (buckets != expected)
    found.push_back({"buckets follow slots", text("step ", step.step), text(buckets, " buckets, expected ", expected)});
  for (int64_t b = 0; b < std::min(buckets, expected); ++b) check_bucket(inputs, step, table, b, found);
  for (const Balance& balance : {step.micro_batches, step.pools})
    if (balance.imbalance_ppm < balance.lower_bound_ppm)
      found.push_back(
          {"bound below result", text("step ", step.step),
           text("imbalance of ", balance.imbalance_ppm, " ppm below its lower bound of ", balance.lower_bound_ppm)});
  return found;
}

}  // namespace equipoise
