#include "torch_ext/grid.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "equipoise/base/exact_sum.h"

namespace equipoise {
namespace {

at::Tensor scratch(const at::Tensor& like) {
  return at::empty(like.sizes(), like.options().dtype(at::kFloat), at::MemoryFormat::Contiguous);
}

at::Tensor copied(const at::Tensor& argument) { return scratch(argument).copy_(argument); }

/// Calls visit(block of sums, other) for each row and head; both are [R, H, n].
template <class Visit>
void for_each_block(const at::Tensor& sums, const at::Tensor& other, const Visit& visit) {
  TORCH_INTERNAL_ASSERT(sums.stride(2) == 1 && other.stride(2) == 1);
  for (int64_t row = 0; row < sums.size(0); ++row)
    for (int64_t head = 0; head < sums.size(1); ++head)
      visit(row * sums.stride(0) + head * sums.stride(1), row * other.stride(0) + head * other.stride(1));
}

/// While it lives, what this thread calls uses no other one. Being inside a parallel loop is not enough: a matrix
/// product there is still cut for as many threads as this one may use, and so gives other bits.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) {
    if (before_ > 1) at::set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) at::set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

void attend_grid_cell(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale) {
  const Queries cell{copied(queries.q), scratch(queries.out), scratch(queries.lse), {}, {}};
  attend_forward(visibility, cell, {copied(keys.k), copied(keys.v), {}, {}}, scale);
  queries.out.copy_(cell.out);
  queries.lse.copy_(cell.lse);
}

KeyParts attend_grid_cell_backward(const Visibility& visibility, const Queries& queries, const Keys& keys,
                                   double scale) {
  const Queries cell{copied(queries.q), copied(queries.out), copied(queries.lse), copied(queries.grad_out),
                     scratch(queries.dq)};
  const Keys parts{copied(keys.k), copied(keys.v), scratch(keys.k).zero_(), scratch(keys.v).zero_()};
  attend_backward(visibility, cell, parts, scale);
  queries.dq.copy_(cell.dq);
  return {parts.dk, parts.dv};
}

void for_each_grid_cell(int64_t count, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(count, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;  // other threads do not inherit it
    const OneThread one_thread;
    for (int64_t i = next++; i < count; i = next++) work(i);
  });
}

void add_exactly(const at::Tensor& sums, const at::Tensor& values) {
  int64_t* const words = sums.data_ptr<int64_t>();
  const float* const numbers = values.const_data_ptr<float>();
  for_each_block(sums, values,
                 [&](int64_t at, int64_t from) { add_to_sums(words + at, numbers + from, values.size(2)); });
}

void merge_exactly(const at::Tensor& sums, const at::Tensor& other) {
  int64_t* const words = sums.data_ptr<int64_t>();
  const int64_t* const more = other.const_data_ptr<int64_t>();
  const int64_t size = exact_sums_in(sums.size(2));
  for_each_block(sums, other, [&](int64_t at, int64_t from) { merge_sums(words + at, more + from, size); });
}

at::Tensor round_exactly(const at::Tensor& sums, at::ScalarType type) {
  const int64_t size = exact_sums_in(sums.size(2));
  const at::Tensor rounded = at::empty({sums.size(0), sums.size(1), size}, sums.options().dtype(type));
  const int64_t* const words = sums.const_data_ptr<int64_t>();
  std::vector<float> numbers(size);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, type, "round_exactly", [&] {
    scalar_t* const results = rounded.data_ptr<scalar_t>();
    for_each_block(sums, rounded, [&](int64_t at, int64_t to) {
      round_sums(words + at, numbers.data(), size);
      std::transform(numbers.begin(), numbers.end(), results + to, [](float n) { return static_cast<scalar_t>(n); });
    });
  });
  return rounded;
}

}  // namespace equipoise
