// The stock CPU flash kernel knows two shapes, all keys and a causal mask from the top left corner, and takes an
// additive mask for others. Each mask is therefore cut into rectangles that one call computes; a row that lies in two
// of them is merged by log-sum-exp. Its backward, given the merged output and log-sum-exp, returns the exact gradients
// of each part, which are added.
#include "torch_ext/kernel_cpu.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sigmoid.h>

#include "equipoise/base/errors.h"
#include "torch_ext/stores.h"

namespace equipoise {
namespace {

constexpr double no_key = -std::numeric_limits<double>::infinity();

enum class Shape { full, causal, window };

/// One call of the stock kernel: rows x keys of the entry.
struct Call {
  Shape shape = Shape::full;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_key = 0;
  int64_t keys = 0;
  bool merge = false;  ///< an earlier call has computed these rows against other keys
};

void add_call(std::vector<Call>& calls, const Call& call) {
  if (call.rows > 0 && call.keys > 0) calls.push_back(call);
}

/// Keys before the diagonal are seen by every row, those after it by a triangle, and by all of the rows below the
/// triangle.
std::vector<Call> causal_calls(int64_t diagonal, int64_t rows, int64_t keys) {
  const int64_t first = std::max<int64_t>(0, -diagonal);
  const int64_t seen = std::min(keys, rows + diagonal);
  const int64_t before = std::min(std::max<int64_t>(0, diagonal), seen);
  const int64_t triangle = seen - before;
  std::vector<Call> calls;
  add_call(calls, {Shape::full, first, rows - first, 0, before, false});
  add_call(calls, {Shape::causal, first, triangle, before, triangle, before > 0});
  add_call(calls, {Shape::full, first + triangle, rows - first - triangle, before, triangle, before > 0});
  return calls;
}

/// Blocks of rows, each against the keys that any of its rows sees. Small blocks waste kernel time, large ones masked
/// pairs.
std::vector<Call> window_calls(const Visibility& visibility, int64_t rows, int64_t keys) {
  const int64_t diagonal = visibility.diagonal;
  const int64_t block = std::clamp<int64_t>(visibility.window / 4, 64, 512);
  const int64_t first = std::max<int64_t>(0, -diagonal);
  const int64_t end = std::min(rows, keys + visibility.window - 1 - diagonal);
  std::vector<Call> calls;
  for (int64_t row = first; row < end; row += block) {
    const int64_t row_end = std::min(end, row + block);
    const int64_t first_key = std::max<int64_t>(0, row + diagonal - visibility.window + 1);
    const int64_t key_end = std::min(keys, row_end + diagonal);
    add_call(calls, {Shape::window, row, row_end - row, first_key, key_end - first_key, false});
  }
  return calls;
}

std::vector<Call> kernel_calls(const Visibility& visibility, int64_t rows, int64_t keys) {
  if (visibility.kind == MaskKind::full) {
    std::vector<Call> calls;
    add_call(calls, {Shape::full, 0, rows, 0, keys, false});
    return calls;
  }
  const bool all_in_window = visibility.kind == MaskKind::causal || visibility.window >= rows + visibility.diagonal;
  return all_in_window ? causal_calls(visibility.diagonal, rows, keys) : window_calls(visibility, rows, keys);
}

/// The additive mask of a window's call; equal for all blocks but the first and last, so the last one made is kept.
class WindowMask {
 public:
  WindowMask(const Visibility& visibility, const at::TensorOptions& options)
      : visibility_(visibility), options_(options) {}

  std::optional<at::Tensor> of(const Call& call) {
    if (call.shape != Shape::window) return std::nullopt;
    const int64_t first_seen = call.first_row + visibility_.diagonal - visibility_.window + 1 - call.first_key;
    if (!mask_.defined() || first_seen != first_seen_ || mask_.size(0) != call.rows || mask_.size(1) != call.keys) {
      first_seen_ = first_seen;
      mask_ = at::full({call.rows, call.keys}, no_key, options_);
      for (int64_t row = 0; row < call.rows; ++row) {
        const int64_t begin = std::max<int64_t>(0, first_seen + row);
        const int64_t end = std::min(call.keys, first_seen + row + visibility_.window);
        mask_.select(0, row).slice(0, begin, end).zero_();
      }
    }
    return mask_;
  }

