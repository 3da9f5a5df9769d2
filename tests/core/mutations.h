#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "equipoise/base/errors.h"
#include "tests/core/random_plans.h"

// Mutation testing of the checkers: a valid plan is broken in one place, and the checker that is there for this kind of
// fault must speak, by one of the rules that are there for it. A plan that passes must be as good as it was.

namespace equipoise {

/// One kind of fault in a `Plan`. `apply` returns false where the plan has no place for it.
template <class Plan>
struct Fault {
  std::string name;
  std::function<bool(Plan&, SplitMix64&)> apply;
  std::set<std::string> rules;  ///< at least one of these must speak
  int64_t made = 0, caught = 0, equal = 0, proven = 0;
};

/// How plans are made and judged.
template <class Plan>
struct MutationTrial {
  std::function<Plan(uint64_t seed)> make;
  std::function<Violations(const Plan&)> check;
  std::function<bool(const Plan&, const Plan&)> same;   ///< equal after sorting
  std::function<std::string(const Plan&)> dense_fault;  ///< "" where a dense count proves the plan right
};

inline bool names_any(const Violations& found, const std::set<std::string>& rules) {
  for (const Violation& violation : found)
    if (rules.contains(violation.rule)) return true;
  return false;
}

/// Breaks plan after plan until each kind of fault was made often enough, and prints what became of them.
template <class Plan>
void run_mutations(const MutationTrial<Plan>& trial, std::vector<Fault<Plan>> faults) {
  const int64_t count = random_runs<int64_t>(1000);
  const auto unfinished = [&](const Fault<Plan>& fault) { return fault.made < count; };
  const auto most_seeds = static_cast<uint64_t>(40 * count);
  for (uint64_t seed = 0; seed < most_seeds && std::any_of(faults.begin(), faults.end(), unfinished); ++seed) {
    const Plan plan = trial.make(seed);
    SplitMix64 rng{seed};
    if (seed % 16 == 0) {
      ASSERT_EQ(trial.dense_fault(plan), "") << "seed " << seed;
    }
    for (Fault<Plan>& fault : faults) {
      if (!unfinished(fault)) continue;
      Plan broken = plan;
      if (!fault.apply(broken, rng) || broken == plan) continue;
      ++fault.made;
      const Violations found = trial.check(broken);
      if (!found.empty()) {
        ASSERT_TRUE(names_any(found, fault.rules)) << fault.name << ", seed " << seed << ": only '" << found[0].rule
                                                   << "' speaks: " << found[0].where << ": " << found[0].what;
        ++fault.caught;
      } else if (trial.same(broken, plan)) {
        ++fault.equal;
      } else {
        ASSERT_EQ(trial.dense_fault(broken), "") << fault.name << ", seed " << seed << ": no checker speaks";
        ++fault.proven;
      }
    }
  }
  std::printf("%-34s %7s %7s %7s %7s\n", "fault", "made", "caught", "equal", "proven");
  for (const Fault<Plan>& fault : faults) {
    std::printf("%-34s %7ld %7ld %7ld %7ld\n", fault.name.c_str(), fault.made, fault.caught, fault.equal, fault.proven);
    EXPECT_GE(fault.made, count) << fault.name << ": too few places for this fault";
    EXPECT_TRUE(fault.rules.empty() || fault.caught > 0) << fault.name << ": never caught";
  }
}

/// A random element, or nullptr of an empty list.
template <class List>
auto* pick(List& list, SplitMix64& rng) {
  return list.empty() ? nullptr
                      : &list[static_cast<size_t>(random_between(rng, 0, static_cast<int64_t>(list.size()) - 1))];
}

template <class List>
bool drop_one(List& list, SplitMix64& rng) {
  if (list.empty()) return false;
  list.erase(list.begin() + random_between(rng, 0, static_cast<int64_t>(list.size()) - 1));
  return true;
}

template <class List>
bool repeat_one(List& list, SplitMix64& rng) {
  if (list.empty()) return false;
  const auto place = list.begin() + random_between(rng, 0, static_cast<int64_t>(list.size()) - 1);
  const auto copy = *place;
  list.insert(place, copy);
  return true;
}

template <class List>
bool swap_two(List& list, SplitMix64& rng) {
  if (list.size() < 2) return false;
  std::swap(*pick(list, rng), *pick(list, rng));
  return true;
}

/// Off by one, either way.
inline bool nudge(int64_t& value, SplitMix64& rng) {
  value += random_between(rng, 0, 1) * 2 - 1;
  return true;
}

/// Another value in [low, high]; false where there is none.
inline bool change(int64_t& value, int64_t low, int64_t high, SplitMix64& rng) {
  if (high <= low) return false;
  const int64_t old = value;
  while (value == old) value = random_between(rng, low, high);
  return true;
}

}  // namespace equipoise
