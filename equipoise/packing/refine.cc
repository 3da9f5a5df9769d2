// Local search on the slowest sequence. What counts is how much time moves from it to another one: half the gap between
// the two is the best there is. So partners are tried from the lightest on, until none can gain more than what was
// found; and as each list is sorted by time, one pass over both finds for each piece the partner of a swap.
#include "equipoise/packing/refine.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"

namespace equipoise {
namespace {

constexpr size_t most_taken = 4;

/// Piece `give` of the slowest sequence goes to sequence `other`; `taken` pieces of the other come back.
struct Change {
  int64_t gain_ns = 0;  ///< by which the slower of the two becomes faster
  size_t other = 0;
  size_t give = 0;
  std::array<size_t, most_taken> take = {};  ///< rising indices
  size_t taken = 0;
};

/// The slowest sequence and another one.
struct Pair {
  const std::vector<Item>& heavy;
  const std::vector<Item>& light;
  const Load& heavy_load;
  const Load& light_load;
  const Caps& caps;
  int64_t surplus_ns;  ///< of the slowest above the level that all should reach

  int64_t gap_ns() const { return heavy_load.time_ns - light_load.time_ns; }
  int64_t most_gain_ns() const { return gap_ns() / 2; }
  /// A gain that ends the search: the surplus is gone, or half of what can be gained.
  int64_t enough_ns() const { return std::min(surplus_ns, most_gain_ns() - most_gain_ns() / 2); }
};

/// Keeps the candidate as `best` if it gains more and fits.
void consider(const Pair& pair, const Change& candidate, Change& best) {
  const Item& given = pair.heavy[candidate.give];
  int64_t moved_ns = given.time_ns;
  int64_t moved_tokens = given.tokens;
  for (size_t i = 0; i < candidate.taken; ++i) {
    moved_ns -= pair.light[candidate.take[i]].time_ns;
    moved_tokens -= pair.light[candidate.take[i]].tokens;
  }
  const int64_t gain_ns = std::min(moved_ns, pair.gap_ns() - moved_ns);
  if (gain_ns <= best.gain_ns) return;
  const auto taken = static_cast<int64_t>(candidate.taken);
  const bool fits = pair.light_load.tokens + moved_tokens <= pair.caps.tokens &&
                    pair.heavy_load.tokens - moved_tokens <= pair.caps.tokens &&
                    pair.light_load.segments + 1 - taken <= pair.caps.segments &&
                    pair.heavy_load.segments - 1 + taken <= pair.caps.segments;
  if (!fits) return;
  best = candidate;
  best.gain_ns = gain_ns;
}

/// Gives one piece and takes none or one back: the one that moves nearest to half the gap, from either side.
void consider_singles(const Pair& pair, size_t other, Change& best) {
  size_t near = 0;  // the first piece of the other that is not longer than wanted; wanted falls from piece to piece
  for (size_t give = 0; give < pair.heavy.size() && best.gain_ns < pair.enough_ns(); ++give) {
    consider(pair, {.other = other, .give = give}, best);
    const int64_t wanted_ns = pair.heavy[give].time_ns - pair.most_gain_ns();
    if (wanted_ns <= 0) continue;
    while (near < pair.light.size() && pair.light[near].time_ns > wanted_ns) ++near;
    for (size_t index = near == 0 ? 0 : near - 1; index < std::min(near + 1, pair.light.size()); ++index)
      consider(pair, {.other = other, .give = give, .take = {index}, .taken = 1}, best);
  }
}

/// Gives one piece and takes several back that fill the rest greedily, longest first.
void consider_several(const Pair& pair, size_t other, Change& best) {
  for (size_t give = 0; give < pair.heavy.size() && best.gain_ns < pair.enough_ns(); ++give) {
    Change change{.other = other, .give = give};
    int64_t wanted_ns = pair.heavy[give].time_ns - pair.most_gain_ns();
    auto from = pair.light.begin();
    while (change.taken < most_taken) {
      from = std::partition_point(from, pair.light.end(), [&](const Item& p) { return p.time_ns > wanted_ns; });
      if (from == pair.light.end()) break;
      change.take[change.taken++] = static_cast<size_t>(from - pair.light.begin());
      wanted_ns -= from->time_ns;
      ++from;
    }
    if (change.taken > 1) consider(pair, change, best);
  }
}

void insert_sorted(std::vector<Item>& items, const Item& item) {
  items.insert(std::lower_bound(items.begin(), items.end(), item, goes_before), item);
}

/// A packing under change, with the sequences by time.
struct Search {
  Packed& packed;
  const Caps& caps;
  std::vector<Load> loads;
  std::set<std::pair<int64_t, size_t>> by_time;
  int64_t level_ns = 0;  ///< what each should take: the mean, and half a millionth that no report shows

  int64_t surplus_ns() const { return by_time.empty() ? 0 : by_time.rbegin()->first - level_ns; }

  void update(size_t sequence, const Load& load) {
    auto node = by_time.extract({loads[sequence].time_ns, sequence});
    node.value().first = load.time_ns;
    by_time.insert(std::move(node));
    loads[sequence] = load;
  }
};

Search start(Packed& packed, const Caps& caps) {
  Search search{packed, caps, std::vector<Load>(packed.size()), {}, 0};
  int64_t total_ns = 0;
  for (size_t s = 0; s < packed.size(); ++s) {
    for (const Item& item : packed[s]) search.loads[s].add(item);
    search.by_time.emplace(search.loads[s].time_ns, s);
    total_ns += search.loads[s].time_ns;
  }
  if (!packed.empty()) search.level_ns = total_ns / static_cast<int64_t>(packed.size());
  search.level_ns += search.level_ns / (2 * ppm_one);
  return search;
}

/// A change of the slowest sequence that gains most, or enough.
Change best_change(const Search& search) {
  Change best;
  const size_t heavy = search.by_time.rbegin()->second;
  for (const auto& [time_ns, other] : search.by_time) {
    const Pair pair{search.packed[heavy], search.packed[other], search.loads[heavy],
                    search.loads[other],  search.caps,          search.surplus_ns()};
    if (best.gain_ns > 0 && pair.enough_ns() <= best.gain_ns) break;
    consider_singles(pair, other, best);
    consider_several(pair, other, best);
  }
  return best;
}

void apply(const Change& change, Search& search) {
  const size_t heavy = search.by_time.rbegin()->second;
  auto& from = search.packed[heavy];
  auto& to = search.packed[change.other];
  Load heavy_load = search.loads[heavy];
  Load light_load = search.loads[change.other];
  const Item given = from[change.give];
  from.erase(from.begin() + static_cast<std::ptrdiff_t>(change.give));
  heavy_load.remove(given);
  for (size_t i = change.taken; i-- > 0;) {
    const Item taken = to[change.take[i]];
    to.erase(to.begin() + static_cast<std::ptrdiff_t>(change.take[i]));
    light_load.remove(taken);
    insert_sorted(from, taken);
    heavy_load.add(taken);
  }
  insert_sorted(to, given);
  light_load.add(given);
  EQ_DEBUG_ASSERT(std::max(heavy_load.time_ns, light_load.time_ns) == search.loads[heavy].time_ns - change.gain_ns);
  search.update(heavy, heavy_load);
  search.update(change.other, light_load);
}

}  // namespace

int64_t refine_packing(Packed& packed, const Caps& caps, int64_t moves) {
  Search search = start(packed, caps);
  int64_t made = 0;
  for (; made < moves && search.surplus_ns() > 0; ++made) {
    const Change change = best_change(search);
    if (change.gain_ns == 0) break;
    apply(change, search);
  }
  return made;
}

}  // namespace equipoise
