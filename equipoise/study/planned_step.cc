// A step as a whole. The summary counts what the plan says and predicts with the cost model; it decides nothing.
#include "equipoise/study/planned_step.h"

#include <algorithm>

#include "equipoise/cost/cost.h"
#include "equipoise/model/workload.h"
#include "equipoise/planner/planner.h"

namespace equipoise {
namespace {

__extension__ typedef __int128 Wide;

/// Sums of one layer, each mask weighted with its layers, that are divided by the model's layers at the end.
struct LayerSums {
  int64_t query_cells = 0;
  int64_t key_cells = 0;
};

/// What the members of one pool wait for in all buckets of the step.
struct PoolTimes {
  int64_t attention_ns = 0;
  int64_t linear_ns = 0;
  int64_t exchange_ns = 0;
  int64_t all() const { return attention_ns + linear_ns + exchange_ns; }
};

/// Attention time of the slowest members, and what it would be if all members were level.
struct Level {
  int64_t slowest_ns = 0;
  int64_t total_ns = 0;
};

int64_t cells(std::span<const Message> messages) {
  int64_t sum = 0;
  for (const Message& message : messages) sum += message.block.length_tokens * message.block.heads;
  return sum;
}

void count_sequences(const PlanInputs& inputs, const StepPlan& step, StepSummary& summary) {
  Wide pairs = 0;
  for (const Sequence& sequence : step.sequences) {
    summary.tokens += sequence.tokens();
    summary.empty_sequences += sequence.segments.empty() ? 1 : 0;
    for (const Segment& segment : sequence.segments) pairs += layered_pairs(inputs.masks, segment.length_tokens);
  }
  summary.attention_pairs = static_cast<int64_t>(std::min<Wide>(pairs, no_limit));
}

int64_t padding_rows(const PlanInputs& inputs, const BucketPlan& bucket) {
  if (inputs.limits.align_tokens == 1) return 0;
  int64_t padding = 0;
  for (size_t r = 0; r < bucket.shardings.size(); ++r) {
    for (const int64_t rows : rank_rows(bucket.shardings[r], inputs.mesh, inputs.limits.align_tokens)) padding += rows;
    padding -= bucket.sequences[r].tokens();
  }
  return padding;
}

/// Adds one mask of a bucket; `sent_bytes` is by member of the pool.
void add_loads(const std::vector<MemberLoad>& loads, int64_t layers, PoolTimes& pool, Level& level,
               std::span<int64_t> sent_bytes) {
  PoolTimes slowest;
  for (size_t member = 0; member < loads.size(); ++member) {
    const MemberLoad& load = loads[member];
    slowest.attention_ns = std::max(slowest.attention_ns, load.attention().total());
    slowest.linear_ns = std::max(slowest.linear_ns, load.linear.total());
    level.total_ns += layers * load.attention().total();
    sent_bytes[member] += layers * load.sent_bytes;
  }
  pool.attention_ns += layers * slowest.attention_ns;
  pool.linear_ns += layers * slowest.linear_ns;
  level.slowest_ns += layers * slowest.attention_ns;
}

void summarize_times(const std::vector<PoolTimes>& pools, StepSummary& summary) {
  const auto slowest = std::max_element(pools.begin(), pools.end(),
                                        [](const PoolTimes& a, const PoolTimes& b) { return a.all() < b.all(); });
  summary.attention_ns = slowest->attention_ns;
  summary.linear_ns = slowest->linear_ns;
  summary.exchange_ns = slowest->exchange_ns;
}

void summarize_bytes(const std::vector<int64_t>& sent_bytes, StepSummary& summary) {
  Wide total = 0;
  for (const int64_t bytes : sent_bytes) total += bytes;
  summary.mean_sent_bytes = static_cast<int64_t>(total / static_cast<int64_t>(sent_bytes.size()));
  summary.max_sent_bytes = *std::max_element(sent_bytes.begin(), sent_bytes.end());
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const PlanInputs& inputs, const StepPlan& step) {
  const int64_t pools = inputs.mesh.dp / inputs.pool;
  std::vector<BucketPlan> buckets(step.buckets.size());
  for (int64_t pool = 0; pool < pools; ++pool)
    for (BucketPlan& bucket : plan_pool(inputs, step, pool)) {
      const auto place = static_cast<size_t>(bucket.bucket.micro_step * pools + pool);
      buckets[place] = std::move(bucket);
    }
  return buckets;
}

PlannedStep plan_all_buckets(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  PlannedStep planned{.step = plan_step(inputs, corpus, state), .buckets = {}, .summary = {}};
  planned.buckets = plan_buckets(inputs, planned.step);
  planned.summary = summarize(inputs, planned.step, planned.buckets);
  return planned;
}

StepSummary summarize(const PlanInputs& inputs, const StepPlan& step, std::span<const BucketPlan> buckets) {
  StepSummary summary;
  summary.loss_tokens = step.loss_tokens;
  summary.micro_batches = step.micro_batches;
  summary.pools = step.pools;
  count_sequences(inputs, step, summary);
  const int64_t members = inputs.members();
  const int64_t pools = inputs.mesh.dp / inputs.pool;
  LayerSums moved;
  Level level;
  std::vector<PoolTimes> times(static_cast<size_t>(pools));
  std::vector<int64_t> sent_bytes(static_cast<size_t>(pools * members), 0);
  std::vector<std::vector<PassTime>> bucket_times;
  for (const BucketPlan& bucket : buckets) {
    const int64_t pool = bucket.bucket.pool;
    const std::span<int64_t> sent(sent_bytes.data() + pool * members, static_cast<size_t>(members));
    summary.padding_rows += padding_rows(inputs, bucket);
    for (size_t mask = 0; mask < bucket.layers.size(); ++mask) {
      const int64_t layers = inputs.masks[mask].layers;
      const Exchange& exchange = bucket.layers[mask].exchange;
      moved.query_cells += layers * cells(exchange.queries);
      moved.key_cells += layers * cells(exchange.keys);
      summary.rounds = std::max(summary.rounds, exchange.rounds);
      const auto index = static_cast<int64_t>(mask);
      PoolTimes& pool_times = times[static_cast<size_t>(pool)];
      add_loads(member_loads(inputs, bucket, index), layers, pool_times, level, sent);
      pool_times.exchange_ns += layers * layer_time(inputs, bucket, index).exposed.total();
    }
    bucket_times.push_back(replica_times(inputs, bucket));
  }
  summary.moved_query_rows = ceil_div(moved.query_cells, inputs.heads.query * inputs.cost.layers);
  summary.moved_kv_rows = ceil_div(moved.key_cells, inputs.heads.kv * inputs.cost.layers);
  const int64_t mean_ns = ceil_div(level.total_ns, members);
  summary.ranks = {.imbalance_ppm = mean_ns > 0 ? mul_div(level.slowest_ns, ppm_one, mean_ns) : ppm_one,
                   .lower_bound_ppm = ppm_one};
  summarize_times(times, summary);
  summarize_bytes(sent_bytes, summary);
  summary.step_ns = step_time_ns(inputs.dp_sync, bucket_times, pools);
  return summary;
}

}  // namespace equipoise
