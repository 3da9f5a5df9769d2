// The CUDA sibling of kernel_cpu.cc in a build without CUDA kernels: the same ops, which say so.
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

void refuse(const c10::OperatorHandle& operation, torch::jit::Stack*) {
  throw InputError("CUDA kernels are not built in this version", operation.schema().name(),
                   "move q, k and v to the CPU");
}

TORCH_LIBRARY_IMPL(equipoise, CUDA, library) {
  library.impl("attention_forward", torch::CppFunction::makeFromBoxedFunction<&refuse>());
  library.impl("attention_backward", torch::CppFunction::makeFromBoxedFunction<&refuse>());
  library.impl("local_attention_forward", torch::CppFunction::makeFromBoxedFunction<&refuse>());
  library.impl("local_attention_backward", torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace
}  // namespace equipoise
