// Speed and balance of packing on one thread, beside what is used elsewhere on the same times. `Time` is the CPU time
// of the thread, so that a loaded machine does not change the ratios. excess_ppm is max / mean - 1 of the predicted
// time of sequences, in millionths.
//
//   step            one step of look-ahead packing: bound of 8 steps, S = 131072, S_max = 1.5 S
//   spread          documents with known times into sequences: longest first, then refined to half a millionth
//   wlb_step        the same through pack_wlb without queues: arrivals, predicted times and sequences included
//   heap_lpt        longest first with a comparison sort and a binary heap; ratio: its time over that of spread
//   karmarkar_karp  largest differencing with tuples of M sets in a heap; ratio as above
//
// Lengths are drawn like those of a 128K production job; EQUIPOISE_BENCH_LENGTHS names a file of others, one a line,
// for `step`. Costs are of llama2-7b on h100.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

#include "equipoise/base/rng.h"
#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/packing/longest_first.h"
#include "equipoise/packing/packing.h"
#include "equipoise/packing/spread.h"

namespace equipoise {
namespace {

/// Documents of up to `longest_tokens` and their share, parts per thousand.
struct Share {
  int64_t longest_tokens;
  int64_t ppt;
};

/// Mostly short documents, some of tens of thousands of tokens, a bump just below 128K that holds much of the work.
constexpr Share shares_like_production[] = {{6'250, 967}, {18'750, 16}, {68'750, 7}, {112'500, 8}, {125'000, 2}};

std::vector<int64_t> lengths_like_production(int64_t count) {
  SplitMix64 random{2025};
  std::vector<int64_t> lengths;
  while (static_cast<int64_t>(lengths.size()) < count) {
    auto place = static_cast<int64_t>(random.next() % 1000);
    int64_t shortest = 0;
    const Share* share = shares_like_production;
    for (; place >= share->ppt; ++share) {
      place -= share->ppt;
      shortest = share->longest_tokens;
    }
    lengths.push_back(shortest + 1 +
                      static_cast<int64_t>(random.next() % static_cast<uint64_t>(share->longest_tokens - shortest)));
  }
  return lengths;
}

std::vector<int64_t> lengths_of_run() {
  const char* path = std::getenv("EQUIPOISE_BENCH_LENGTHS");
  if (path == nullptr) return lengths_like_production(50'000);
  std::ifstream file(path);
  std::vector<int64_t> lengths;
  for (int64_t length = 0; file >> length;) lengths.push_back(length);
  return lengths;
}

PlanInputs inputs_for(int64_t sequences, int64_t window_tokens, int64_t max_delay_steps) {
  const ModelShape model = find_model("llama2-7b");
  PlanInputs inputs;
  inputs.micro_steps = sequences;
  inputs.heads = heads_of(model, 1);
  inputs.masks = {Mask{.kind = MaskKind::causal, .layers = model.layers}};
  inputs.cost = make_cost_table(model, find_hardware("h100"), 1);
  inputs.limits.window_tokens = window_tokens;
  inputs.limits.max_tokens = window_tokens + window_tokens / 2;
  inputs.delay.max_delay_steps = max_delay_steps;
  return inputs;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const std::function<void()>& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

double excess_ppm(const std::vector<int64_t>& times_ns) {
  const auto total = static_cast<double>(std::accumulate(times_ns.begin(), times_ns.end(), int64_t{0}));
  const auto slowest = static_cast<double>(*std::max_element(times_ns.begin(), times_ns.end()));
  return 1e6 * (slowest * static_cast<double>(times_ns.size()) / total - 1);
}

std::vector<int64_t> times_of(const PlanInputs& inputs, const std::vector<Sequence>& sequences) {
  std::vector<int64_t> times;
  for (const Sequence& sequence : sequences) {
    times.push_back(0);
    for (const Segment& segment : sequence.segments) times.back() += document_time_ns(inputs, segment.length_tokens);
  }
  return times;
}

/// Whole runs, step by step.
void step(benchmark::State& state) {
  const PlanInputs inputs = inputs_for(state.range(0), 131072, 8);
  const Corpus corpus = make_corpus(lengths_of_run(), inputs.arrival);
  if (corpus.order.empty()) return state.SkipWithError("EQUIPOISE_BENCH_LENGTHS names no file of lengths");
  PackerState packer;
  double excess = 0;
  double slowest_seconds = 0;
  int64_t full_steps = 0;  // the last ones, when nothing arrives any more, only drain
  for (auto _ : state) {
    PackedStep packed;
    const double seconds = seconds_of([&] { packed = pack_look_ahead(inputs, corpus, packer, 1); });
    state.SetIterationTime(seconds);
    slowest_seconds = std::max(slowest_seconds, seconds);
    packer = packed.after;
    if (packer.position < static_cast<int64_t>(corpus.order.size())) {
      excess += excess_ppm(times_of(inputs, packed.sequences));
      ++full_steps;
    }
    if (is_finished(corpus, packer)) packer = {};
  }
  state.counters["excess_ppm"] = excess / static_cast<double>(std::max<int64_t>(1, full_steps));
  state.counters["slowest_ms"] = 1e3 * slowest_seconds;
}

/// Documents to be spread over `sequences` sequences, with what they take.
struct Job {
  int64_t sequences = 1;
  PlanInputs inputs;
  std::vector<int64_t> lengths;
  std::vector<Item> items;
};

/// documents and sequences are the arguments of the benchmark; a window holds the mean of a sequence.
Job job_of(const benchmark::State& state) {
  Job job{.sequences = state.range(1), .inputs = {}, .lengths = lengths_like_production(state.range(0)), .items = {}};
  const int64_t tokens = std::accumulate(job.lengths.begin(), job.lengths.end(), int64_t{0});
  job.inputs = inputs_for(job.sequences, ceil_div(tokens, job.sequences), no_bound);
  for (const int64_t length : job.lengths)
    job.items.push_back({document_time_ns(job.inputs, length), length, job.items.size()});
  return job;
}

/// As the look-ahead calls it.
std::vector<int64_t> spread_times(const Job& job) {
  const Caps caps{job.inputs.limits.max_tokens, job.inputs.limits.max_documents, no_bound};
  const SpreadItems spread = spread_items(job.items, job.sequences, caps, 16 * job.sequences);
  std::vector<int64_t> times;
  for (const auto& list : spread.packed) {
    Load load;
    for (const Item& item : list) load.add(item);
    times.push_back(load.time_ns);
  }
  return times;
}

/// The sequence of each document.
using Bins = std::vector<int64_t>;

Bins heap_lpt_bins(const Job& job) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (const Item& item : job.items) order.emplace_back(-item.time_ns, item.index);
  std::sort(order.begin(), order.end());
  std::priority_queue<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>, std::greater<>> lightest;
  for (int64_t s = 0; s < job.sequences; ++s) lightest.emplace(0, s);
  Bins bins(job.items.size());
  for (const auto& [negative_ns, index] : order) {
    const auto [load_ns, sequence] = lightest.top();
    lightest.pop();
    lightest.emplace(load_ns - negative_ns, sequence);
    bins[index] = sequence;
  }
  return bins;
}

/// A set of documents: a chain from `first` to `last`.
struct Set {
  int64_t time_ns = 0;
  size_t first = 0;
  size_t last = 0;
};

/// Up to M sets, slowest first; those that are missing are empty.
using Tuple = std::vector<Set>;

bool slower(const Set& a, const Set& b) { return a.time_ns > b.time_ns; }

/// Adds the slowest sets of `b` to the fastest of `a`, empty ones before all.
void combine(Tuple& a, const Tuple& b, int64_t sequences, std::vector<size_t>& next) {
  const size_t filled = a.size();
  const size_t fresh = std::min(b.size(), static_cast<size_t>(sequences) - filled);
  for (size_t i = fresh; i < b.size(); ++i) {
    Set& set = a[filled - 1 - (i - fresh)];
    set.time_ns += b[i].time_ns;
    next[set.last] = b[i].first;
    set.last = b[i].last;
  }
  a.insert(a.end(), b.begin(), b.begin() + static_cast<std::ptrdiff_t>(fresh));
  if (fresh < b.size() || !std::is_sorted(a.begin(), a.end(), slower)) std::sort(a.begin(), a.end(), slower);
}

Bins karmarkar_karp_bins(const Job& job) {
  constexpr auto none = static_cast<size_t>(-1);
  std::vector<size_t> next(job.items.size(), none);
  std::vector<Tuple> tuples;
  std::priority_queue<std::pair<int64_t, size_t>> widest;  // by difference of slowest and fastest set
  const auto push = [&](size_t index) {
    const Tuple& sets = tuples[index];
    const bool full = static_cast<int64_t>(sets.size()) == job.sequences;
    widest.emplace(sets.front().time_ns - (full ? sets.back().time_ns : 0), index);
  };
  for (const Item& item : job.items) {
    tuples.push_back({{item.time_ns, item.index, item.index}});
    push(item.index);
  }
  while (widest.size() > 1) {
    const size_t a = widest.top().second;
    widest.pop();
    const size_t b = widest.top().second;
    widest.pop();
    combine(tuples[a], tuples[b], job.sequences, next);
    tuples[b] = {};
    push(a);
  }
  Bins bins(job.items.size());
  const Tuple& sets = tuples[widest.top().second];
  for (size_t s = 0; s < sets.size(); ++s)
    for (size_t item = sets[s].first; item != none; item = next[item]) bins[item] = static_cast<int64_t>(s);
  return bins;
}

void spread(benchmark::State& state) {
  const Job job = job_of(state);
  std::vector<int64_t> times;
  for (auto _ : state) state.SetIterationTime(seconds_of([&] { times = spread_times(job); }));
  state.counters["excess_ppm"] = excess_ppm(times);
}

void wlb_step(benchmark::State& state) {
  const Job job = job_of(state);
  const Corpus corpus = make_corpus(job.lengths, job.inputs.arrival);
  PackedStep packed;
  for (auto _ : state) state.SetIterationTime(seconds_of([&] { packed = pack_wlb(job.inputs, corpus, {}); }));
  state.counters["excess_ppm"] = excess_ppm(times_of(job.inputs, packed.sequences));
  state.counters["left"] = static_cast<double>(packed.after.held.size());
}

/// Another way of spreading, in turn with ours.
void compare(benchmark::State& state, Bins (*bins_of)(const Job&)) {
  const Job job = job_of(state);
  Bins bins;
  double our_seconds = 0;
  double their_seconds = 0;
  for (auto _ : state) {
    our_seconds += seconds_of([&] { benchmark::DoNotOptimize(spread_times(job)); });
    const double seconds = seconds_of([&] { bins = bins_of(job); });
    their_seconds += seconds;
    state.SetIterationTime(seconds);
  }
  std::vector<int64_t> times(static_cast<size_t>(job.sequences));
  for (const Item& item : job.items) times[static_cast<size_t>(bins[item.index])] += item.time_ns;
  state.counters["excess_ppm"] = excess_ppm(times);
  state.counters["ratio"] = their_seconds / our_seconds;
}

void heap_lpt(benchmark::State& state) { compare(state, heap_lpt_bins); }
void karmarkar_karp(benchmark::State& state) { compare(state, karmarkar_karp_bins); }

BENCHMARK(step)->Arg(4)->Arg(32)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(spread)
    ->Args({8192, 64})
    ->Args({131'072, 1024})
    ->Args({1'000'000, 8192})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(wlb_step)->Args({8192, 64})->Args({1'000'000, 8192})->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(heap_lpt)
    ->Args({8192, 64})
    ->Args({131'072, 1024})
    ->Args({1'000'000, 8192})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
// Not a million documents: in tuples of 8192 they take it minutes.
BENCHMARK(karmarkar_karp)->Args({8192, 64})->Args({131'072, 1024})->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace equipoise
