// Steps measured in pools of one size, and the size to take.

#include "equipoise/study/advise.h"

#include "bindings/bindings.h"

namespace equipoise::bindings {

void init_advise(nb::module_& module) {
  nb::class_<PoolMeasures>(module, "PoolMeasures")
      .def_ro("pool", &PoolMeasures::pool)
      .def_ro("leaves_node", &PoolMeasures::leaves_node)
      .def_ro("steps", &PoolMeasures::steps)
      .def_ro("tokens", &PoolMeasures::tokens)
      .def_ro("imbalance_ppm", &PoolMeasures::imbalance_ppm)
      .def_ro("variation_ppm", &PoolMeasures::variation_ppm)
      .def_ro("chance_ppm", &PoolMeasures::chance_ppm)
      .def_ro("mean_sent_bytes", &PoolMeasures::mean_sent_bytes)
      .def_ro("max_sent_bytes", &PoolMeasures::max_sent_bytes)
      .def_ro("held_bytes", &PoolMeasures::held_bytes)
      .def_ro("exchange_ns", &PoolMeasures::exchange_ns)
      .def_ro("step_ns", &PoolMeasures::step_ns)
      .def_ro("token_ps", &PoolMeasures::token_ps);
  module.def("pool_sizes", &pool_sizes);
  module.def("measure_pool", &measure_pool, Unlocked());
  module.def("choose_pool", [](const std::vector<PoolMeasures>& sizes) {
    const PoolChoice choice = choose_pool(sizes);
    return std::pair(choice.chosen, choice.fastest);
  });
}

}  // namespace equipoise::bindings
