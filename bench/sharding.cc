// What each sharding makes of the same packed sequences: the predicted attention time of one layer on the slowest rank
// of a context group, over the ideal (all documents whole, their time spread evenly over the ranks), and what the
// decision takes beside it. Everything printed but the last column is the same on every machine.
//
// Usage: sharding [LENGTHS]: a file of one document length a line; without it, lengths are drawn from a long-tailed
// distribution.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>

#include "equipoise/base/errors.h"
#include "equipoise/base/rng.h"
#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/sharding/sharding.h"

namespace equipoise {
namespace {

constexpr int64_t measured_steps = 16;  // of 4 sequences
constexpr int64_t warm_up_steps = 8;    // look-ahead starts with nothing held

/// Documents by length: bins of 6250 tokens and how many of 100,000 documents lie in each, as in long-context training
/// sets: a mean of 4,000 tokens, and an eighth of all tokens in documents above 64K.
constexpr std::array<int64_t, 20> bins = {97229, 1226, 352, 171, 111, 100, 80, 70, 60, 50,
                                          40,    70,   60,  30,  80,  70,  40, 20, 10, 131};
constexpr int64_t bin_tokens = 6250;

std::vector<int64_t> draw_lengths(int64_t tokens) {
  SplitMix64 rng{7};
  const auto below = [&](int64_t end) { return static_cast<int64_t>(rng.next() % static_cast<uint64_t>(end)); };
  std::vector<int64_t> lengths;
  while (tokens > 0) {
    int64_t place = below(100'000);
    int64_t bin = 0;
    while (place >= bins[static_cast<size_t>(bin)]) place -= bins[static_cast<size_t>(bin++)];
    lengths.push_back(bin * bin_tokens + 1 + below(bin_tokens));
    tokens -= lengths.back();
  }
  return lengths;
}

std::vector<int64_t> read_lengths(const char* path) {
  std::ifstream file(path);
  if (!file) throw InputError("the file cannot be opened", path, "give a file of lengths");
  std::vector<int64_t> lengths;
  for (int64_t length = 0; file >> length;) lengths.push_back(length);
  if (!file.eof()) throw InputError("not all of it are lengths", path, "give one whole number a line");
  return lengths;
}

PlanInputs make_inputs(Strategy strategy, int64_t window) {
  PlanInputs inputs;
  inputs.strategy = strategy;
  inputs.mesh.dp = 4;
  inputs.limits.window_tokens = window;
  inputs.limits.max_tokens = strategy == Strategy::plain ? window : window * 3 / 2;
  inputs.delay.max_delay_steps = strategy == Strategy::plain ? 0 : 8;
  const ModelShape model = find_model("llama3-8b");
  inputs.heads = heads_of(model, 1);
  inputs.cost = make_cost_table(model, find_hardware("h100"), 1);
  inputs.cost.layers = 1;
  validate(inputs);
  return inputs;
}

/// The sequences of the measured steps.
std::vector<Sequence> pack(const PlanInputs& inputs, std::span<const int64_t> lengths) {
  const Corpus corpus = make_corpus(lengths, inputs.arrival);
  std::vector<Sequence> sequences;
  PackerState state;
  while (state.step < warm_up_steps + measured_steps && !is_finished(corpus, state)) {
    StepPlan step = plan_step(inputs, corpus, state);
    if (state.step >= warm_up_steps) sequences.insert(sequences.end(), step.sequences.begin(), step.sequences.end());
    state = std::move(step.state_after);
  }
  if (sequences.empty())
    throw InputError("the documents end before step " + std::to_string(warm_up_steps), "lengths", "give more of them");
  return sequences;
}

struct Way {
  const char* name;
  std::function<Sharding(const PlanInputs&, const Sequence&)> shard;
};

std::vector<Way> ways() {
  const auto rule = [](ShardingRule one) {
    return [one](const PlanInputs& inputs, const Sequence& sequence) {
      return shard_sequence(one, sequence, inputs.mesh.cp);
    };
  };
  return {{"sequence_zigzag", rule(ShardingRule::sequence_zigzag)},
          {"document_zigzag", rule(ShardingRule::document_zigzag)},
          {"hybrid", shard_hybrid},
          {"adaptive", shard_adaptive}};
}

struct Outcome {
  double of_ideal = 0;
  double decision_us = 0;  ///< processor time for one sequence, mean
};

Outcome try_way(const Way& way, const PlanInputs& inputs, const std::vector<Sequence>& sequences) {
  std::vector<Sharding> shardings;
  const std::clock_t begin = std::clock();
  for (const Sequence& sequence : sequences) shardings.push_back(way.shard(inputs, sequence));
  const double taken_us = 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  double slowest = 0;
  double work = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    slowest += static_cast<double>(slowest_rank_ns(inputs, sequences[s], shardings[s]));
    work += static_cast<double>(sequence_work_ns(inputs, sequences[s]));
  }
  return {slowest * static_cast<double>(inputs.mesh.cp) / work, taken_us / static_cast<double>(sequences.size())};
}

void show_instance(const char* packing, PlanInputs inputs, const std::vector<Sequence>& sequences) {
  size_t documents = 0;
  for (const Sequence& sequence : sequences) documents += sequence.segments.size();
  for (const int64_t cp : {2, 4, 8}) {
    inputs.mesh.cp = cp;
    std::printf("%7ld  %-10s %9zu %9.1f %3ld", static_cast<long>(inputs.limits.window_tokens), packing,
                sequences.size(), static_cast<double>(documents) / static_cast<double>(sequences.size()),
                static_cast<long>(cp));
    double decision_us = 0;
    for (const Way& way : ways()) {
      const Outcome outcome = try_way(way, inputs, sequences);
      std::printf(" %16.3f", outcome.of_ideal);
      decision_us = outcome.decision_us;  // of the last way
    }
    std::printf(" %12.0f\n", decision_us);
  }
}

void show_all(const char* path) {
  std::printf(
      "Attention time of the slowest rank over the ideal: one causal layer of llama3-8b on h100, forward and\n"
      "backward, means over sequences\n");
  std::printf("%7s  %-10s %9s %9s %3s", "window", "packing", "sequences", "documents", "cp");
  for (const Way& way : ways()) std::printf(" %16s", way.name);
  std::printf(" %12s\n", "adaptive, us");
  for (const int64_t window : {65536, 131072}) {
    const std::vector<int64_t> lengths =
        path == nullptr ? draw_lengths(4 * (warm_up_steps + measured_steps + 12) * window) : read_lengths(path);
    for (const auto& [name, strategy] :
         {std::pair("plain", Strategy::plain), std::pair("look-ahead", Strategy::equipoise)}) {
      const PlanInputs inputs = make_inputs(strategy, window);
      show_instance(name, inputs, pack(inputs, lengths));
    }
  }
}

}  // namespace
}  // namespace equipoise

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);  // takes the flags that all benchmarks are given
  try {
    equipoise::show_all(argc > 1 ? argv[1] : nullptr);
  } catch (const equipoise::InputError& error) {
    std::cerr << "sharding: error: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
