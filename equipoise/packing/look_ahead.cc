// A beam search over levels. A level says how full the sequences of a step become: long documents are placed one by one
// up to it, short ones flow in like water until they reach it. A step is judged by its imbalance and by what it leaves
// to the next ones, whose arrivals are known.
#include "equipoise/packing/look_ahead.h"

#include <algorithm>

#include "equipoise/base/integers.h"

namespace equipoise {
namespace {

/// Short pieces that arrived in one step, as an amount.
struct Fluid {
  int64_t since_step = 0;
  int64_t tokens = 0;
  int64_t time_ns = 0;
};

struct State {
  std::vector<Waiting> bigs;  ///< longest first
  std::vector<Fluid> shorts;  ///< first in, first out
  int64_t score = 0;          ///< parts per million, summed over the steps so far
  int64_t first_level = 0;
};

struct Decision {
  int64_t level = 0;
  int64_t imbalance = 0;  ///< ppm of the unit
  int64_t score = 0;
};

void arrive(State& state, const Outlook& outlook, const std::vector<Waiting>& pieces) {
  for (const Waiting& piece : pieces) {
    if (outlook.is_big(piece)) {
      state.bigs.push_back(piece);
      continue;
    }
    if (state.shorts.empty() || state.shorts.back().since_step != piece.held.since_step)
      state.shorts.push_back({piece.held.since_step, 0, 0});
    state.shorts.back().tokens += piece.held.length_tokens;
    state.shorts.back().time_ns += piece.time_ns;
  }
  std::sort(state.bigs.begin(), state.bigs.end(), longer);
}

/// Sequences as basins: water is measured in time, a basin holds what its room in tokens allows.
struct Basin {
  int64_t floor_ns = 0;
  int64_t room_ns = 0;

