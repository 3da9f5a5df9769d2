// What may stand in the inputs of a plan, and what stands there unless told. All of it is checked once, before anything
// is planned, so that every stage may trust its arguments; the upper ends keep every product of the planner within 64
// bits.

#include <algorithm>
#include <array>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/shard.h"

namespace equipoise {
namespace {

constexpr int64_t most_ranks = int64_t{1} << 24;
constexpr int64_t most_sequences = int64_t{1} << 24;
constexpr int64_t most_tokens = int64_t{1} << 26;  ///< of a sequence: pairs x layers stay below 2^62
constexpr int64_t few_rows = 128;                  ///< of padding, that any rank has memory for
constexpr int64_t most_layers = int64_t{1} << 10;
constexpr int64_t most_of_a_cost = int64_t{1} << 40;
constexpr int64_t most_heads = int64_t{1} << 16;

/// Throws unless low <= value <= high.
void check_range(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  const std::string range = high == no_limit ? "at least " + std::to_string(low)
                                             : "from " + std::to_string(low) + " to " + std::to_string(high);
  throw InputError(field + " " + std::to_string(value) + " is out of range", "field " + field, "give a value " + range);
}

void check_mesh(const Mesh& mesh) {
  check_range("dp", mesh.dp, 1, most_ranks);
  check_range("pp", mesh.pp, 1, most_ranks);
  check_range("cp", mesh.cp, 1, most_ranks);
  check_range("tp", mesh.tp, 1, most_ranks);
  check_range("ranks_per_node", mesh.ranks_per_node, 1, most_ranks);
  // Two factors at a time: each is below 2^24, so no product wraps before it is seen to be too large.
  int64_t world = 1;
  for (const int64_t size : {mesh.dp, mesh.pp, mesh.cp, mesh.tp}) {
    world *= size;
    if (world > most_ranks)
      throw InputError("mesh " + describe(mesh) + " has more than " + std::to_string(most_ranks) + " ranks",
                       "field mesh", "give smaller sizes");
  }
  std::array<int64_t, 4> seen = {};
  for (const Axis axis : mesh.order)
    if (static_cast<int64_t>(axis) >= 0 && static_cast<int64_t>(axis) < 4) ++seen[static_cast<std::size_t>(axis)];
  if (seen != std::array<int64_t, 4>{1, 1, 1, 1})
    throw InputError("mesh order does not name each axis once", "field mesh_order", "name pp, dp, cp and tp once each");
}

std::string divisors(int64_t number) {
  std::string text;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) text.append(text.empty() ? "" : ", ").append(std::to_string(divisor));
  return text;
}

void check_pool(int64_t pool, int64_t dp) {
  if (pool >= 1 && dp % pool == 0) return;
  throw InputError("pool " + std::to_string(pool) + " does not divide dp " + std::to_string(dp), "field pool",
                   "use one of " + divisors(dp));
}

void check_heads(const Heads& heads) {
  check_range("heads.query", heads.query, 1, most_heads);
  check_range("heads.kv", heads.kv, 1, most_heads);
  check_range("heads.size", heads.size, 1, most_heads);
  if (heads.query % heads.kv != 0)
    throw InputError(
        std::to_string(heads.query) + " query heads are no multiple of " + std::to_string(heads.kv) + " KV heads",
        "field heads", "give a number of query heads that KV heads divide");
}

void check_masks(const std::vector<Mask>& masks, int64_t model_layers) {
  if (masks.empty()) throw InputError("there is no mask", "field masks", "give one mask for each kind of layer");
  int64_t layers = 0;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const Mask& mask = masks[i];
    const std::string where = "masks[" + std::to_string(i) + "]";
    check_range(where + ".layers", mask.layers, 1, most_layers);
    if (mask.kind == MaskKind::sliding_window)
      check_range(where + ".window", mask.window_tokens, 1, most_tokens);
    else if (mask.window_tokens != 0)
      throw InputError("a " + std::string(name(mask.kind)) + " mask has window " + std::to_string(mask.window_tokens),
                       "field " + where + ".window", "give a window to sliding_window masks only");
    layers += mask.layers;
  }
  if (layers != model_layers)
    throw InputError(
        "masks are given for " + std::to_string(layers) + " layers and the model has " + std::to_string(model_layers),
        "field masks", "let the masks' layers sum to the model's");
}

