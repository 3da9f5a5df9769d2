// Every field of PlanInputs twice, once written and once read, in the order of the struct. A field that is forgotten
// breaks the round-trip test.
#include "io/inputs_json.h"

#include <limits>

#include "io/costs_json.h"

namespace equipoise {
namespace {

constexpr Bounds any_integer{.least = std::numeric_limits<int64_t>::min(), .most = std::numeric_limits<int64_t>::max()};

OrderedJson limit_json(int64_t limit, int64_t none) {
  return limit == none ? OrderedJson(nullptr) : OrderedJson(limit);
}

int64_t read_limit(Fields& fields, std::string_view key, int64_t none) {
  return fields.any(key).is_null() ? none : fields.integer(key, any_integer);
}

constexpr std::array<std::string_view, 4> axis_names = {"pp", "dp", "cp", "tp"};  // by Axis

OrderedJson mesh_json(const Mesh& mesh) {
  OrderedJson order = OrderedJson::array();
  for (const Axis axis : mesh.order) order.push_back(axis_names[static_cast<size_t>(axis)]);
  return {{"dp", mesh.dp}, {"pp", mesh.pp}, {"cp", mesh.cp}, {"tp", mesh.tp}, {"ranks_per_node", mesh.ranks_per_node},
          {"order", order}};
}

Axis read_axis(const Json& name, const Fields& fields) {
  for (size_t axis = 0; axis < axis_names.size(); ++axis)
    if (name == axis_names[axis]) return static_cast<Axis>(axis);
  fields.fail("order", "a list with " + name.dump(), "name the axes pp, dp, cp and tp, the outermost first");
}

Mesh read_mesh(Fields fields) {
  Mesh mesh{.dp = fields.integer("dp"),
            .pp = fields.integer("pp"),
            .cp = fields.integer("cp"),
            .tp = fields.integer("tp"),
            .ranks_per_node = fields.integer("ranks_per_node")};
  const Json& order = fields.list("order");
  if (order.size() != mesh.order.size())
    fields.fail("order", "a list of " + std::to_string(order.size()), "name all four axes");
  for (size_t i = 0; i < order.size(); ++i) mesh.order[i] = read_axis(order[i], fields);
  fields.finish();
  return mesh;
}

OrderedJson masks_json(const std::vector<Mask>& masks) {
  OrderedJson json = OrderedJson::array();
  for (const Mask& mask : masks)
    json.push_back({{"kind", name(mask.kind)}, {"window", mask.window_tokens}, {"layers", mask.layers}});
  return json;
}

Mask read_mask(Fields fields) {
  const std::string text = fields.text("kind");
  Mask mask{.kind = MaskKind::causal, .window_tokens = fields.integer("window"), .layers = fields.integer("layers")};
  bool known = false;
  for (const MaskKind kind : {MaskKind::causal, MaskKind::full, MaskKind::sliding_window}) {
    if (text != name(kind)) continue;
    mask.kind = kind;
    known = true;
  }
  if (!known) fields.fail("kind", "'" + text + "'", "use causal, full or sliding_window");
  fields.finish();
  return mask;
}

std::vector<Mask> read_masks(Fields& fields) {
  std::vector<Mask> masks;
  for (const Json& mask : fields.list("masks")) {
    const std::string index = "[" + std::to_string(masks.size()) + "]";
    masks.push_back(read_mask(Fields(mask, fields.full_name("masks") + index, fields.place())));
  }
  return masks;
}

OrderedJson limits_json(const Limits& limits) {
  return {{"window", limits.window_tokens},
          {"max_tokens", limits.max_tokens},
          {"align", limits.align_tokens},
          {"exchange_bytes", limit_json(limits.exchange_bytes, no_limit)},
          {"activation_bytes", limit_json(limits.activation_bytes, no_limit)},
          {"max_documents", limit_json(limits.max_documents, no_limit)}};
}

Limits read_limits(Fields fields) {
  const Limits limits{.window_tokens = fields.integer("window"),
                      .max_tokens = fields.integer("max_tokens"),
                      .align_tokens = fields.integer("align"),
                      .exchange_bytes = read_limit(fields, "exchange_bytes", no_limit),
                      .activation_bytes = read_limit(fields, "activation_bytes", no_limit),
                      .max_documents = read_limit(fields, "max_documents", no_limit)};
  fields.finish();
  return limits;
}

OrderedJson cost_json(const CostTable& cost) {
  return {{"model", cost.model},
          {"hardware", cost.hardware},
          {"layers", cost.layers},
          {"element_bytes", cost.element_bytes},
          {"statistic_bytes", cost.statistic_bytes},
          {"activation_bytes", cost.activation_bytes},
          {"attention", attention_json(cost.attention)},
          {"linear", {{"token_ps", curve_json(cost.linear.token_ps)}, {"backward_ppm", cost.linear.backward_ppm}}},
          {"node", link_json(cost.node)},
          {"network", link_json(cost.network)}};
}

LinearCost read_linear(Fields fields) {
  LinearCost linear{.token_ps = fields.curve("token_ps"), .backward_ppm = fields.integer("backward_ppm")};
  fields.finish();
  return linear;
}

CostTable read_cost(Fields fields) {
  CostTable cost{.model = fields.text("model"),
                 .hardware = fields.text("hardware"),
                 .layers = fields.integer("layers"),
                 .element_bytes = fields.integer("element_bytes"),
                 .statistic_bytes = fields.integer("statistic_bytes"),
                 .activation_bytes = fields.integer("activation_bytes"),
                 .attention = read_attention(fields.object("attention")),
                 .linear = read_linear(fields.object("linear")),
                 .node = read_link(fields.object("node")),
                 .network = read_link(fields.object("network"))};
  fields.finish();
  return cost;
}

Heads read_heads(Fields fields) {
  const Heads heads{.query = fields.integer("query"), .kv = fields.integer("kv"), .size = fields.integer("size")};
  fields.finish();
  return heads;
}

/// An error from inside the core, put into the words of a file.
template <class Parse>
auto translate(const Fields& fields, Parse parse) {
  try {
    return parse();
  } catch (const FormatError&) {
    throw;
  } catch (const InputError& error) {
    throw FormatError("these inputs cannot be planned (" + std::string(error.what()) + ")", fields.place(),
                      "plan again with inputs that can");
  }
}

}  // namespace

OrderedJson inputs_json(const PlanInputs& inputs) {
  return {{"strategy", name(inputs.strategy)},
          {"seed", inputs.arrival.seed},
          {"epoch", inputs.arrival.epoch},
          {"shuffle", inputs.arrival.shuffle},
          {"mesh", mesh_json(inputs.mesh)},
          {"pool", inputs.pool},
          {"micro_steps", inputs.micro_steps},
          {"heads", {{"query", inputs.heads.query}, {"kv", inputs.heads.kv}, {"size", inputs.heads.size}}},
          {"masks", masks_json(inputs.masks)},
          {"limits", limits_json(inputs.limits)},
          {"dp_sync", name(inputs.dp_sync)},
          {"overlong", name(inputs.arrival.overlong)},
          {"max_delay", limit_json(inputs.delay.max_delay_steps, no_bound)},
          {"repack_window", inputs.delay.repack_window_steps},
          {"queues", inputs.delay.queue_tokens},
          {"speeds", inputs.speeds_ppt},
          {"effort", name(inputs.effort)},
          {"gradient_sum", name(inputs.gradient_sum)},
          {"grid_rows", inputs.grid_rows},
          {"keep_received", inputs.keep_received},
          {"cost", cost_json(inputs.cost)}};
}

PlanInputs read_inputs(Fields fields) {
  return translate(fields, [&] {
    PlanInputs inputs{.strategy = parse_strategy(fields.text("strategy")),
                      .mesh = read_mesh(fields.object("mesh")),
                      .pool = fields.integer("pool"),
                      .micro_steps = fields.integer("micro_steps"),
                      .heads = read_heads(fields.object("heads")),
                      .masks = read_masks(fields),
                      .limits = read_limits(fields.object("limits")),
                      .dp_sync = parse_dp_sync(fields.text("dp_sync")),
                      .arrival = {.seed = fields.integer("seed", any_integer),
                                  .epoch = fields.integer("epoch"),
                                  .shuffle = fields.flag("shuffle"),
                                  .overlong = parse_overlong(fields.text("overlong"))},
                      .delay = {.max_delay_steps = read_limit(fields, "max_delay", no_bound),
                                .repack_window_steps = fields.integer("repack_window"),
                                .queue_tokens = fields.integers("queues")},
                      .cost = read_cost(fields.object("cost")),
                      .speeds_ppt = fields.integers("speeds"),
                      .effort = parse_effort(fields.text("effort")),
                      .gradient_sum = parse_gradient_sum(fields.text("gradient_sum")),
                      .grid_rows = fields.integer("grid_rows"),
                      .keep_received = fields.flag("keep_received")};
    fields.finish();
    validate(inputs);
    return inputs;
  });
}

}  // namespace equipoise
