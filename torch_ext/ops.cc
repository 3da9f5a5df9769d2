// The operator as torch sees it: two ops for attention through a plan and two for attention at home, each with an
// implementation for CPU and one for CUDA that check and run, a meta kernel that only knows shapes, and an autograd
// formula made of the ops themselves, so that compilers and selective checkpointing see them.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "torch_ext/attention.h"
#include "torch_ext/checks.h"
#include "torch_ext/grid.h"
#include "torch_ext/local.h"
#include "torch_ext/workspace.h"

namespace equipoise {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Ints = const Tensor&;  ///< 1-D int64 CPU tensor

// For the device of a kernel: checks, then work.

const Kernel& kernel_of(const RankProgram& program, const Kernel& fast) {
  return program.gradient_sum == GradientSum::invariant ? grid_kernel : fast;
}

template <const Kernel& kernel>
Three attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, Ints program, std::string dispatch_group,
                        std::string return_group, double scale, c10::SymInt kept_bytes) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::DeviceGuard device(q.device());
  const RankProgram decoded = read_program(program, "attention_forward");
  const Kernel& used = kernel_of(decoded, kernel);
  const GroupNames groups{std::move(dispatch_group), std::move(return_group)};
  check_inputs(decoded, used, {q, k, v});
  check_kept(decoded, q, kept_bytes.expect_int(), "attention_forward");
  check_groups(decoded, groups);
  return run_forward({decoded, groups, used, scale}, {q.contiguous(), k.contiguous(), v.contiguous()});
}

template <const Kernel& kernel>
Three attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                         const Tensor& lse, const Tensor& kept, Ints program, std::string dispatch_group,
                         std::string return_group, double scale) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::DeviceGuard device(q.device());
  const RankProgram decoded = read_program(program, "attention_backward");
  const Kernel& used = kernel_of(decoded, kernel);
  const GroupNames groups{std::move(dispatch_group), std::move(return_group)};
  check_inputs(decoded, used, {q, k, v});
  check_saved(q, {grad_out, out, lse, kept}, "attention_backward");
  check_kept(decoded, q, kept.numel(), "attention_backward");
  check_groups(decoded, groups);
  return run_backward({decoded, groups, used, scale}, {q.contiguous(), k.contiguous(), v.contiguous()},
                      {grad_out.contiguous(), out.contiguous(), lse.contiguous(), kept.contiguous()});
}

template <const Kernel& kernel>
Two local_forward(const Tensor& q, const Tensor& k, const Tensor& v, Ints cu_q, Ints cu_k, std::string mask,
                  int64_t window, double scale) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::DeviceGuard device(q.device());
  check_local(kernel, {q, k, v}, cu_q, cu_k);
  return run_local_forward({kernel, parse_local_mask(mask, window), {cu_q, cu_k}, scale}, {q, k, v});
}

template <const Kernel& kernel>
Three local_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                     const Tensor& lse, Ints cu_q, Ints cu_k, std::string mask, int64_t window, double scale) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::DeviceGuard device(q.device());
  check_local(kernel, {q, k, v}, cu_q, cu_k);
  check_saved(q, {grad_out, out, lse, {}}, "local_attention_backward");
  return run_local_backward({kernel, parse_local_mask(mask, window), {cu_q, cu_k}, scale}, {q, k, v},
                            {grad_out, out, lse, {}});
}

// Meta kernels: shapes, symbolic or not.

Tensor empty_as(const Tensor& tensor) { return at::empty_symint(tensor.sym_sizes(), tensor.options()); }

Two forward_shapes(const Tensor& q) {
  const auto sizes = q.sym_sizes();
  return {empty_as(q), at::empty_symint(sizes.slice(0, 2), q.options().dtype(sum_type(q.scalar_type())))};
}

Three attention_forward_meta(const Tensor& q, const Tensor&, const Tensor&, Ints, std::string, std::string, double,
                             c10::SymInt kept_bytes) {
  const auto [out, lse] = forward_shapes(q);
  return {out, lse, at::empty_symint({kept_bytes}, q.options().dtype(at::kByte))};
}

Three attention_backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                              const Tensor&, const Tensor&, Ints, std::string, std::string, double) {
  return {empty_as(q), empty_as(k), empty_as(v)};
}

Two local_forward_meta(const Tensor& q, const Tensor&, const Tensor&, Ints, Ints, std::string, int64_t, double) {
  return forward_shapes(q);
}

Three local_backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                          const Tensor&, Ints, Ints, std::string, int64_t, double) {
  return {empty_as(q), empty_as(k), empty_as(v)};
}

/// An op of this library, found once: calls to it pass through the dispatcher again.
template <class Signature>
auto op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Autograd. Saves seven tensors whatever the plan, and its backward always calls the op: all members of a pool make the
// same collectives.

