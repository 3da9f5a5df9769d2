// Attention and linear time of a rank from the integer tables: what a kernel entry, a set of work items and a number of
// rows take.

#include <algorithm>

#include "equipoise/cost/cost.h"

namespace equipoise {

namespace {

/// Rows computed at once, in so many kernel entries of equal heads.
PassTime rows_time(const AttentionModel& model, Range rows, int64_t length_tokens, int64_t query_heads,
                   int64_t entries) {
  const auto& [cost, mask, heads, grid_rows] = model;
  const AttentionCost& kernel = cost.attention;
  const int64_t keys = visible_keys(mask, rows, length_tokens).length;
  const int64_t blocks = ceil_div(rows.length, kernel.tile_rows);
  const int64_t tiles = kernel_tiles(kernel, mask, rows, length_tokens);
  // Queries read and outputs written, keys and values read.
  const int64_t cells = rows.length * query_heads + keys * ceil_div(query_heads, heads.group());
  const int64_t bytes = 2 * cells * heads.size * cost.element_bytes;
  const int64_t forward = entries * kernel.entry_ns + mul_div(query_heads * blocks, kernel.block_ps, 1000) +
                          mul_div(query_heads * tiles, evaluate(kernel.tile_ps, keys), 1000) +
                          mul_div(bytes, kernel.kilobyte_ps, 1024 * 1000);
  return {forward, mul_div(forward, evaluate(kernel.backward_ppm, keys), ppm_one)};
}

}  // namespace

PassTime entry_time(const AttentionModel& model, Range rows, int64_t length_tokens, int64_t query_heads) {
  if (rows.length <= 0 || query_heads <= 0) return {};
  const int64_t grid = model.grid_rows;
  if (grid == 0) return rows_time(model, rows, length_tokens, query_heads, 1);
  PassTime time;
  for (int64_t begin = rows.begin, end = 0; begin < rows.end(); begin = end) {
    end = std::min(rows.end(), (begin / grid + 1) * grid);
    time +=
        rows_time(model, {begin, end - begin}, length_tokens, query_heads, ceil_div(query_heads, model.heads.group()));
  }
  return time;
}

PassTime linear_time(const CostTable& cost, int64_t rows) {
  if (rows <= 0) return {};
  const int64_t forward = mul_div(rows, evaluate(cost.linear.token_ps, rows), 1000);
  return {forward, mul_div(forward, cost.linear.backward_ppm, ppm_one)};
}

int64_t at_speed(int64_t ns, int64_t speed_ppt) { return mul_div(ns, 1000, speed_ppt); }

std::vector<PassTime> attention_times(const AttentionModel& model, std::span<const Sequence> sequences,
                                      std::span<const WorkItem> work, int64_t members, int64_t rounds) {
  std::vector<PassTime> times(members * rounds);
  const WorkItem* last = nullptr;
  for (const WorkItem& item : work) {
    PassTime& time = times[item.member.value * rounds + item.round];
    // Work is sorted by (member, round): a new pair is a new kernel call.
    if (last == nullptr || last->member != item.member || last->round != item.round)
      time += {model.cost.attention.call_ns, model.cost.attention.call_ns};
    last = &item;
    const int64_t length = sequences[item.replica_in_pool].segments[item.segment].length_tokens;
    time += entry_time(model, {item.q_begin, item.q_length}, length, item.heads);
  }
  return times;
}

std::vector<PassTime> attention_times(const AttentionModel& model, std::span<const Sequence> sequences,
                                      std::span<const WorkItem> work, int64_t members) {
  int64_t rounds = 1;
  for (const WorkItem& item : work) rounds = std::max(rounds, item.round + 1);
  const auto by_round = attention_times(model, sequences, work, members, rounds);
  std::vector<PassTime> times(members);
  for (size_t i = 0; i < by_round.size(); ++i) times[i / rounds] += by_round[i];
  return times;
}

int64_t rows_work_ns(const PlanInputs& inputs, Range rows, int64_t length_tokens) {
  int64_t work = 0;
  for (const Mask& mask : inputs.masks)
    work +=
        mask.layers *
        entry_time({inputs.cost, mask, inputs.heads, inputs.grid()}, rows, length_tokens, inputs.heads.query).total();
  return work;
}

int64_t sequence_work_ns(const PlanInputs& inputs, const Sequence& sequence) {
  int64_t work = 0;
  for (const Segment& segment : sequence.segments)
    work += rows_work_ns(inputs, {0, segment.length_tokens}, segment.length_tokens);
  return work;
}

int64_t sequence_time_ns(const PlanInputs& inputs, const Sequence& sequence) {
  return sequence_work_ns(inputs, sequence) + tokens_time_ns(inputs, sequence.tokens());
}

int64_t tokens_time_ns(const PlanInputs& inputs, int64_t tokens) {
  const LinearCost& linear = inputs.cost.linear;
  const int64_t token_ps = evaluate(linear.token_ps, inputs.limits.window_tokens);
  return mul_div(mul_div(tokens * inputs.cost.layers, token_ps, 1000), ppm_one + linear.backward_ppm, ppm_one);
}

int64_t document_time_ns(const PlanInputs& inputs, int64_t length_tokens) {
  return rows_work_ns(inputs, {0, length_tokens}, length_tokens) + tokens_time_ns(inputs, length_tokens);
}

}  // namespace equipoise
