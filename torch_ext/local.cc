// One kernel entry per document, on views of the caller's tensors.
#include "torch_ext/local.h"

#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "equipoise/base/errors.h"
#include "torch_ext/stores.h"

namespace equipoise {
namespace {

std::vector<KernelEntry> local_entries(const CumulativeLengths& lengths, int64_t query_heads, int64_t kv_heads) {
  const at::Tensor q = lengths.q.contiguous(), k = lengths.k.contiguous();
  const int64_t* const rows = q.const_data_ptr<int64_t>();
  const int64_t* const keys = k.const_data_ptr<int64_t>();
  std::vector<KernelEntry> entries;
  for (int64_t i = 0; i + 1 < q.numel(); ++i) {
    const int64_t row_count = rows[i + 1] - rows[i], key_count = keys[i + 1] - keys[i];
    if (row_count == 0) continue;
    entries.push_back({.q_cell = rows[i] * query_heads,
                       .q_row_stride = query_heads,
                       .rows = row_count,
                       .heads = query_heads,
                       .k_cell = keys[i] * kv_heads,
                       .k_row_stride = kv_heads,
                       .k_head_stride = 1,
                       .keys = key_count,
                       .kv_heads = kv_heads,
                       .diagonal = key_count - row_count});
  }
  return entries;
}

}  // namespace

Mask parse_local_mask(const std::string& mask, int64_t window) {
  if (mask == "causal") return {MaskKind::causal, 0};
  if (mask == "full") return {MaskKind::full, 0};
  if (mask != "sliding_window")
    throw InputError("'" + mask + "' is no mask", "local_attention", "give causal, full or sliding_window");
  if (window < 1)
    throw InputError("window " + std::to_string(window), "local_attention",
                     "give at least 1: the window counts the row itself");
  return {MaskKind::sliding_window, window};
}

std::tuple<at::Tensor, at::Tensor> run_local_forward(const LocalCall& call, const Tensors& qkv) {
  const auto& [q, k, v] = qkv;
  const at::Tensor out = at::empty(q.sizes(), q.options());
  const at::Tensor lse = at::empty({q.size(0), q.size(1), 1}, q.options().dtype(sum_type(q.scalar_type())));
  const std::vector<KernelEntry> entries = local_entries(call.lengths, q.size(1), k.size(1));
  call.kernel.forward({.mask = call.mask,
                       .entries = entries,
                       .scale = call.scale,
                       .local = {as_cells(q.contiguous()), as_cells(out), as_cells(lse), {}, {}},
                       .local_keys = {as_cells(k.contiguous()), as_cells(v.contiguous()), {}, {}}});
  return {out, lse.squeeze(-1)};
}

Tensors run_local_backward(const LocalCall& call, const Tensors& qkv, const Saved& saved) {
  const auto& [q, k, v] = qkv;
  const at::TensorOptions sums = k.options().dtype(sum_type(k.scalar_type()));
  const at::Tensor dq = at::empty(q.sizes(), q.options());
  const at::Tensor dk = at::zeros(k.sizes(), sums), dv = at::zeros(v.sizes(), sums);
  const std::vector<KernelEntry> entries = local_entries(call.lengths, q.size(1), k.size(1));
  const auto cells = [](const at::Tensor& tensor) { return as_cells(tensor.contiguous()); };
  call.kernel.backward(
      {.mask = call.mask,
       .entries = entries,
       .scale = call.scale,
       .local = {cells(q), cells(saved.out), cells(saved.lse.unsqueeze(-1)), cells(saved.grad_out), as_cells(dq)},
       .local_keys = {cells(k), cells(v), as_cells(dk), as_cells(dv)}});
  return {dq, dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace equipoise