class Attention : public torch::autograd::Function<Attention> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& program, const std::array<std::string, 2>& groups, double scale,
                               c10::SymInt kept_bytes) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    static const auto forward_op = op<decltype(attention_forward<cpu_kernel>)>("equipoise::attention_forward");
    auto [out, lse, kept] = forward_op.call(q, k, v, program, groups[0], groups[1], scale, std::move(kept_bytes));
    context->save_for_backward({q, k, v, out, lse, kept, program});
    context->saved_data["dispatch_group"] = groups[0];
    context->saved_data["return_group"] = groups[1];
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({lse, kept});
    return {out, lse, kept};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto backward_op = op<decltype(attention_backward<cpu_kernel>)>("equipoise::attention_backward");
    const variable_list saved = context->get_saved_variables();
    auto [dq, dk, dv] =
        backward_op.call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6],
                         context->saved_data["dispatch_group"].toStringRef(),
                         context->saved_data["return_group"].toStringRef(), context->saved_data["scale"].toDouble());
    return {dq, dk, dv, Tensor(), Tensor(), Tensor(), Tensor()};  // one for each argument of forward
  }
};

class LocalAttention : public torch::autograd::Function<LocalAttention> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                               const std::array<Tensor, 2>& lengths, std::string mask, int64_t window, double scale) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    static const auto forward_op = op<decltype(local_forward<cpu_kernel>)>("equipoise::local_attention_forward");
    auto [out, lse] = forward_op.call(q, k, v, lengths[0], lengths[1], mask, window, scale);
    context->save_for_backward({q, k, v, out, lse, lengths[0], lengths[1]});
    context->saved_data["mask"] = mask;
    context->saved_data["window"] = window;
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({lse});
    return {out, lse};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto backward_op = op<decltype(local_backward<cpu_kernel>)>("equipoise::local_attention_backward");
    const variable_list saved = context->get_saved_variables();
    auto [dq, dk, dv] =
        backward_op.call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6],
                         context->saved_data["mask"].toStringRef(), context->saved_data["window"].toInt(),
                         context->saved_data["scale"].toDouble());
    return {dq, dk, dv, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Three attention_forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v, Ints program,
                                 std::string dispatch_group, std::string return_group, double scale,
                                 c10::SymInt kept_bytes) {
  const std::array<std::string, 2> groups = {std::move(dispatch_group), std::move(return_group)};
  const variable_list results = Attention::apply(q, k, v, program, groups, scale, std::move(kept_bytes));
  return {results[0], results[1], results[2]};
}

Two local_forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v, Ints cu_q, Ints cu_k, std::string mask,
                           int64_t window, double scale) {
  const variable_list results =
      LocalAttention::apply(q, k, v, std::array<Tensor, 2>{cu_q, cu_k}, std::move(mask), window, scale);
  return {results[0], results[1]};
}

TORCH_LIBRARY(equipoise, library) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  library.def(
      "attention_forward(Tensor q, Tensor k, Tensor v, Tensor program, str dispatch_group, str return_group, "
      "float scale, SymInt kept_bytes=0) -> (Tensor out, Tensor lse, Tensor kept)",
      tags);
  library.def(
      "attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor kept, "
      "Tensor program, str dispatch_group, str return_group, float scale) -> (Tensor dq, Tensor dk, Tensor dv)",
      tags);
  library.def(
      "local_attention_forward(Tensor q, Tensor k, Tensor v, Tensor cu_q, Tensor cu_k, str mask, int window, "
      "float scale) -> (Tensor out, Tensor lse)",
      tags);
  library.def(
      "local_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor cu_q, "
      "Tensor cu_k, str mask, int window, float scale) -> (Tensor dq, Tensor dk, Tensor dv)",
      tags);
  library.def("release_buffers() -> ()", release_memory);
}

template <const Kernel& kernel>
void register_kernel(torch::Library& library) {
  library.impl("attention_forward", attention_forward<kernel>);
  library.impl("attention_backward", attention_backward<kernel>);
  library.impl("local_attention_forward", local_forward<kernel>);
  library.impl("local_attention_backward", local_backward<kernel>);
}

TORCH_LIBRARY_IMPL(equipoise, CPU, library) { register_kernel<cpu_kernel>(library); }
TORCH_LIBRARY_IMPL(equipoise, CUDA, library) { register_kernel<cuda_kernel>(library); }

TORCH_LIBRARY_IMPL(equipoise, Meta, library) {
  library.impl("attention_forward", attention_forward_meta);
  library.impl("attention_backward", attention_backward_meta);
  library.impl("local_attention_forward", local_forward_meta);
  library.impl("local_attention_backward", local_backward_meta);
}

TORCH_LIBRARY_IMPL(equipoise, Autograd, library) {
  library.impl("attention_forward", attention_forward_autograd);
  library.impl("local_attention_forward", local_forward_autograd);
}

}  // namespace
}  // namespace equipoise
