// Longest first onto the lightest: with a radix sort of times and a tournament of sequences it costs about as much as
// reading the items a few times. What it leaves uneven are the last, short ones, which refinement exchanges.
#include "equipoise/packing/spread.h"

#include "equipoise/packing/loads.h"
#include "equipoise/packing/longest_first.h"

namespace equipoise {

SpreadItems spread_items(std::vector<Item> items, int64_t sequences, const Caps& caps, int64_t moves) {
  sort_longest_first(items);
  SpreadItems spread{.packed = Packed(static_cast<size_t>(sequences)), .left = {}};
  for (auto& list : spread.packed) list.reserve(2 * items.size() / spread.packed.size());
  Loads loads(sequences);
  for (const Item& item : items) {
    const int64_t lightest = loads.lightest_with_room(caps, item.tokens);
    if (lightest < 0) {
      spread.left.push_back(item);
      continue;
    }
    loads.add(lightest, item);
    spread.packed[static_cast<size_t>(lightest)].push_back(item);
  }
  refine_packing(spread.packed, caps, moves);
  return spread;
}

}  // namespace equipoise
