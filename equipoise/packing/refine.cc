// Local search on the slowest sequence. Each list is sorted by time, so the best partner of a swap is found by binary
// search for the piece whose time differs by half the gap between the two sequences; a swap of one for several takes
// the other's pieces that fill the gap greedily, longest first.
#include "equipoise/packing/refine.h"

#include <algorithm>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

/// Piece `give` of the slowest sequence goes to sequence `other`, the pieces `take` of the other come back.
struct Change {
  int64_t slower_ns = 0;  ///< time of the slower of the two afterwards
  size_t other = 0;
  size_t give = 0;
  std::vector<size_t> take;  ///< rising indices
};

struct Pair {
  const std::vector<Waiting>& heavy;
  const std::vector<Waiting>& light;
  Load heavy_load;
  Load light_load;
};

void consider(const Pair& pair, const Caps& caps, Change candidate, Change& best) {
  Load heavy = pair.heavy_load;
  Load light = pair.light_load;
  heavy.remove(pair.heavy[candidate.give]);
  for (const size_t index : candidate.take) {
    light.remove(pair.light[index]);
    heavy.add(pair.light[index]);
  }
  light.add(pair.heavy[candidate.give]);
  const auto fits = [&](const Load& load) { return load.tokens <= caps.tokens && load.segments <= caps.segments; };
  if (!fits(heavy) || !fits(light)) return;
  candidate.slower_ns = std::max(heavy.time_ns, light.time_ns);
  if (candidate.slower_ns < best.slower_ns) best = std::move(candidate);
}

/// The first index of a list, longest first, whose time is at most `time_ns`.
size_t first_at_most(const std::vector<Waiting>& pieces, int64_t time_ns) {
  return static_cast<size_t>(
      std::partition_point(pieces.begin(), pieces.end(), [&](const Waiting& p) { return p.time_ns > time_ns; }) -
      pieces.begin());
}

/// All changes that give piece `give`: move it, swap it for one, swap it for several.
void consider_piece(const Pair& pair, const Caps& caps, size_t other, size_t give, Change& best) {
  consider(pair, caps, {0, other, give, {}}, best);
  const int64_t half_gap = (pair.heavy_load.time_ns - pair.light_load.time_ns) / 2;
  const int64_t wanted = pair.heavy[give].time_ns - half_gap;  // what the other should give back
  if (wanted <= 0) return;
  const size_t near = first_at_most(pair.light, wanted);
  for (size_t index = near == 0 ? 0 : near - 1; index < std::min(near + 1, pair.light.size()); ++index)
    if (pair.light[index].time_ns < pair.heavy[give].time_ns) consider(pair, caps, {0, other, give, {index}}, best);
  std::vector<size_t> several;
  int64_t left = wanted;
  for (size_t index = near; index < pair.light.size() && several.size() < 4; ++index) {
    index = std::max(index, first_at_most(pair.light, left));
    if (index >= pair.light.size()) break;
    several.push_back(index);
    left -= pair.light[index].time_ns;
  }
  if (several.size() > 1) consider(pair, caps, {0, other, give, several}, best);
}

void insert_sorted(std::vector<Waiting>& pieces, const Waiting& piece) {
  pieces.insert(std::lower_bound(pieces.begin(), pieces.end(), piece, longer), piece);
}

void apply(const Change& change, std::vector<Waiting>& heavy, std::vector<Waiting>& light) {
  const Waiting given = heavy[change.give];
  heavy.erase(heavy.begin() + static_cast<std::ptrdiff_t>(change.give));
  for (auto index = change.take.rbegin(); index != change.take.rend(); ++index) {
    const Waiting taken = light[*index];
    light.erase(light.begin() + static_cast<std::ptrdiff_t>(*index));
    insert_sorted(heavy, taken);
  }
  insert_sorted(light, given);
}

Load load_of(const std::vector<Waiting>& pieces) {
  Load load;
  for (const Waiting& piece : pieces) load.add(piece);
  return load;
}

}  // namespace

int64_t refine_packing(Packed& packed, const Caps& caps, int64_t moves) {
  std::vector<Load> loads;
  for (const auto& pieces : packed) loads.push_back(load_of(pieces));
  int64_t made = 0;
  for (; made < moves; ++made) {
    const auto slowest_load = std::max_element(loads.begin(), loads.end(),
                                               [](const Load& a, const Load& b) { return a.time_ns < b.time_ns; });
    if (slowest_load == loads.end()) break;
    const auto heavy = static_cast<size_t>(slowest_load - loads.begin());
    Change best{.slower_ns = loads[heavy].time_ns, .other = heavy, .give = 0, .take = {}};
    for (size_t other = 0; other < packed.size(); ++other) {
      if (loads[other].time_ns >= loads[heavy].time_ns) continue;
      const Pair pair{packed[heavy], packed[other], loads[heavy], loads[other]};
      for (size_t give = 0; give < packed[heavy].size(); ++give) consider_piece(pair, caps, other, give, best);
    }
    if (best.other == heavy) break;
    apply(best, packed[heavy], packed[best.other]);
    loads[heavy] = load_of(packed[heavy]);
    loads[best.other] = load_of(packed[best.other]);
    EQ_DEBUG_ASSERT(std::max(loads[heavy].time_ns, loads[best.other].time_ns) == best.slower_ns);
  }
  return made;
}

}  // namespace equipoise
