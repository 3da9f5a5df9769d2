// What reads and writes files: models, hardware, plan files.

#include "bindings/bindings.h"
#include "equipoise/study/planned_step.h"
#include "io/hardware_file.h"
#include "io/model_file.h"
#include "io/plan_file.h"
#include "io/verify_file.h"

namespace equipoise::bindings {
namespace {

/// One step with all of its buckets as a line of a plan file, and the state after it.
std::pair<std::string, PackerState> plan_line(const PlanInputs& inputs, const Corpus& corpus,
                                              const PackerState& state) {
  PlannedStep planned = plan_all_buckets(inputs, corpus, state);
  PackerState after = planned.step.state_after;
  return {write_plan_line({.inputs = inputs, .planned = std::move(planned), .brief = false}), std::move(after)};
}

}  // namespace

void init_files(nb::module_& module) {
  nb::class_<Violation>(module, "Violation")
      .def_ro("rule", &Violation::rule)
      .def_ro("where", &Violation::where)
      .def_ro("what", &Violation::what);
  nb::class_<FileVerdict>(module, "FileVerdict")
      .def_ro("steps", &FileVerdict::steps)
      .def_ro("documents", &FileVerdict::documents)
      .def_ro("tokens", &FileVerdict::tokens)
      .def_ro("sequences", &FileVerdict::sequences)
      .def_ro("buckets", &FileVerdict::buckets)
      .def_ro("programs", &FileVerdict::programs)
      .def_ro("replanned", &FileVerdict::replanned)
      .def_ro("held", &FileVerdict::held)
      .def_ro("violations", &FileVerdict::violations)
      .def_ro("unchecked", &FileVerdict::unchecked);
  module.def("load_model", &load_model);
  module.def("load_hardware", &load_hardware);
  module.def("plan_line", &plan_line, Unlocked());
  module.def(
      "verify_plan_file", [](const std::string& path) { return verify_plan_file(path, [](int64_t) {}); }, Unlocked());
}

}  // namespace equipoise::bindings
