// The inputs of a plan as texts, in one fixed order: the hash is over these texts, and ranks that disagree compare them
// to name the field that differs. The rules of what may stand in the inputs are in validate.cc.

#include "equipoise/model/plan_inputs.h"

#include <array>
#include <span>

#include "equipoise/base/errors.h"
#include "equipoise/base/hash.h"
#include "equipoise/model/workload.h"

namespace equipoise {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr std::array strategies = {Strategy::plain, Strategy::allgather, Strategy::ulysses,  Strategy::fixed,
                                   Strategy::wlb,   Strategy::libra,     Strategy::equipoise};
constexpr std::array dp_syncs = {DpSync::step, DpSync::micro_step};
constexpr std::array overlongs = {Overlong::error, Overlong::split, Overlong::truncate, Overlong::drop};

/// Appends to a list in words.
void append(std::string& text, std::string_view separator, std::string_view item) {
  if (!text.empty()) text.append(separator);
  text.append(item);
}

/// Finds the value with this name among all values of an enum.
template <class Enum, std::size_t N>
Enum parse(std::string_view text, const std::array<Enum, N>& values, const std::string& what) {
  std::string choices;
  for (const Enum value : values) {
    if (name(value) == text) return value;
    append(choices, ", ", name(value));
  }
  throw InputError(what + " '" + std::string(text) + "' is not known", "field " + what, "use one of " + choices);
}

std::string join(std::span<const int64_t> values) {
  std::string text;
  for (const int64_t value : values) append(text, ",", std::to_string(value));
  return text;
}

std::string text_of(const Curve& curve) {
  std::string text;
  for (const CurvePoint& point : curve) {
    append(text, ",", std::to_string(point.x));
    append(text, ":", std::to_string(point.y));
  }
  return text;
}

std::string text_of(const LinkCost& link) { return join(std::array{link.latency_ns, link.kilobyte_ps}); }

/// "causal x 16; sliding_window 4096 x 16".
std::string text_of(std::span<const Mask> masks) {
  std::string text;
  for (const Mask& mask : masks) {
    append(text, "; ", name(mask.kind));
    if (mask.window_tokens != 0) append(text, " ", std::to_string(mask.window_tokens));
    append(text, " x ", std::to_string(mask.layers));
  }
  return text;
}

std::string text_of(const std::array<Axis, 4>& order) {
  std::string text;
  for (const Axis axis : order) append(text, ",", std::to_string(static_cast<int64_t>(axis)));
  return text;
}

void add_cost_fields(Fields& fields, const CostTable& cost) {
  const AttentionCost& attention = cost.attention;
  const auto add = [&](const char* field, std::string value) {
    fields.emplace_back(std::string("cost.") + field, std::move(value));
  };
  add("model", cost.model);
  add("hardware", cost.hardware);
  add("layers", std::to_string(cost.layers));
  add("element_bytes", std::to_string(cost.element_bytes));
  add("statistic_bytes", std::to_string(cost.statistic_bytes));
  add("activation_bytes", std::to_string(cost.activation_bytes));
  add("attention.tile_rows", std::to_string(attention.tile_rows));
  add("attention.tile_keys", std::to_string(attention.tile_keys));
  add("attention.call_ns", std::to_string(attention.call_ns));
  add("attention.entry_ns", std::to_string(attention.entry_ns));
  add("attention.block_ps", std::to_string(attention.block_ps));
  add("attention.tile_ps", text_of(attention.tile_ps));
  add("attention.kilobyte_ps", std::to_string(attention.kilobyte_ps));
  add("attention.backward_ppm", text_of(attention.backward_ppm));
  add("linear.token_ps", text_of(cost.linear.token_ps));
  add("linear.backward_ppm", std::to_string(cost.linear.backward_ppm));
  add("node", text_of(cost.node));
  add("network", text_of(cost.network));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> input_fields(const PlanInputs& inputs) {
  const Limits& limits = inputs.limits;
  Fields fields;
  const auto add = [&](const char* field, std::string value) { fields.emplace_back(field, std::move(value)); };
  add("strategy", std::string(name(inputs.strategy)));
  add("seed", std::to_string(inputs.arrival.seed));
  add("epoch", std::to_string(inputs.arrival.epoch));
  add("shuffle", inputs.arrival.shuffle ? "true" : "false");
  add("mesh", describe(inputs.mesh));
  add("ranks_per_node", std::to_string(inputs.mesh.ranks_per_node));
  add("mesh_order", text_of(inputs.mesh.order));
  add("pool", std::to_string(inputs.pool));
  add("micro_steps", std::to_string(inputs.micro_steps));
  add("heads", join(std::array{inputs.heads.query, inputs.heads.kv, inputs.heads.size}));
  add("masks", text_of(inputs.masks));
  add("window", std::to_string(limits.window_tokens));
  add("max_tokens", std::to_string(limits.max_tokens));
  add("align", std::to_string(limits.align_tokens));
  add("exchange_bytes", std::to_string(limits.exchange_bytes));
  add("activation_bytes", std::to_string(limits.activation_bytes));
  add("max_documents", std::to_string(limits.max_documents));
  add("dp_sync", std::string(name(inputs.dp_sync)));
  add("overlong", std::string(name(inputs.arrival.overlong)));
  add("max_delay", std::to_string(inputs.delay.max_delay_steps));
  add("repack_window", std::to_string(inputs.delay.repack_window_steps));
  add("queues", join(inputs.delay.queue_tokens));
  add("speeds", join(inputs.speeds_ppt));
  add("effort", std::string(name(inputs.effort)));
  add("gradient_sum", std::string(name(inputs.gradient_sum)));
  add("grid_rows", std::to_string(inputs.grid_rows));
  add("keep_received", inputs.keep_received ? "true" : "false");
  add_cost_fields(fields, inputs.cost);
  return fields;
}

uint64_t hash_inputs(const PlanInputs& inputs) {
  uint64_t hash = hash_start;
  // Separators keep ("ab", "c") and ("a", "bc") apart.
  for (const auto& [field, value] : input_fields(inputs))
    hash = hash_bytes("\x1e", hash_bytes(value, hash_bytes("\x1f", hash_bytes(field, hash))));
  return hash;
}

int64_t default_pool(int64_t dp) {
  int64_t pool = 8;
  while (pool > 1 && dp % pool != 0) --pool;
  return pool;
}

std::string_view name(Strategy strategy) {
  switch (strategy) {
    case Strategy::plain: return "plain";
    case Strategy::allgather: return "allgather";
    case Strategy::ulysses: return "ulysses";
    case Strategy::fixed: return "fixed";
    case Strategy::wlb: return "wlb";
    case Strategy::libra: return "libra";
    case Strategy::equipoise: return "equipoise";
  }
  return "unknown";
}

std::string_view name(DpSync dp_sync) {
  switch (dp_sync) {
    case DpSync::step: return "step";
    case DpSync::micro_step: return "micro_step";
  }
  return "unknown";
}

std::string_view name(Overlong overlong) {
  switch (overlong) {
    case Overlong::error: return "error";
    case Overlong::split: return "split";
    case Overlong::truncate: return "truncate";
    case Overlong::drop: return "drop";
  }
  return "unknown";
}

Strategy parse_strategy(std::string_view text) { return parse(text, strategies, "strategy"); }
DpSync parse_dp_sync(std::string_view text) { return parse(text, dp_syncs, "dp_sync"); }
Overlong parse_overlong(std::string_view text) { return parse(text, overlongs, "overlong"); }

}  // namespace equipoise