/// A sequence of so many tokens, or of a multiple, is padded nowhere under any rule.
int64_t padding_multiple(const Mesh& mesh, int64_t align_tokens) {
  const int64_t each_rank = align_tokens == 1 ? 1 : mesh.cp * align_tokens;
  return std::max(each_rank, sequence_multiple(ShardingRule::sequence_zigzag, mesh, align_tokens));
}

/// A rank holds no more rows of padding than a window has tokens, or a few; all ranks no more rows than the cap.
void check_padding(const Limits& limits, const Mesh& mesh) {
  const int64_t most = std::max(limits.window_tokens, few_rows);
  if (limits.align_tokens > most)
    throw InputError("align " + std::to_string(limits.align_tokens) + " is above the window of " +
                         std::to_string(limits.window_tokens) + " tokens",
                     "field align", "give at most " + std::to_string(most) + ", or a larger window");
  const int64_t multiple = padding_multiple(mesh, limits.align_tokens);
  if (limits.max_tokens % multiple != 0)
    throw InputError("max_tokens " + std::to_string(limits.max_tokens) + " has no room for the padding of " +
                         std::to_string(mesh.cp) + " ranks to rows of align " + std::to_string(limits.align_tokens),
                     "field max_tokens",
                     "give a multiple of " + std::to_string(multiple) + ", such as " +
                         std::to_string(round_up(limits.max_tokens, multiple)));
}

void check_limits(const Limits& limits, const Mesh& mesh) {
  check_range("window", limits.window_tokens, 1, most_tokens);
  check_range("max_tokens", limits.max_tokens, 1, most_tokens);
  check_range("align", limits.align_tokens, 1, most_tokens);
  check_range("exchange_bytes", limits.exchange_bytes, 1, no_limit);
  check_range("activation_bytes", limits.activation_bytes, 1, no_limit);
  check_range("max_documents", limits.max_documents, 1, no_limit);
  check_range("max_tiles", limits.max_tiles, 1, no_limit);
  check_range("max_message_rows", limits.max_message_rows, 1, no_limit);
  if (limits.window_tokens > limits.max_tokens)
    throw InputError(
        "window " + std::to_string(limits.window_tokens) + " is above max_tokens " + std::to_string(limits.max_tokens),
        "field max_tokens", "give max_tokens of at least the window");
  if (limits.window_tokens < mesh.cp)
    throw InputError("window " + std::to_string(limits.window_tokens) + " is smaller than the context group of " +
                         std::to_string(mesh.cp) + " ranks",
                     "field window", "give a window of at least one token for each rank of the group");
  check_padding(limits, mesh);
}

void check_delay(const Delay& delay, int64_t sequences) {
  check_range("max_delay", delay.max_delay_steps, no_bound, most_tokens);
  constexpr int64_t most_planned = int64_t{1} << 20;  // sequences packed together; they are all in memory
  check_range("repack_window", delay.repack_window_steps, 1, std::max<int64_t>(1, most_planned / sequences));
  int64_t previous = 0;
  for (const int64_t threshold : delay.queue_tokens) {
    check_range("queues", threshold, 1, most_tokens);
    if (threshold <= previous)
      throw InputError("queue threshold " + std::to_string(threshold) + " follows " + std::to_string(previous),
                       "field queues", "give rising thresholds");
    previous = threshold;
  }
}

void check_speeds(const std::vector<int64_t>& speeds_ppt, const Mesh& mesh) {
  if (speeds_ppt.empty()) return;
  const int64_t ranks = mesh.dp * mesh.cp;
  if (static_cast<int64_t>(speeds_ppt.size()) != ranks)
    throw InputError(
        std::to_string(speeds_ppt.size()) + " speeds are given for " + std::to_string(ranks) + " ranks of dp x cp",
        "field speeds", "give one speed for each replica and cp rank, or none");
  for (std::size_t rank = 0; rank < speeds_ppt.size(); ++rank)
    check_range("speeds[" + std::to_string(rank) + "]", speeds_ppt[rank], 1, 1'000'000);
}