  int64_t holds(int64_t level_ns) const { return std::clamp<int64_t>(level_ns - floor_ns, 0, room_ns); }
};

int64_t water_below(const std::vector<Basin>& basins, int64_t level_ns) {
  int64_t water = 0;
  for (const Basin& basin : basins) water += basin.holds(level_ns);
  return water;
}

/// The lowest level, to a millionth, below which there is room for that much water; `high_ns` is one with room enough.
int64_t surface(const std::vector<Basin>& basins, int64_t water_ns, int64_t high_ns) {
  int64_t low = 0;
  while (high_ns - low > 1 + high_ns / ppm_one) {
    const int64_t middle = low + (high_ns - low) / 2;
    (water_below(basins, middle) < water_ns ? low : high_ns) = middle;
  }
  return high_ns;
}

/// Lets shorts flow in up to the level, due ones always; takes them from the front of the queue.
void pour(const Outlook& outlook, int64_t level_ns, std::vector<Load>& loads, std::vector<Fluid>& shorts) {
  Fluid all;
  int64_t due_tokens = 0;
  for (const Fluid& fluid : shorts) {
    all.tokens += fluid.tokens;
    all.time_ns += fluid.time_ns;
    if (outlook.caps.max_delay_steps >= 0 && outlook.step - fluid.since_step >= outlook.caps.max_delay_steps)
      due_tokens += fluid.tokens;
  }
  if (all.tokens <= 0) return;
  const int64_t token_ns = std::max<int64_t>(1, all.time_ns / all.tokens);
  std::vector<Basin> basins;
  int64_t high_ns = std::max(level_ns, slowest(loads));
  for (const Load& load : loads)
    basins.push_back({load.time_ns, std::max<int64_t>(0, outlook.caps.tokens - load.tokens) * token_ns});
  const int64_t under_level = water_below(basins, high_ns);
  const int64_t water = std::min(all.tokens, std::max(due_tokens, under_level / token_ns)) * token_ns;
  for (const Basin& basin : basins)
    high_ns = std::max(high_ns, water > under_level ? basin.floor_ns + basin.room_ns : high_ns);
  const int64_t top = water_below(basins, high_ns) - water < token_ns ? high_ns : surface(basins, water, high_ns);
  int64_t used_tokens = 0;
  for (size_t s = 0; s < loads.size(); ++s) {
    const int64_t tokens = std::min(basins[s].holds(top) / token_ns, water / token_ns - used_tokens);
    loads[s].tokens += tokens;
    loads[s].time_ns += tokens * token_ns;
    used_tokens += tokens;
  }
  for (Fluid& fluid : shorts) {
    const int64_t part = std::min(used_tokens, fluid.tokens);
    fluid.time_ns -= fluid.tokens == 0 ? 0 : mul_div(fluid.time_ns, part, fluid.tokens);
    fluid.tokens -= part;
    used_tokens -= part;
  }
  std::erase_if(shorts, [](const Fluid& fluid) { return fluid.tokens == 0; });
}

/// Levels worth trying: the mean of the shorts, a little less, each distinct long document's time, and a ladder above.
std::vector<int64_t> candidate_levels(const Outlook& outlook, const State& state) {
  int64_t short_ns = 0;
  for (const Fluid& fluid : state.shorts) short_ns += fluid.time_ns;
  const int64_t base = std::max(outlook.window_ns, short_ns / outlook.sequences);
  std::vector<int64_t> levels = {base, base / 10 * 9, base / 10 * 8};
  constexpr size_t most_bigs = 20;
  for (const Waiting& big : state.bigs) {
    if (levels.size() == 3 + most_bigs) break;
    if (levels.back() != big.time_ns) levels.push_back(big.time_ns);
  }
  const int64_t costliest = state.bigs.empty() ? base : std::max(base, state.bigs.front().time_ns);
  for (int64_t level = base / 5 * 6; level < costliest / 10 * 13; level += level / 5 + 1) levels.push_back(level);
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

/// What a level makes of the loads, in parts per million of a full step: imbalance, plus the price of tokens left and
/// of an uneven step.
void judge(const Outlook& outlook, const LookAhead& effort, const std::vector<Load>& loads, int64_t waiting_tokens,
           Decision& decision) {
  int64_t tokens = 0;
  int64_t time = 0;
  for (const Load& load : loads) {
    tokens += load.tokens;
    time += load.time_ns;
  }
  const int64_t step_tokens = outlook.sequences * outlook.window_tokens;
  const int64_t above = slowest(loads) - time / outlook.sequences;
  decision.imbalance = mul_div(above, ppm_one * 2 / 3, outlook.window_ns);
  const int64_t left = mul_div(waiting_tokens - tokens, effort.backlog_ppm, step_tokens);
  const int64_t uneven = mul_div(std::abs(tokens - step_tokens), ppm_one, step_tokens);
  decision.score = decision.imbalance + left + mul_div(mul_div(uneven, uneven, ppm_one), effort.tokens_ppm, ppm_one);
}

/// The best decisions of one state, of distinct imbalance.
std::vector<Decision> decide(const Outlook& outlook, const LookAhead& effort, const State& state) {
  int64_t waiting_tokens = 0;
  for (const Waiting& big : state.bigs) waiting_tokens += big.held.length_tokens;
  for (const Fluid& fluid : state.shorts) waiting_tokens += fluid.tokens;
  std::vector<Decision> decisions;
  std::vector<Load> loads;
  std::vector<int64_t> place;
  std::vector<Fluid> shorts;
  for (const int64_t level : candidate_levels(outlook, state)) {
    if (!place_bigs(outlook, state.bigs, level, loads, place)) continue;
    shorts = state.shorts;
    pour(outlook, level, loads, shorts);
    decisions.push_back({.level = level});
    judge(outlook, effort, loads, waiting_tokens, decisions.back());
  }
  std::sort(decisions.begin(), decisions.end(), [](const Decision& a, const Decision& b) {
    return std::pair(a.score, a.level) < std::pair(b.score, b.level);
  });
  std::vector<Decision> kept;
  for (const Decision& decision : decisions) {
    const auto same = [&](const Decision& other) { return other.imbalance == decision.imbalance; };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(decision);
    if (static_cast<int64_t>(kept.size()) == effort.children) break;
  }
  return kept;
}

State follow(const Outlook& outlook, const State& state, const Decision& decision) {
  std::vector<Load> loads;
  std::vector<int64_t> place;
  place_bigs(outlook, state.bigs, decision.level, loads, place);
  State next{
      .bigs = {}, .shorts = state.shorts, .score = state.score + decision.score, .first_level = state.first_level};
  pour(outlook, decision.level, loads, next.shorts);
  for (size_t b = 0; b < state.bigs.size(); ++b)
    if (place[b] < 0) next.bigs.push_back(state.bigs[b]);
  return next;
}

/// The price of long documents that still wait at the horizon: the older, the dearer, as they will soon have to go
/// whatever they meet.
int64_t horizon_price(const Outlook& outlook, const LookAhead& effort, const State& state) {
  const int64_t bound = std::max<int64_t>(1, outlook.caps.max_delay_steps < 0 ? 8 : outlook.caps.max_delay_steps);
  int64_t price = 0;
  for (const Waiting& big : state.bigs) {
    const int64_t age = std::max<int64_t>(0, outlook.step + 1 - big.held.since_step);
    price += mul_div(big.time_ns, mul_div(age * age, effort.age_ppm, bound * bound), outlook.window_ns);
  }
  return price / outlook.sequences;
}

/// By score; paths of equal score by their first level, so that the choice does not depend on the order they were found
/// in.
bool better(const State& a, const State& b) {
  return std::pair(a.score, a.first_level) < std::pair(b.score, b.first_level);
}

void keep_best(std::vector<State>& states, int64_t beam) {
  std::sort(states.begin(), states.end(), better);
  if (static_cast<int64_t>(states.size()) > beam) states.resize(static_cast<size_t>(beam));
}

}  // namespace

bool place_bigs(const Outlook& outlook, const std::vector<Waiting>& bigs, int64_t level_ns, std::vector<Load>& loads,
                std::vector<int64_t>& place) {
  loads.assign(static_cast<size_t>(outlook.sequences), {});
  place.assign(bigs.size(), -1);
  const auto put = [&](size_t big, int64_t sequence) {
    loads[static_cast<size_t>(sequence)].add(bigs[big]);
    place[big] = sequence;
  };
  for (size_t b = 0; b < bigs.size(); ++b) {
    if (!outlook.caps.is_due(bigs[b], outlook.step)) continue;
    const int64_t sequence = lightest_with_room(loads, outlook.caps, bigs[b].held.length_tokens);
    if (sequence < 0) return false;
    put(b, sequence);
  }
  const int64_t level = std::max(level_ns, slowest(loads));
  auto lightest = std::min_element(loads.begin(), loads.end(), lighter);
  for (size_t b = 0; b < bigs.size(); ++b) {
    if (place[b] >= 0 || lightest->time_ns + bigs[b].time_ns > level ||
        !outlook.caps.admits(*lightest, bigs[b].held.length_tokens))
      continue;
    put(b, lightest - loads.begin());
    lightest = std::min_element(loads.begin(), loads.end(), lighter);
  }
  return true;
}

int64_t choose_level(const Outlook& outlook, const LookAhead& effort, const std::vector<Waiting>& bigs,
                     const std::vector<Waiting>& shorts, const std::vector<std::vector<Waiting>>& future) {
  State root;
  root.bigs = bigs;
  arrive(root, outlook, shorts);
  std::vector<State> states;
  for (const Decision& decision : decide(outlook, effort, root)) {
    states.push_back(follow(outlook, root, decision));
    states.back().first_level = decision.level;
  }
  if (states.empty()) return -1;
  keep_best(states, effort.beam);
  Outlook ahead = outlook;
  for (const auto& arrivals : future) {
    ++ahead.step;
    std::vector<State> next;
    for (State& state : states) {
      arrive(state, ahead, arrivals);
      for (const Decision& decision : decide(ahead, effort, state)) next.push_back(follow(ahead, state, decision));
    }
    if (next.empty()) break;  // no path places all that is due so far ahead: judge by the steps before
    if (&arrivals == &future.back())
      for (State& state : next) state.score += horizon_price(ahead, effort, state);
    keep_best(next, effort.beam);
    states = std::move(next);
  }
  return std::min_element(states.begin(), states.end(), better)->first_level;
}

}  // namespace equipoise
