// The module is its parts, in the order in which they need each other.

#include "bindings/bindings.h"

#include <memory>

namespace equipoise::bindings {

nb::object to_numpy(std::vector<int64_t> words, std::size_t columns) {
  auto kept = std::make_unique<std::vector<int64_t>>(std::move(words));
  std::vector<int64_t>& values = *kept;
  nb::capsule owner(kept.release(), [](void* vector) noexcept { delete static_cast<std::vector<int64_t>*>(vector); });
  if (columns == 0)
    return nb::cast(nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(values.data(), {values.size()}, owner));
  return nb::cast(
      nb::ndarray<nb::numpy, int64_t, nb::ndim<2>>(values.data(), {values.size() / columns, columns}, owner));
}

}  // namespace equipoise::bindings

NB_MODULE(_core, module) {
  using namespace equipoise::bindings;
  module.doc() = "The planner of equipoise in C++";
  init_inputs(module);
  init_steps(module);
  init_buckets(module);
  init_compare(module);
  init_tuning(module);
  init_advise(module);
  init_files(module);
}
