// Facts about the kernel that are relied on here, from its source (aten/src/ATen/native/transformers/cuda) and from the
// schemas of torch 2.9 and 2.13: log-sum-exp of a variable-length call is [H, R] float (checked by shape); the causal
// mask and windows are aligned bottom right; a window of (left, 0) shows left + 1 keys; it reads torch's deterministic
// flag itself.
#include "torch_ext/flash.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

/// An argument by the name that torch's schema gives it.
struct Argument {
  const char* name;
  c10::IValue value;
};

[[noreturn]] void refuse_schema(const std::string& what, const c10::FunctionSchema& schema) {
  throw InputError(what, schema.name(), "use a torch from 2.9 to 2.13");
}

/// The arguments in the order of the schema; its own defaults for those that are not given.
torch::jit::Stack stack_of(const c10::FunctionSchema& schema, const std::vector<Argument>& given) {
  torch::jit::Stack stack;
  size_t used = 0;
  for (const c10::Argument& wanted : schema.arguments()) {
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const Argument& a) { return wanted.name() == a.name; });
    used += found != given.end();
    if (found != given.end())
      stack.push_back(found->value);
    else if (wanted.default_value())
      stack.push_back(*wanted.default_value());
    else
      refuse_schema("this torch needs an argument '" + wanted.name() + "' that we do not know", schema);
  }
  if (used != given.size())
    refuse_schema("this torch lacks an argument that we need: " + c10::toString(schema), schema);
  return stack;
}

c10::OperatorHandle find_operation(const char* name) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!found) throw InputError(std::string("this torch has no ") + name, "attention", "use a torch from 2.9 to 2.13");
  return *found;
}

const c10::OperatorHandle& forward_operation() {
  static const c10::OperatorHandle operation = find_operation("aten::_flash_attention_forward");
  return operation;
}

const c10::OperatorHandle& backward_operation() {
  static const c10::OperatorHandle operation = find_operation("aten::_flash_attention_backward");
  return operation;
}

/// What both directions take alike. Without a window the kernel is left to its faster path.
std::vector<Argument> shared_arguments(const FlashInputs& inputs) {
  const bool window = inputs.mask.kind == MaskKind::sliding_window;
  const c10::IValue none;
  return {{"query", inputs.q},
          {"key", inputs.k},
          {"value", inputs.v},
          {"cum_seq_q", inputs.cu_q},
          {"cum_seq_k", inputs.cu_k},
          {"max_q", inputs.most_rows},
          {"max_k", inputs.most_keys},
          {"dropout_p", 0.0},
          {"is_causal", inputs.mask.kind == MaskKind::causal},
          {"scale", inputs.scale},
          {"window_size_left", window ? c10::IValue(inputs.mask.window_tokens - 1) : none},
          {"window_size_right", window ? c10::IValue(int64_t{0}) : none}};
}

std::vector<Argument> forward_arguments(const FlashInputs& inputs) {
  std::vector<Argument> arguments = shared_arguments(inputs);
  arguments.push_back({"return_debug_mask", false});
  return arguments;
}

/// Without dropout nothing reads the state of the random numbers.
std::vector<Argument> backward_arguments(const FlashInputs& inputs, const at::Tensor& grad_out, const at::Tensor& out,
                                         const at::Tensor& lse) {
  std::vector<Argument> arguments = shared_arguments(inputs);
  const at::Tensor state = inputs.q.defined() ? at::empty({2}, inputs.q.options().dtype(at::kUInt64)) : at::Tensor();
  for (const auto& [name, tensor] :
       {std::pair{"grad_out", grad_out}, std::pair{"out", out}, std::pair{"logsumexp", lse},
        std::pair{"rng_state", state}, std::pair{"unused", state}})
    arguments.push_back({name, tensor});
  return arguments;
}

torch::jit::Stack call(const c10::OperatorHandle& operation, const std::vector<Argument>& arguments) {
  torch::jit::Stack stack = stack_of(operation.schema(), arguments);
  operation.callBoxed(&stack);
  return stack;
}

}  // namespace

void check_flash(const at::Tensor& q, const std::string& where) {
  const auto type = q.scalar_type();
  if (type != at::kHalf && type != at::kBFloat16)
    throw InputError(std::string("q is ") + c10::toString(type) + " on " + q.device().str(), where,
                     "give float16 or bfloat16: the kernel for CUDA has no other type");
  const int64_t size = q.size(-1);
  if (size % 8 != 0 || size > 256)
    throw InputError("head size " + std::to_string(size) + " on " + q.device().str(), where,
                     "give a multiple of 8 of at most 256: the kernel for CUDA has no other");
  stack_of(forward_operation().schema(), forward_arguments({}));
  stack_of(backward_operation().schema(), backward_arguments({}, {}, {}, {}));
}

std::tuple<at::Tensor, at::Tensor> flash_forward(const FlashInputs& inputs) {
  const torch::jit::Stack results = call(forward_operation(), forward_arguments(inputs));
  const at::Tensor out = results.at(0).toTensor(), lse = results.at(1).toTensor();
  if (lse.sizes() != at::IntArrayRef({inputs.q.size(1), inputs.q.size(0)}) || lse.scalar_type() != at::kFloat)
    throw std::runtime_error(
        "log-sum-exp of torch's flash attention is not [heads, rows] float: use a torch from 2.9 to 2.13");
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const FlashInputs& inputs, const at::Tensor& grad_out,
                                                              const at::Tensor& out, const at::Tensor& lse) {
  const torch::jit::Stack results = call(backward_operation(), backward_arguments(inputs, grad_out, out, lse));
  return {results.at(0).toTensor(), results.at(1).toTensor(), results.at(2).toTensor()};
}

}  // namespace equipoise
