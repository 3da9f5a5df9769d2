// What decides a plan, as structs whose fields Python fills, and what models and hardware give.

#include "bindings/bindings.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/model/plan_inputs.h"

namespace equipoise::bindings {
namespace {

void bind_shapes(nb::module_& module) {
  nb::class_<Mesh>(module, "Mesh")
      .def(nb::init<>())
      .def_rw("dp", &Mesh::dp)
      .def_rw("pp", &Mesh::pp)
      .def_rw("cp", &Mesh::cp)
      .def_rw("tp", &Mesh::tp)
      .def_rw("ranks_per_node", &Mesh::ranks_per_node);
  nb::class_<Heads>(module, "Heads")
      .def(nb::init<>())
      .def_rw("query", &Heads::query)
      .def_rw("kv", &Heads::kv)
      .def_rw("size", &Heads::size);
  nb::class_<ModelShape>(module, "ModelShape")
      .def(nb::init<>())
      .def_rw("name", &ModelShape::name)
      .def_rw("layers", &ModelShape::layers)
      .def_rw("hidden", &ModelShape::hidden)
      .def_rw("query_heads", &ModelShape::query_heads)
      .def_rw("kv_heads", &ModelShape::kv_heads)
      .def_rw("head_size", &ModelShape::head_size)
      .def_rw("ffn", &ModelShape::ffn)
      .def_rw("active_experts", &ModelShape::active_experts)
      .def_rw("vocabulary", &ModelShape::vocabulary);
}

void bind_limits(nb::module_& module) {
  nb::class_<Limits>(module, "Limits")
      .def(nb::init<>())
      .def_rw("window_tokens", &Limits::window_tokens)
      .def_rw("max_tokens", &Limits::max_tokens)
      .def_rw("align_tokens", &Limits::align_tokens)
      .def_rw("exchange_bytes", &Limits::exchange_bytes);
  nb::class_<Arrival>(module, "Arrival")
      .def(nb::init<>())
      .def_rw("seed", &Arrival::seed)
      .def_rw("epoch", &Arrival::epoch)
      .def_rw("shuffle", &Arrival::shuffle)
      .def_prop_rw(
          "overlong", [](const Arrival& arrival) { return std::string(name(arrival.overlong)); },
          [](Arrival& arrival, const std::string& text) { arrival.overlong = parse_overlong(text); });
  nb::class_<Delay>(module, "Delay")
      .def(nb::init<>())
      .def_rw("max_delay_steps", &Delay::max_delay_steps)
      .def_rw("repack_window_steps", &Delay::repack_window_steps)
      .def_rw("queue_tokens", &Delay::queue_tokens);
}

void bind_masks(nb::module_& module) {
  nb::enum_<MaskKind>(module, "MaskKind")
      .value("causal", MaskKind::causal)
      .value("full", MaskKind::full)
      .value("sliding_window", MaskKind::sliding_window);
  nb::class_<Mask>(module, "Mask")
      .def(nb::init<>())
      .def_rw("kind", &Mask::kind)
      .def_rw("window_tokens", &Mask::window_tokens)
      .def_rw("layers", &Mask::layers);
}

}  // namespace

void init_inputs(nb::module_& module) {
  bind_shapes(module);
  bind_limits(module);
  bind_masks(module);
  nb::class_<CostTable>(module, "CostTable");
  nb::class_<Hardware>(module, "Hardware")
      .def_ro("name", &Hardware::name)
      .def_rw("element_bytes", &Hardware::element_bytes);
  nb::class_<PlanInputs>(module, "PlanInputs")
      .def(nb::init<>())
      .def(nb::init<const PlanInputs&>())
      .def_prop_rw(
          "strategy", [](const PlanInputs& inputs) { return std::string(name(inputs.strategy)); },
          [](PlanInputs& inputs, const std::string& text) { inputs.strategy = parse_strategy(text); })
      .def_prop_rw(
          "dp_sync", [](const PlanInputs& inputs) { return std::string(name(inputs.dp_sync)); },
          [](PlanInputs& inputs, const std::string& text) { inputs.dp_sync = parse_dp_sync(text); })
      .def_prop_rw(
          "effort", [](const PlanInputs& inputs) { return std::string(name(inputs.effort)); },
          [](PlanInputs& inputs, const std::string& text) { inputs.effort = parse_effort(text); })
      .def_prop_rw(
          "gradient_sum", [](const PlanInputs& inputs) { return std::string(name(inputs.gradient_sum)); },
          [](PlanInputs& inputs, const std::string& text) { inputs.gradient_sum = parse_gradient_sum(text); })
      .def_rw("grid_rows", &PlanInputs::grid_rows)
      .def_rw("keep_received", &PlanInputs::keep_received)
      .def_rw("mesh", &PlanInputs::mesh)
      .def_rw("pool", &PlanInputs::pool)
      .def_rw("micro_steps", &PlanInputs::micro_steps)
      .def_rw("heads", &PlanInputs::heads)
      .def_rw("masks", &PlanInputs::masks)
      .def_rw("limits", &PlanInputs::limits)
      .def_rw("arrival", &PlanInputs::arrival)
      .def_rw("delay", &PlanInputs::delay)
      .def_rw("cost", &PlanInputs::cost)
      .def_rw("speeds_ppt", &PlanInputs::speeds_ppt);
  module.attr("no_limit") = no_limit;
  module.attr("no_bound") = no_bound;
  module.def("validate", &validate);
  module.def("input_fields", &input_fields);
  module.def("hash_inputs", &hash_inputs);
  module.def("default_pool", &default_pool);
  module.def("default_max_tokens", &default_max_tokens);
  module.def("heads_of", &heads_of);
  module.def("make_cost_table", &make_cost_table);
}

}  // namespace equipoise::bindings
