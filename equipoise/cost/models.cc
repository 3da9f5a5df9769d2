// Shapes of public models, from the configuration files that their authors publish.

#include <algorithm>
#include <array>

#include "equipoise/base/errors.h"
#include "equipoise/cost/hardware.h"

namespace equipoise {
namespace {

/// name, layers, hidden, query heads, KV heads, head size, ffn of one expert, experts a token goes through, vocabulary.
const std::array<ModelShape, 10>& models() {
  static const std::array<ModelShape, 10> shapes = {{
      {"llama2-7b", 32, 4096, 32, 32, 128, 11008, 1, 32000},
      {"llama2-13b", 40, 5120, 40, 40, 128, 13824, 1, 32000},
      {"llama2-70b", 80, 8192, 64, 8, 128, 28672, 1, 32000},
      {"llama3-8b", 32, 4096, 32, 8, 128, 14336, 1, 128256},
      {"llama3-70b", 80, 8192, 64, 8, 128, 28672, 1, 128256},
      {"llama3.1-405b", 126, 16384, 128, 8, 128, 53248, 1, 128256},
      {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 1, 151936},
      {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 8, 151936},
      {"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 1536, 8, 151936},
      {"llama-34b", 48, 8192, 64, 16, 128, 22016, 1, 32000},  // of the DistCA paper
  }};
  return shapes;
}

}  // namespace

ModelShape find_model(std::string_view name) {
  std::string names;
  for (const ModelShape& shape : models()) {
    if (shape.name == name) return shape;
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  throw InputError("model '" + std::string(name) + "' is not known", "field model",
                   "use one of " + names + ", or give a file with its shape");
}

Heads heads_of(const ModelShape& model, int64_t tp) {
  if (tp < 1 || model.query_heads % tp != 0)
    throw InputError("tp " + std::to_string(tp) + " does not divide the " + std::to_string(model.query_heads) +
                         " query heads of " + model.name,
                     "field mesh", "choose a tp that divides them");
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
    throw InputError("neither of tp " + std::to_string(tp) + " and the " + std::to_string(model.kv_heads) +
                         " KV heads of " + model.name + " divides the other",
                     "field mesh", "choose a tp that divides the KV heads, or a multiple of them");
  return {model.query_heads / tp, std::max<int64_t>(1, model.kv_heads / tp), model.head_size};
}

}  // namespace equipoise
