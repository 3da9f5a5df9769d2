// Balance between pools, and the speed of placing sequences, one thread. Each figure is max / mean - 1 over pools of
// the work F = sum of L^2 of their sequences, as Libra states it; one micro-step.
//
//   as_it_comes    sequences in the order of arrival
//   longest_first  longest processing time first with exact cardinality, as Libra places them
//   refined        place_sequences: then swaps
//   bound          max(mean, heaviest + the P - 1 lightest) / mean - 1: no placement is below
//   gap            refined less bound, means of what they are of
//
// Documents are lognormal with median 644 and sigma 2.02, clipped at the window, 20 seeds; sequences by plain packing.
// Arguments name files of lengths, one a line, each measured beside these: with a window of 1,048,576 tokens and 32
// sequences where a document is longer than 262,144, else of 262,144 tokens and 128 sequences.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>
#include <numeric>
#include <string>

#include "equipoise/base/rng.h"
#include "equipoise/packing/packing.h"
#include "equipoise/placement/level.h"
#include "equipoise/placement/placement.h"

namespace equipoise {
namespace {

constexpr int64_t seeds = 20;

struct Setting {
  int64_t window_tokens = 262'144;
  int64_t sequences = 128;
};

constexpr Setting quarter_million;
constexpr Setting million = {.window_tokens = 1'048'576, .sequences = 32};

double uniform(SplitMix64& random) { return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53; }

/// At least as many tokens as the setting's sequences hold.
std::vector<int64_t> draw_lengths(const Setting& setting, uint64_t seed) {
  SplitMix64 random{seed};
  std::vector<int64_t> lengths;
  for (int64_t tokens = 0; tokens < setting.window_tokens * setting.sequences; tokens += lengths.back()) {
    const double radius = std::sqrt(-2 * std::log(uniform(random)));
    const double normal = radius * std::cos(2 * std::numbers::pi * uniform(random));
    const double length = std::round(644 * std::exp(2.02 * normal));
    lengths.push_back(std::clamp(static_cast<int64_t>(length), int64_t{1}, setting.window_tokens));
  }
  return lengths;
}

std::vector<int64_t> read_lengths(const std::string& path) {
  std::ifstream file(path);
  std::vector<int64_t> lengths;
  for (int64_t length = 0; file >> length;) lengths.push_back(length);
  return lengths;
}

/// Sum of L^2 of each sequence of the first step.
std::vector<int64_t> work_of(const Setting& setting, const std::vector<int64_t>& lengths) {
  PlanInputs inputs;
  inputs.mesh.dp = setting.sequences;
  inputs.limits.window_tokens = inputs.limits.max_tokens = setting.window_tokens;
  std::vector<int64_t> work;
  for (const Sequence& sequence : pack_plain(inputs, make_corpus(lengths, inputs.arrival), {}).sequences) {
    work.push_back(0);
    for (const Segment& segment : sequence.segments) work.back() += segment.length_tokens * segment.length_tokens;
  }
  return work;
}

struct Imbalances {
  double as_it_comes = 0;
  double longest_first = 0;
  double refined = 0;
  double bound = 0;
};

Imbalances imbalances_of(const std::vector<int64_t>& work, int64_t pool) {
  const Grid grid{.dp = std::ssize(work), .pool = pool, .replica_speeds = {}};
  const auto mean =
      static_cast<double>(std::accumulate(work.begin(), work.end(), int64_t{0})) / static_cast<double>(grid.pools());
  const auto over_mean = [&](int64_t heaviest) { return static_cast<double>(heaviest) / mean - 1; };
  std::vector<SequenceGroup> groups(static_cast<size_t>(grid.pools()));
  std::vector<int64_t> ids(work.size());
  std::iota(ids.begin(), ids.end(), 0);
  fill_longest_first(work, ids, pool, groups);
  const Waited refined = measure_waiting(work, place_sequences(work, grid), grid);
  return {.as_it_comes = over_mean(measure_waiting(work, place_as_it_comes(grid), grid).work),
          .longest_first = over_mean(waited(groups)),
          .refined = over_mean(refined.work),
          .bound = std::max(0.0, over_mean(refined.lower_bound))};
}

/// Means over the sets of lengths; what is timed is place_sequences for one set.
void balance(benchmark::State& state, const std::vector<std::vector<int64_t>>& works, int64_t pool) {
  Imbalances sums;
  double worst_gap = 0;
  for (const auto& work : works) {
    const Imbalances one = imbalances_of(work, pool);
    sums.as_it_comes += one.as_it_comes;
    sums.longest_first += one.longest_first;
    sums.refined += one.refined;
    sums.bound += one.bound;
    worst_gap = std::max(worst_gap, one.refined - one.bound);
  }
  const Grid grid{.dp = std::ssize(works[0]), .pool = pool, .replica_speeds = {}};
  for (auto _ : state) benchmark::DoNotOptimize(place_sequences(works[0], grid));
  const auto count = static_cast<double>(works.size());
  state.counters["as_it_comes"] = sums.as_it_comes / count;
  state.counters["longest_first"] = sums.longest_first / count;
  state.counters["refined"] = sums.refined / count;
  state.counters["bound"] = sums.bound / count;
  state.counters["gap"] = (sums.refined - sums.bound) / count;
  state.counters["worst_gap"] = worst_gap;
}

void register_balance(const std::string& name, const std::vector<std::vector<int64_t>>& works) {
  for (const int64_t pool : {8, 16})
    benchmark::RegisterBenchmark((name + "/pool:" + std::to_string(pool)).c_str(), balance, works, pool)
        ->Unit(benchmark::kMicrosecond);
}

void register_seeds(const std::string& name, const Setting& setting) {
  std::vector<std::vector<int64_t>> works;
  for (int64_t seed = 0; seed < seeds; ++seed)
    works.push_back(work_of(setting, draw_lengths(setting, static_cast<uint64_t>(seed))));
  register_balance(name, works);
}

void register_file(const std::string& path) {
  const std::vector<int64_t> lengths = read_lengths(path);
  if (lengths.empty()) {
    std::fprintf(stderr, "%s holds no lengths\n", path.c_str());
    return;
  }
  const bool long_ones = *std::max_element(lengths.begin(), lengths.end()) > quarter_million.window_tokens;
  const auto slash = path.find_last_of('/') + 1;  // 0 where there is none
  register_balance(path.substr(slash), {work_of(long_ones ? million : quarter_million, lengths)});
}

/// 100,000 sequences of 256K into 12,500 pools.
void many_pools(benchmark::State& state) {
  const Setting setting{.window_tokens = quarter_million.window_tokens, .sequences = 100'000};
  const std::vector<int64_t> work = work_of(setting, draw_lengths(setting, 0));
  const Grid grid{.dp = setting.sequences, .pool = 8, .replica_speeds = {}};
  std::vector<Slot> slots;
  for (auto _ : state) slots = place_sequences(work, grid);
  const Waited waited = measure_waiting(work, slots, grid);
  state.counters["over_bound"] = static_cast<double>(waited.work) / static_cast<double>(waited.lower_bound) - 1;
}

BENCHMARK(many_pools)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace equipoise

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  equipoise::register_seeds("256K", equipoise::quarter_million);
  equipoise::register_seeds("1M", equipoise::million);
  for (int i = 1; i < count; ++i) equipoise::register_file(arguments[i]);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
