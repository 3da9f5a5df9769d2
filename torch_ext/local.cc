// One kernel entry per document, on views of the caller's tensors.
#include "torch_ext/local.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

/// Calls visit(first row, rows, first key, keys) for each document.
template <class Visit>
void for_each_document(const CumulativeLengths& lengths, const Visit& visit) {
  const at::Tensor q = lengths.q.contiguous(), k = lengths.k.contiguous();
  const int64_t* const rows = q.const_data_ptr<int64_t>();
  const int64_t* const keys = k.const_data_ptr<int64_t>();
  for (int64_t i = 0; i + 1 < q.numel(); ++i) visit(rows[i], rows[i + 1] - rows[i], keys[i], keys[i + 1] - keys[i]);
}

Visibility aligned(const Visibility& mask, int64_t rows, int64_t keys) { return {mask.kind, mask.window, keys - rows}; }

}  // namespace

Visibility parse_local_mask(const std::string& mask, int64_t window) {
  if (mask == "causal") return {MaskKind::causal, 0, 0};
  if (mask == "full") return {MaskKind::full, 0, 0};
  if (mask != "sliding_window")
    throw InputError("'" + mask + "' is no mask", "local_attention", "give causal, full or sliding_window");
  if (window < 1)
    throw InputError("window " + std::to_string(window), "local_attention",
                     "give at least 1: the window counts the row itself");
  return {MaskKind::sliding_window, window, 0};
}

std::tuple<at::Tensor, at::Tensor> run_local_forward(const Visibility& mask,
                                                     const std::tuple<at::Tensor, at::Tensor, at::Tensor>& qkv,
                                                     const CumulativeLengths& lengths, double scale) {
  const auto& [q, k, v] = qkv;
  const at::Tensor out = at::empty(q.sizes(), q.options());
  const at::Tensor lse = at::empty({q.size(0), q.size(1), 1}, q.options().dtype(sum_type(q.scalar_type())));
  for_each_document(lengths, [&](int64_t row, int64_t rows, int64_t key, int64_t keys) {
    const Queries queries{q.narrow(0, row, rows), out.narrow(0, row, rows), lse.narrow(0, row, rows), {}, {}};
    attend_forward(aligned(mask, rows, keys), queries, {k.narrow(0, key, keys), v.narrow(0, key, keys), {}, {}}, scale);
  });
  return {out, lse.squeeze(-1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> run_local_backward(
    const Visibility& mask, const std::tuple<at::Tensor, at::Tensor, at::Tensor>& qkv, const Saved& saved,
    const CumulativeLengths& lengths, double scale) {
  const auto& [q, k, v] = qkv;
  const at::TensorOptions sums = k.options().dtype(sum_type(k.scalar_type()));
  const at::Tensor dq = at::empty(q.sizes(), q.options());
  const at::Tensor dk = at::zeros(k.sizes(), sums), dv = at::zeros(v.sizes(), sums);
  const at::Tensor lse = saved.lse.unsqueeze(-1);
  for_each_document(lengths, [&](int64_t row, int64_t rows, int64_t key, int64_t keys) {
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, row, rows); };
    const auto key_part = [&](const at::Tensor& tensor) { return tensor.narrow(0, key, keys); };
    attend_backward(aligned(mask, rows, keys), {part(q), part(saved.out), part(lse), part(saved.grad_out), part(dq)},
                    {key_part(k), key_part(v), key_part(dk), key_part(dv)}, scale);
  });
  return {dq, dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace equipoise
