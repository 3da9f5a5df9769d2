// Longest processing time first with exact cardinality: sequences go by falling work, each into the lightest bucket
// that has a free replica. The step's sequences are the same, only where and when they run changes.

#include "equipoise/placement/placement.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"

namespace equipoise {
namespace {

int64_t sum(std::span<const int64_t> values) {
  int64_t total = 0;
  for (const int64_t value : values)
    if (value < 0 || __builtin_add_overflow(total, value, &total))
      throw InputError("the work of a step is negative or does not fit in 64 bits", "placement", "give smaller costs");
  return total;
}

/// Sequence ids by falling work, ties by id.
std::vector<int64_t> heaviest_first(std::span<const int64_t> work) {
  std::vector<int64_t> ids(work.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(),
            [&](int64_t a, int64_t b) { return std::pair(-work[a], a) < std::pair(-work[b], b); });
  return ids;
}

int64_t bound_on_heaviest(std::span<const int64_t> work, std::span<const int64_t> falling, int64_t pool) {
  const auto sequences = static_cast<int64_t>(work.size());
  if (sequences == 0) return 0;
  const int64_t total = sum(work);
  int64_t with_lightest = work[falling.front()];
  for (int64_t i = 1; i < pool; ++i) with_lightest += work[falling[sequences - i]];
  const int64_t buckets = sequences / pool;
  const int64_t mean = total / buckets + (total % buckets != 0 ? 1 : 0);
  return std::max(mean, with_lightest);
}

int64_t heaviest_bucket(std::span<const int64_t> work, const std::vector<Slot>& slots, int64_t dp, int64_t pool) {
  int64_t heaviest = 0;
  for (const Bucket& bucket : make_buckets(slots, dp, pool)) {
    int64_t load = 0;
    for (const SeqId id : bucket.sequences) load += work[id.value];
    heaviest = std::max(heaviest, load);
  }
  return heaviest;
}

/// The bucket of each sequence, by longest processing time first.
std::vector<int64_t> longest_first(std::span<const int64_t> work, std::span<const int64_t> falling, int64_t pool) {
  using Load = std::pair<int64_t, int64_t>;  // (work, bucket): ties go to the lower bucket
  std::priority_queue<Load, std::vector<Load>, std::greater<>> open;
  const int64_t buckets = static_cast<int64_t>(work.size()) / pool;
  for (int64_t b = 0; b < buckets; ++b) open.emplace(0, b);
  std::vector<int64_t> filled(buckets, 0);
  std::vector<int64_t> bucket_of(work.size());
  for (const int64_t id : falling) {
    const auto [load, bucket] = open.top();
    open.pop();
    bucket_of[id] = bucket;
    if (++filled[bucket] < pool) open.emplace(load + work[id], bucket);
  }
  return bucket_of;
}

/// Bucket b runs at micro-step b / pools in pool b % pools; within it, sequences keep the order of their ids.
std::vector<Slot> slots_of(std::span<const int64_t> bucket_of, int64_t dp, int64_t pool) {
  const int64_t pools = dp / pool;
  std::vector<int64_t> filled(bucket_of.size() / pool, 0);
  std::vector<Slot> slots;
  for (const int64_t bucket : bucket_of) slots.push_back({bucket / pools, bucket % pools * pool + filled[bucket]++});
  return slots;
}

}  // namespace

Placement place_as_it_comes(std::span<const int64_t> work, int64_t dp, int64_t pool) {
  EQ_ASSERT(pool > 0 && dp > 0 && dp % pool == 0 && static_cast<int64_t>(work.size()) % dp == 0);
  Placement placement;
  for (int64_t j = 0; j < static_cast<int64_t>(work.size()); ++j) placement.slots.push_back({j / dp, j % dp});
  placement.lower_bound = bound_on_heaviest(work, heaviest_first(work), pool);
  placement.heaviest = heaviest_bucket(work, placement.slots, dp, pool);
  return placement;
}

Placement place_sequences(std::span<const int64_t> work, int64_t dp, int64_t pool) {
  Placement arrival = place_as_it_comes(work, dp, pool);
  Placement placement;
  placement.slots = slots_of(longest_first(work, heaviest_first(work), pool), dp, pool);
  placement.heaviest = heaviest_bucket(work, placement.slots, dp, pool);
  placement.lower_bound = arrival.lower_bound;
  return placement.heaviest < arrival.heaviest ? placement : arrival;
}

}  // namespace equipoise