void check_curve(const std::string& field, const Curve& curve) {
  if (curve.empty())
    throw InputError("the curve " + field + " has no point", "field " + field, "give at least one point");
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const std::string where = field + "[" + std::to_string(i) + "]";
    check_range(where + ".x", curve[i].x, 0, most_of_a_cost);
    check_range(where + ".y", curve[i].y, 0, most_of_a_cost);
    if (i > 0 && curve[i].x <= curve[i - 1].x)
      throw InputError("x " + std::to_string(curve[i].x) + " follows " + std::to_string(curve[i - 1].x),
                       "field " + where, "sort the points of a curve by x, each x once");
  }
}

void check_link(const std::string& field, const LinkCost& link) {
  check_range(field + ".latency_ns", link.latency_ns, 0, most_of_a_cost);
  check_range(field + ".kilobyte_ps", link.kilobyte_ps, 0, most_of_a_cost);
}

void check_cost(const CostTable& cost) {
  const AttentionCost& attention = cost.attention;
  check_range("cost.layers", cost.layers, 1, most_layers);
  check_range("cost.element_bytes", cost.element_bytes, 1, 64);
  check_range("cost.statistic_bytes", cost.statistic_bytes, 1, 64);
  check_range("cost.activation_bytes", cost.activation_bytes, 0, most_of_a_cost);
  check_range("cost.attention.tile_rows", attention.tile_rows, 1, most_tokens);
  check_range("cost.attention.tile_keys", attention.tile_keys, 1, most_tokens);
  check_range("cost.attention.call_ns", attention.call_ns, 0, most_of_a_cost);
  check_range("cost.attention.entry_ns", attention.entry_ns, 0, most_of_a_cost);
  check_range("cost.attention.block_ps", attention.block_ps, 0, most_of_a_cost);
  check_range("cost.attention.kilobyte_ps", attention.kilobyte_ps, 0, most_of_a_cost);
  check_curve("cost.attention.tile_ps", attention.tile_ps);
  check_curve("cost.attention.backward_ppm", attention.backward_ppm);
  check_curve("cost.linear.token_ps", cost.linear.token_ps);
  check_range("cost.linear.backward_ppm", cost.linear.backward_ppm, 0, most_of_a_cost);
  check_link("cost.node", cost.node);
  check_link("cost.network", cost.network);
}

}  // namespace

int64_t default_max_tokens(int64_t window_tokens, const Mesh& mesh, int64_t align_tokens) {
  // What validate() refuses is left as it is, for validate() to name.
  const bool sound = window_tokens <= most_tokens && mesh.cp >= 1 && mesh.cp <= most_ranks && align_tokens >= 1;
  if (!sound || align_tokens > std::max(window_tokens, few_rows)) return window_tokens;
  return round_up(window_tokens, padding_multiple(mesh, align_tokens));
}

void validate(const PlanInputs& inputs) {
  check_mesh(inputs.mesh);
  check_pool(inputs.pool, inputs.mesh.dp);
  check_range("micro_steps", inputs.micro_steps, 1, most_sequences / inputs.mesh.dp);
  check_heads(inputs.heads);
  check_cost(inputs.cost);
  check_masks(inputs.masks, inputs.cost.layers);
  check_limits(inputs.limits, inputs.mesh);
  check_range("epoch", inputs.arrival.epoch, 0, no_limit);
  check_delay(inputs.delay, inputs.sequences());
  check_speeds(inputs.speeds_ppt, inputs.mesh);
  check_range("grid_rows", inputs.grid_rows, 1, most_tokens);
  if (inputs.limits.max_message_rows < inputs.grid())
    throw InputError("max_message_rows " + std::to_string(inputs.limits.max_message_rows) + " is below the grid_rows " +
                         std::to_string(inputs.grid_rows) + " of a cell",
                     "field max_message_rows", "give at least grid_rows, or use fast gradient sums");
}

}  // namespace equipoise
