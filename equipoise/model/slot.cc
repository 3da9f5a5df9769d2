#include "equipoise/model/slot.h"

#include "equipoise/base/errors.h"

namespace equipoise {

std::vector<Bucket> make_buckets(const std::vector<Slot>& slots, int64_t dp, int64_t pool) {
  EQ_ASSERT(pool > 0 && dp % pool == 0 && static_cast<int64_t>(slots.size()) % dp == 0);
  const int64_t pools = dp / pool;
  const auto sequences = static_cast<int64_t>(slots.size());
  std::vector<Bucket> buckets;
  for (int64_t i = 0; i < sequences / pool; ++i)
    buckets.push_back({.micro_step = i / pools, .pool = i % pools, .sequences = std::vector<SeqId>(pool)});
  for (int64_t s = 0; s < sequences; ++s) {
    const Slot& slot = slots[s];
    SeqId& place = buckets[slot.micro_step * pools + slot.replica / pool].sequences[slot.replica % pool];
    EQ_ASSERT(place == SeqId{});
    place = SeqId{s};
  }
  return buckets;
}

}  // namespace equipoise
