// Tiles of a pool, as tables: the largest bytes of a rank over those of all-gather, what is left of imbalance, tiles
// and the time to plan a bucket, by effort; and for pools of whole documents the rows that move over the fewest that
// can. Time is of one thread's processor, the median of several plans.
//
// Usage: tiling [DATA] [FIRST]: DATA/instances holds libra256k_{0,1,2}.txt, libra1m_{0,1,2}.txt and
// wlb128k_64ranks_{0,1,2}.txt, one length an arrival and line; without it lengths are drawn here (lognormal, median
// 644, sigma 2.02, clipped at the window). Only instances whose name begins with FIRST.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>

#include "equipoise/cost/cost.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/model/work.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/packing/packing.h"
#include "equipoise/planner/planner.h"

namespace equipoise {
namespace {

constexpr int64_t files = 3;

/// One pool of `replicas`, the heaviest or the median one of all sequences of a file. Targets are for 4 and 8 KV heads.
struct Shape {
  std::string name;
  std::string file;
  int64_t window;
  int64_t sequences;
  int64_t cp;
  int64_t replicas;
  bool heaviest;
  std::array<double, 2> target;
};

const std::array<Shape, 4> split_shapes = {{{"I1 heavy", "libra256k", 262'144, 128, 8, 8, true, {1.05, .60}},
                                            {"I1 median", "libra256k", 262'144, 128, 8, 8, false, {.72, .45}},
                                            {"I2 heavy", "libra1m", 1'048'576, 32, 16, 8, true, {.77, .40}},
                                            {"I2 median", "libra1m", 1'048'576, 32, 16, 8, false, {.53, .30}}}};

std::vector<int64_t> read_lengths(const std::string& path) {
  std::ifstream file(path);
  std::vector<int64_t> lengths;
  for (int64_t length = 0; file >> length;) lengths.push_back(length);
  return lengths;
}

std::vector<int64_t> draw_lengths(uint64_t seed, int64_t window, int64_t tokens) {
  std::mt19937_64 rng(seed);
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

std::vector<Sequence> pack(const Shape& shape, const std::string& data, int64_t file) {
  const auto lengths = data.empty()
                           ? draw_lengths(file + 1, shape.window, shape.window * shape.sequences)
                           : read_lengths(data + "/instances/" + shape.file + "_" + std::to_string(file) + ".txt");
  PlanInputs inputs;
  inputs.mesh.dp = shape.sequences;
  inputs.limits.window_tokens = inputs.limits.max_tokens = shape.window;
  return pack_plain(inputs, make_corpus(lengths, inputs.arrival), {}).sequences;
}

int64_t pairs_of(const Sequence& sequence) {
  int64_t pairs = 0;
  for (const Segment& segment : sequence.segments) pairs += layered_pairs(std::vector{Mask{}}, segment.length_tokens);
  return pairs;
}

/// Pools by longest processing time with cardinality, as placement fills them; the one that the shape asks for.
StepPlan choose_pool(const Shape& shape, const std::vector<Sequence>& sequences) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t s = 0; s < sequences.size(); ++s) order.push_back({-pairs_of(sequences[s]), s});
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

/// A plan of a bucket and the milliseconds of processor that it took, the median of `repeats`.
struct Planned {
  PlanInputs inputs;
  BucketPlan plan;
  double ms = 0;
};

Planned time_pool(PlanInputs inputs, const StepPlan& step, int64_t repeats) {
  Bucket bucket;
  bucket.pool = 0;
  for (int64_t r = 0; r < std::ssize(step.sequences); ++r) bucket.sequences.push_back(SeqId{r});
  Planned planned{std::move(inputs), {}};
  std::vector<double> times;
  for (int64_t i = 0; i < repeats; ++i) {
    const std::clock_t begin = std::clock();
    planned.plan = plan_bucket(planned.inputs, step, bucket);
    times.push_back(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::sort(times.begin(), times.end());
  planned.ms = times[times.size() / 2];
  return planned;
}

int64_t repeats_of(Effort effort) {
  switch (effort) {
    case Effort::fast: return 31;
    case Effort::normal: return 7;
    case Effort::thorough: return 3;
  }
  return 1;
}

/// Forward bytes that a rank sends and receives, without log-sum-exp, at most, over those of all-gather, where each
/// rank receives the other ranks' rows of all keys and values and sends its own to each of them.
double largest_bytes(const Planned& planned, const Shape& shape) {
  const Heads& heads = planned.inputs.heads;
  const int64_t cell = heads.size * planned.inputs.cost.element_bytes;
  const Exchange& exchange = planned.plan.layers[0].exchange;
  std::vector<int64_t> bytes(planned.inputs.members(), 0);
  for (const auto& messages : {exchange.queries, exchange.keys})
    for (const Message& message : messages) {
      const int64_t moved = 2 * message.block.length_tokens * message.block.heads * cell;
      bytes[message.from.value] += moved;
      bytes[message.to.value] += moved;
    }
  const int64_t gathered = 2 * 2 * (shape.cp - 1) * shape.window / shape.cp * heads.kv * cell;
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) / static_cast<double>(gathered);
}

/// Predicted attention of the slowest member over the mean, with the given tiles.
double imbalance_of(const Planned& planned, std::span<const Tile> tiles) {
  const auto& [inputs, plan, ms] = planned;
  const auto work = attention_work(plan.sequences, plan.shardings, tiles, inputs.heads, inputs.mesh.cp);
  double slowest = 0;
  double total = 0;
  for (const PassTime& time :
       attention_times({inputs.cost, inputs.masks[0], inputs.heads}, plan.sequences, work, inputs.members())) {
    slowest = std::max(slowest, static_cast<double>(time.total()));
    total += static_cast<double>(time.total());
  }
  return slowest * static_cast<double>(inputs.members()) / total;
}

void print_split(const Shape& shape, const std::string& data, int64_t kv_heads) {
  for (const Effort effort : efforts) {
    double bytes = 0, ms = 0, imbalance = 0, tiles = 0;
    std::string each;
    for (int64_t file = 0; file < files; ++file) {
      const StepPlan step = choose_pool(shape, pack(shape, data, file));
      const Planned planned = time_pool(make_inputs(shape, kv_heads, effort), step, repeats_of(effort));
      const auto& placed = planned.plan.layers[0].tiles;
      const double of_file = largest_bytes(planned, shape);
      char text[16];
      std::snprintf(text, sizeof text, "%s%.3f", file == 0 ? "" : " / ", of_file);
      each += text;
      bytes += of_file / files;
      ms += planned.ms / files;
      imbalance = std::max(imbalance, imbalance_of(planned, placed));
      tiles += static_cast<double>(placed.size()) / static_cast<double>(planned.inputs.members()) / files;
    }
    std::printf("| %s | %d | %s | %s | **%.3f** | %.2f | %.2f | %.4f | %.1f |\n", shape.name.c_str(),
                static_cast<int>(kv_heads), std::string(name(effort)).c_str(), each.c_str(), bytes,
                shape.target[kv_heads == 4 ? 0 : 1], ms, imbalance, tiles);
    std::fflush(stdout);
  }
}

/// Query rows of one replica that must leave it to save `surplus_ns`, at least: its dearest row blocks.
double fewest_rows(const AttentionModel& model, const Sequence& sequence, int64_t surplus_ns) {
  const int64_t block = model.cost.attention.tile_rows;
  std::vector<std::pair<int64_t, int64_t>> blocks;  // nanoseconds, rows
  for (const Segment& segment : sequence.segments) {
    int64_t below = 0;
    for (int64_t row = 0; row < segment.length_tokens; row += block) {
      const int64_t end = std::min(row + block, segment.length_tokens);
      const int64_t whole = entry_time(model, {0, end}, segment.length_tokens, model.heads.query).total();
      blocks.push_back({whole - below, end - row});
      below = whole;
    }
  }
  std::sort(blocks.rbegin(), blocks.rend());
  double left = static_cast<double>(surplus_ns);
  double rows = 0;
  for (const auto& [ns, length] : blocks) {
    if (left <= 0) break;
    rows += static_cast<double>(length) * std::min(1.0, left / static_cast<double>(ns));
    left -= static_cast<double>(ns);
  }
  return rows;
}

/// Rows that moved, whole ones counted, over the fewest that bring every replica down to the slowest one.
std::pair<double, double> moved_rows(const Planned& planned) {
  const auto& [inputs, plan, ms] = planned;
  double moved = 0;
  for (const Tile& tile : plan.layers[0].tiles)
    moved += static_cast<double>(tile.q_length * tile.heads) / static_cast<double>(inputs.heads.query);
  const AttentionModel model{inputs.cost, inputs.masks[0], inputs.heads};
  const auto times = [&](std::span<const Tile> tiles) {
    const auto work = attention_work(plan.sequences, plan.shardings, tiles, inputs.heads, inputs.mesh.cp);
    return attention_times(model, plan.sequences, work, inputs.members());
  };
  int64_t slowest = 0;
  for (const PassTime& time : times(plan.layers[0].tiles)) slowest = std::max(slowest, time.total());
  double fewest = 0;
  const auto before = times({});
  for (size_t m = 0; m < before.size(); ++m)
    fewest += fewest_rows(model, plan.sequences[m], before[m].total() - slowest);
  return {moved, fewest};
}

void print_whole(const Shape& shape, const std::string& data) {
  double before = 0, after = 0, part = 0, over = 0, tiles = 0, worst = 0, ms = 0;
  for (int64_t file = 0; file < files; ++file) {
    auto sequences = pack(shape, data, file);
    sequences.resize(shape.replicas);
    StepPlan step;
    step.sequences = std::move(sequences);
    const Planned planned = time_pool(make_inputs(shape, 8, Effort::normal), step, 31);
    const auto& placed = planned.plan.layers[0].tiles;
    std::vector<double> by_member(shape.replicas, 0);
    for (const Tile& tile : placed) by_member[tile.member.value] += 1;
    const auto [moved, fewest] = moved_rows(planned);
    before = std::max(before, imbalance_of(planned, {}));
    after = std::max(after, imbalance_of(planned, placed));
    part += 100 * moved / static_cast<double>(shape.window * shape.replicas) / files;
    over = std::max(over, moved / fewest);
    tiles += static_cast<double>(placed.size()) / static_cast<double>(shape.replicas) / files;
    worst = std::max(worst, *std::max_element(by_member.begin(), by_member.end()));
    ms += planned.ms / files;
  }
  std::printf("| %d | %.1f | %.4f | %.1f | %.4f | %.1f (%d) | %.2f |\n", static_cast<int>(shape.replicas), before,
              after, part, over, tiles, static_cast<int>(worst), ms);
}

void print_tables(const std::string& data, const std::string& first) {
  std::printf("| pool | KV heads | effort | bytes, each file | mean | target | ms | max/mean | tiles a rank |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|\n");
  for (const Shape& shape : split_shapes)
    if (shape.name.starts_with(first))
      for (const int64_t kv_heads : {4, 8}) print_split(shape, data, kv_heads);
  if (!std::string("I3").starts_with(first) && !first.starts_with("I3")) return;
  std::printf(
      "\n| I3, ranks | max/mean before | after | moved rows, %% | over the fewest | tiles a rank (worst) | "
      "ms |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const int64_t ranks : {8, 16, 32, 64})
    print_whole({"I3", "wlb128k_64ranks", 131'072, 64, 1, ranks, true, {}}, data);
}

}  // namespace
}  // namespace equipoise

int main(int count, char** words) {
  std::vector<std::string> given;
  for (int i = 1; i < count; ++i)
    if (!std::string(words[i]).starts_with("--")) given.push_back(words[i]);
  given.resize(2);
  equipoise::print_tables(given[0], given[1]);
}
