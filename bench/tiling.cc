// Tiles of a pool: the largest bytes of a rank over those of all-gather, what is left of imbalance, and the time to
// plan a bucket, by effort. Lengths are Libra-like (lognormal, median 644, sigma 2.02, clipped at the window, drawn
// here with a fixed seed) or those of a file, one an arrival and line, named by EQUIPOISE_LENGTHS.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/model/work.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/packing/packing.h"
#include "equipoise/planner/planner.h"

namespace equipoise {
namespace {

/// A pool of 8 replicas, or of as many as `replicas` says; the heaviest or the median one of `sequences`.
struct Shape {
  int64_t window;
  int64_t sequences;
  int64_t cp;
  int64_t replicas;
  bool heaviest;
};

constexpr Shape shapes[] = {{262'144, 128, 8, 8, true},
                            {262'144, 128, 8, 8, false},
                            {1'048'576, 32, 16, 8, true},
                            {1'048'576, 32, 16, 8, false},
                            {131'072, 64, 1, 64, true}};

std::vector<int64_t> read_lengths(const char* path) {
  std::ifstream file(path);
  std::vector<int64_t> lengths;
  for (int64_t length = 0; file >> length;) lengths.push_back(length);
  return lengths;
}

std::vector<int64_t> draw_lengths(int64_t window, int64_t tokens) {
  std::mt19937_64 rng(1);
  std::lognormal_distribution<double> length(std::log(644.0), 2.02);
  std::vector<int64_t> lengths;
  for (int64_t sum = 0; sum < tokens; sum += lengths.back())
    lengths.push_back(std::clamp(static_cast<int64_t>(length(rng)), int64_t{1}, window));
  return lengths;
}

PlanInputs make_inputs(const Shape& shape, int64_t kv_heads, Effort effort) {
  ModelShape model = find_model("llama3-8b");
  model.kv_heads = kv_heads;
  PlanInputs inputs;
  inputs.strategy = Strategy::libra;
  inputs.mesh = {.dp = shape.replicas, .pp = 1, .cp = shape.cp};
  inputs.mesh.ranks_per_node = inputs.mesh.world();  // one kind of link: traffic is bytes
  inputs.pool = shape.replicas;
  inputs.heads = heads_of(model, 1);
  inputs.masks = {Mask{.layers = model.layers}};
  inputs.limits.window_tokens = inputs.limits.max_tokens = shape.window;
  inputs.cost = make_cost_table(model, find_hardware("h100"), 1);
  inputs.effort = effort;
  return inputs;
}

std::vector<Sequence> pack(const Shape& shape) {
  const char* path = std::getenv("EQUIPOISE_LENGTHS");
  const auto lengths =
      path != nullptr ? read_lengths(path) : draw_lengths(shape.window, shape.window * shape.sequences);
  PlanInputs inputs;
  inputs.mesh.dp = shape.sequences;
  inputs.limits.window_tokens = inputs.limits.max_tokens = shape.window;
  return pack_plain(inputs, make_corpus(lengths, inputs.arrival), {}).sequences;
}

/// Pools by longest processing time with cardinality, as placement fills them; the one that the shape asks for.
StepPlan choose_pool(const Shape& shape) {
  const auto sequences = pack(shape);
  const auto work = [](const Sequence& sequence) {
    int64_t pairs = 0;
    for (const Segment& segment : sequence.segments) pairs += layered_pairs(std::vector{Mask{}}, segment.length_tokens);
    return pairs;
  };
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t s = 0; s < sequences.size(); ++s) order.push_back({-work(sequences[s]), s});
  std::sort(order.begin(), order.end());
  std::vector<std::pair<int64_t, std::vector<size_t>>> pools(shape.sequences / shape.replicas);
  for (const auto& [minus_work, sequence] : order) {
    auto* lightest = &pools.front();
    const auto full = [&](const auto& pool) { return std::ssize(pool.second) == shape.replicas; };
    for (auto& pool : pools)
      if (!full(pool) && (full(*lightest) || pool.first < lightest->first)) lightest = &pool;
    lightest->first -= minus_work;
    lightest->second.push_back(sequence);
  }
  std::sort(pools.rbegin(), pools.rend());
  auto members = pools[shape.heaviest ? 0 : pools.size() / 2].second;
  std::sort(members.begin(), members.end());
  StepPlan step;
  for (const size_t sequence : members) step.sequences.push_back(sequences[sequence]);
  return step;
}

/// Forward bytes that a rank sends and receives, without log-sum-exp, at most.
int64_t largest_bytes(const PlanInputs& inputs, const Exchange& exchange) {
  std::vector<int64_t> bytes(inputs.members(), 0);
  for (const auto& messages : {exchange.queries, exchange.keys})
    for (const Message& message : messages) {
      const int64_t moved =
          2 * message.block.length_tokens * message.block.heads * inputs.heads.size * inputs.cost.element_bytes;
      bytes[message.from.value] += moved;
      bytes[message.to.value] += moved;
    }
  return *std::max_element(bytes.begin(), bytes.end());
}

double imbalance_of(const PlanInputs& inputs, const BucketPlan& plan) {
  const auto work = attention_work(plan.sequences, plan.shardings, plan.layers[0].tiles, inputs.heads, inputs.mesh.cp);
  const auto times =
      attention_times({inputs.cost, inputs.masks[0], inputs.heads}, plan.sequences, work, inputs.members());
  double slowest = 0;
  double total = 0;
  for (const PassTime& time : times) {
    slowest = std::max(slowest, static_cast<double>(time.total()));
    total += static_cast<double>(time.total());
  }
  return slowest * static_cast<double>(times.size()) / total;
}

/// Arguments: shape, KV heads, effort.
void plan_pool(benchmark::State& state) {
  const Shape& shape = shapes[state.range(0)];
  const PlanInputs inputs = make_inputs(shape, state.range(1), static_cast<Effort>(state.range(2)));
  const StepPlan step = choose_pool(shape);
  Bucket bucket;
  bucket.pool = 0;
  for (int64_t r = 0; r < shape.replicas; ++r) bucket.sequences.push_back(SeqId{r});
  BucketPlan plan;
  for (auto _ : state) benchmark::DoNotOptimize(plan = plan_bucket(inputs, step, bucket));
  // All-gather: each rank receives the other ranks' rows of all keys and values, and sends its own to each of them.
  const int64_t cp = std::max<int64_t>(2, shape.cp);
  const int64_t gathered =
      2 * 2 * (cp - 1) * shape.window / cp * inputs.heads.kv * inputs.heads.size * inputs.cost.element_bytes;
  state.counters["bytes"] =
      static_cast<double>(largest_bytes(inputs, plan.layers[0].exchange)) / static_cast<double>(gathered);
  state.counters["imbalance"] = imbalance_of(inputs, plan);
  state.counters["tiles_a_rank"] =
      static_cast<double>(plan.layers[0].tiles.size()) / static_cast<double>(inputs.members());
  state.SetLabel(std::to_string(shape.window / 1024) + "K cp " + std::to_string(shape.cp) +
                 (shape.heaviest ? " heaviest " : " median ") + std::string(name(inputs.effort)));
}

BENCHMARK(plan_pool)
    ->ArgsProduct({{0, 1, 2, 3, 4}, {4, 8}, {0, 1, 2}})
    ->ArgNames({"shape", "kv", "effort"})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace equipoise
