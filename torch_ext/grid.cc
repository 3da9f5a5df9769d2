#include "torch_ext/grid.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "equipoise/base/errors.h"
#include "equipoise/base/exact_sum.h"
#include "torch_ext/kernel_cpu.h"

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

void attend_grid_cell(const EntryParts& entry, double scale) {
  const auto& [visibility, queries, keys] = entry;
  const Queries cell{copied(queries.q), scratch(queries.out), scratch(queries.lse), {}, {}};
  attend_forward(visibility, cell, {copied(keys.k), copied(keys.v), {}, {}}, scale);
  queries.out.copy_(cell.out);
  queries.lse.copy_(cell.lse);
}

/// Writes dq, and returns the parts of dk and dv beside copies of k and v.
Keys attend_grid_cell_backward(const EntryParts& entry, double scale) {
  const auto& [visibility, queries, keys] = entry;
  const Queries cell{copied(queries.q), copied(queries.out), copied(queries.lse), copied(queries.grad_out),
                     scratch(queries.dq)};
  Keys parts{copied(keys.k), copied(keys.v), scratch(keys.k).zero_(), scratch(keys.v).zero_()};
  attend_backward(visibility, cell, parts, scale);
  queries.dq.copy_(cell.dq);
  return parts;
}

/// Calls work(i) for 0 <= i < count, each on one thread, several at a time where there are threads.
template <class EachCell>
void for_each_grid_cell(int64_t count, const EachCell& work) {
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(count, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;  // other threads do not inherit it
    const OneThread one_thread;
    for (int64_t i = next++; i < count; i = next++) work(i);
  });
}

/// Adds numbers [R, H, D], float, to sums [R, H, W]; any strides, but cells of one row and head lie together.
void add_exactly(const at::Tensor& sums, const at::Tensor& values) {
  int64_t* const words = sums.data_ptr<int64_t>();
  const float* const numbers = values.const_data_ptr<float>();
  for_each_block(sums, values,
                 [&](int64_t at, int64_t from) { add_to_sums(words + at, numbers + from, values.size(2)); });
}

void check(const at::Tensor& q, const std::string& where) {
  const auto type = q.scalar_type();
  if ((type != at::kFloat && type != at::kBFloat16) || !q.is_cpu())
    throw InputError(std::string("q is ") + c10::toString(type) + " on " + q.device().str() + " under invariant sums",
                     where, "give float32 or bfloat16 on the CPU, or plan with gradient_sum fast");
}

void forward(const Work& work) {
  for_each_grid_cell(std::ssize(work.entries),
                     [&](int64_t i) { attend_grid_cell(parts_of(work, work.entries[i]), work.scale); });
}

/// Parts are summed exactly, so whichever thread comes first may add its own first.
void backward(const Work& work) {
  std::mutex summing;
  for_each_grid_cell(std::ssize(work.entries), [&](int64_t i) {
    const EntryParts entry = parts_of(work, work.entries[i]);
    const Keys parts = attend_grid_cell_backward(entry, work.scale);
    const std::lock_guard lock(summing);
    add_exactly(entry.keys.dk, parts.dk);
    add_exactly(entry.keys.dv, parts.dv);
  });
}

}  // namespace

const Kernel grid_kernel = {check, forward, backward};

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
