// Outlier queues found on a sample of the corpus.

#include "bindings/bindings.h"
#include "equipoise/packing/tune_queues.h"

namespace equipoise::bindings {

void init_tuning(nb::module_& module) {
  nb::class_<QueueTrial>(module, "QueueTrial")
      .def_ro("queue_tokens", &QueueTrial::queue_tokens)
      .def_ro("weighted_imbalance_ppm", &QueueTrial::weighted_imbalance_ppm)
      .def_ro("mean_delay_ppm", &QueueTrial::mean_delay_ppm);
  nb::class_<TunedQueues>(module, "TunedQueues")
      .def_ro("best", &TunedQueues::best)
      .def_ro("meets_goal", &TunedQueues::meets_goal)
      .def_ro("frontier", &TunedQueues::frontier)
      .def_ro("steps", &TunedQueues::steps)
      .def_ro("trials", &TunedQueues::trials);
  module.def(
      "tune_queues",
      [](const PlanInputs& inputs, const Corpus& corpus, int64_t mean_delay_ppm, int64_t most_queues) {
        return tune_queues(inputs, corpus, {mean_delay_ppm, most_queues});
      },
      Unlocked());
}

}  // namespace equipoise::bindings