 private:
  Visibility visibility_;
  at::TensorOptions options_;
  at::Tensor mask_;
  int64_t first_seen_ = 0;
};

/// [n, H, D] from `begin` as the [1, H, n, D] that the stock kernel takes.
at::Tensor batched(const at::Tensor& rows, int64_t begin, int64_t count) {
  return rows.narrow(0, begin, count).transpose(0, 1).unsqueeze(0);
}

/// [1, H, n, D] back to [n, H, D].
at::Tensor unbatched(const at::Tensor& result) { return result.squeeze(0).transpose(0, 1); }

/// Puts a part's result in place, or merges it with what other keys gave the same rows.
void put_result(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& part, const at::Tensor& part_lse,
                bool merge) {
  if (!merge) {
    out.copy_(part);
    lse.copy_(part_lse);
    return;
  }
  const at::Tensor weight = at::sigmoid(part_lse.sub(lse));
  out.copy_(at::lerp(out.to(weight.scalar_type()), part.to(weight.scalar_type()), weight));
  lse.copy_(at::logaddexp(lse, part_lse));
}

/// What the rows that no call computes get: they are at the two ends.
void fill_uncomputed(const std::vector<Call>& calls, const at::Tensor& rows, double value) {
  int64_t begin = calls.empty() ? rows.size(0) : calls.front().first_row;
  int64_t end = begin;
  for (const Call& call : calls) end = std::max(end, call.first_row + call.rows);
  if (begin > 0) rows.narrow(0, 0, begin).fill_(value);
  if (end < rows.size(0)) rows.narrow(0, end, rows.size(0) - end).fill_(value);
}

}  // namespace

Visibility visibility_of(const Mask& mask, int64_t diagonal) { return {mask.kind, mask.window_tokens, diagonal}; }

void attend_forward(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale) {
  const std::vector<Call> calls = kernel_calls(visibility, queries.q.size(0), keys.k.size(0));
  WindowMask masks(visibility, queries.q.options());
  for (const Call& call : calls) {
    const auto [part, part_lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        batched(queries.q, call.first_row, call.rows), batched(keys.k, call.first_key, call.keys),
        batched(keys.v, call.first_key, call.keys), 0.0, call.shape == Shape::causal, masks.of(call), scale);
    put_result(queries.out.narrow(0, call.first_row, call.rows), queries.lse.narrow(0, call.first_row, call.rows),
               unbatched(part), unbatched(part_lse.unsqueeze(-1)), call.merge);
  }
  fill_uncomputed(calls, queries.out, 0.0);
  fill_uncomputed(calls, queries.lse, no_key);
}

void attend_backward(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale) {
  const std::vector<Call> calls = kernel_calls(visibility, queries.q.size(0), keys.k.size(0));
  WindowMask masks(visibility, queries.q.options());
  for (const Call& call : calls) {
    const auto rows = [&](const at::Tensor& tensor) { return batched(tensor, call.first_row, call.rows); };
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        rows(queries.grad_out), rows(queries.q), batched(keys.k, call.first_key, call.keys),
        batched(keys.v, call.first_key, call.keys), rows(queries.out), rows(queries.lse).squeeze(-1), 0.0,
        call.shape == Shape::causal, masks.of(call), scale);
    const at::Tensor target = queries.dq.narrow(0, call.first_row, call.rows);
    call.merge ? target.add_(unbatched(dq)) : target.copy_(unbatched(dq));
    keys.dk.narrow(0, call.first_key, call.keys).add_(unbatched(dk));
    keys.dv.narrow(0, call.first_key, call.keys).add_(unbatched(dv));
  }
  fill_uncomputed(calls, queries.dq, 0.0);
}

EntryParts parts_of(const Work& work, const KernelEntry& entry) {
  return {visibility_of(work.mask, entry.diagonal),
          queries_of(entry.q_store == Store::local ? work.local : work.guests, entry),
          keys_of(entry.k_store == Store::local ? work.local_keys : work.arena, entry)};
}

namespace {

template <class Attend>
void for_each_entry(const Work& work, Attend attend) {
  for (const KernelEntry& entry : work.entries) {
    const auto [visibility, queries, keys] = parts_of(work, entry);
    attend(visibility, queries, keys, work.scale);
  }
}

void check(const at::Tensor& q, const std::string& where) {
  const auto type = q.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16)
    throw InputError(std::string("q is ") + c10::toString(type), where, "give float32, float64 or bfloat16");
}

}  // namespace

const Kernel cpu_kernel = {check, [](const Work& work) { for_each_entry(work, attend_forward); },
                           [](const Work& work) { for_each_entry(work, attend_backward); }};

}  // namespace equipoise
