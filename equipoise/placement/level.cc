// Groups trade members until the slowest cannot get faster. A swap shifts the difference of two sequences, so the best
// partner of a sequence is found by bisection: the one that is lighter by what the slower group should lose.

#include "equipoise/placement/level.h"

#include <algorithm>
#include <queue>
#include <set>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

using Order = std::set<std::pair<int64_t, int64_t>>;  ///< (time, group): the fastest first, ties by group

struct Swap {
  int64_t time = 0;  ///< of the slower of the two groups, where it is waited for
  int64_t group = -1;
  size_t given = 0;  ///< index of the slowest group's member
  size_t taken = 0;  ///< index of the other group's
};

/// All that a search for the next swap reads.
struct Leveling {
  std::span<const int64_t> work;
  std::vector<SequenceGroup>& groups;
  std::vector<Order> turns;
};

constexpr int64_t partners = 64;

/// What the slowest group should lose to another: what makes their times equal, in the same turn; in another, all that
/// fits under the time which that turn takes anyway.
int64_t wanted_shift(const Leveling& leveling, const SequenceGroup& slowest, const SequenceGroup& other) {
  if (slowest.turn != other.turn) {
    const int64_t ceiling = leveling.turns[other.turn].rbegin()->first;
    return mul_div(ceiling, other.speed_ppm, ppm_one) - other.work;
  }
  const int64_t speeds = slowest.speed_ppm + other.speed_ppm;
  return mul_div(slowest.work, other.speed_ppm, speeds) - mul_div(other.work, slowest.speed_ppm, speeds);
}

void try_swap(const Leveling& leveling, int64_t slowest, const Swap& tried, Swap& best) {
  const SequenceGroup& from = leveling.groups[slowest];
  const SequenceGroup& to = leveling.groups[tried.group];
  const int64_t shift = leveling.work[from.members[tried.given]] - leveling.work[to.members[tried.taken]];
  if (shift <= 0) return;
  int64_t time = from.time_with(-shift);
  if (from.turn == to.turn)
    time = std::max(time, to.time_with(shift));
  else if (to.time_with(shift) > leveling.turns[to.turn].rbegin()->first)
    return;
  if (time < best.time) best = {time, tried.group, tried.given, tried.taken};
}

/// The best swap between two groups, if it beats the one known.
void search_pair(const Leveling& leveling, int64_t slowest, int64_t other, Swap& best) {
  const SequenceGroup& from = leveling.groups[slowest];
  const SequenceGroup& to = leveling.groups[other];
  const int64_t shift = wanted_shift(leveling, from, to);
  if (shift <= 0) return;
  const auto is_lighter = [&](int64_t member, int64_t value) { return leveling.work[member] < value; };
  for (size_t given = 0; given < from.members.size(); ++given) {
    const int64_t match = leveling.work[from.members[given]] - shift;
    const auto found = std::lower_bound(to.members.begin(), to.members.end(), match, is_lighter);
    const auto taken = static_cast<size_t>(found - to.members.begin());
    if (taken < to.members.size()) try_swap(leveling, slowest, {0, other, given, taken}, best);
    if (taken > 0) try_swap(leveling, slowest, {0, other, given, taken - 1}, best);
  }
}

void replace_member(std::span<const int64_t> work, SequenceGroup& group, size_t index, int64_t sequence) {
  const auto rising = [&](int64_t a, int64_t b) { return std::pair(work[a], a) < std::pair(work[b], b); };
  group.work += work[sequence] - work[group.members[index]];
  group.members.erase(group.members.begin() + static_cast<int64_t>(index));
  group.members.insert(std::lower_bound(group.members.begin(), group.members.end(), sequence, rising), sequence);
}

void apply(Leveling& leveling, int64_t slowest, const Swap& swap) {
  SequenceGroup& from = leveling.groups[slowest];
  SequenceGroup& to = leveling.groups[swap.group];
  leveling.turns[from.turn].erase({from.time(), slowest});
  leveling.turns[to.turn].erase({to.time(), swap.group});
  const int64_t given = from.members[swap.given];
  const int64_t taken = to.members[swap.taken];
  replace_member(leveling.work, from, swap.given, taken);
  replace_member(leveling.work, to, swap.taken, given);
  EQ_DEBUG_ASSERT(from.turn != to.turn ? from.time() == swap.time : std::max(from.time(), to.time()) == swap.time);
  leveling.turns[from.turn].insert({from.time(), slowest});
  leveling.turns[to.turn].insert({to.time(), swap.group});
}

/// One swap that makes the slowest group of a turn faster, if there is one.
bool improve(Leveling& leveling, int64_t turn) {
  const auto [time, slowest] = *leveling.turns[turn].rbegin();
  Swap best{.time = time};
  for (const Order& order : leveling.turns) {
    int64_t tried = 0;
    for (auto other = order.begin(); other != order.end() && tried < partners; ++other, ++tried)
      if (other->second != slowest) search_pair(leveling, slowest, other->second, best);
  }
  if (best.group < 0) return false;
  apply(leveling, slowest, best);
  return true;
}

}  // namespace

int64_t waited(std::span<const SequenceGroup> groups) {
  std::vector<int64_t> slowest;
  for (const SequenceGroup& group : groups) {
    slowest.resize(std::max(slowest.size(), static_cast<size_t>(group.turn) + 1), 0);
    slowest[group.turn] = std::max(slowest[group.turn], group.time());
  }
  int64_t sum = 0;
  for (const int64_t time : slowest) sum += time;
  return sum;
}

void fill_longest_first(std::span<const int64_t> work, std::vector<int64_t> sequences, int64_t size,
                        std::vector<SequenceGroup>& groups) {
  std::sort(sequences.begin(), sequences.end(),
            [&](int64_t a, int64_t b) { return std::pair(-work[a], a) < std::pair(-work[b], b); });
  using Open = std::pair<int64_t, int64_t>;  // (time, group): ties go to the lower group
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (size_t g = 0; g < groups.size(); ++g) open.emplace(0, static_cast<int64_t>(g));
  for (const int64_t sequence : sequences) {
    const int64_t g = open.top().second;
    open.pop();
    groups[g].members.push_back(sequence);
    groups[g].work += work[sequence];
    if (static_cast<int64_t>(groups[g].members.size()) < size) open.emplace(groups[g].time(), g);
  }
  const auto rising = [&](int64_t a, int64_t b) { return std::pair(work[a], a) < std::pair(work[b], b); };
  for (SequenceGroup& group : groups) std::sort(group.members.begin(), group.members.end(), rising);
}

int64_t level_groups(std::span<const int64_t> work, std::vector<SequenceGroup>& groups, int64_t swaps) {
  Leveling leveling{.work = work, .groups = groups, .turns = {}};
  for (size_t g = 0; g < groups.size(); ++g) {
    leveling.turns.resize(std::max(leveling.turns.size(), static_cast<size_t>(groups[g].turn) + 1));
    leveling.turns[groups[g].turn].insert({groups[g].time(), static_cast<int64_t>(g)});
  }
  int64_t made = 0;
  for (bool improved = true; improved && made < swaps;) {
    improved = false;
    for (int64_t turn = 0; turn < static_cast<int64_t>(leveling.turns.size()); ++turn)
      while (made < swaps && improve(leveling, turn)) {
        improved = true;
        ++made;
      }
  }
  return made;
}

}  // namespace equipoise
