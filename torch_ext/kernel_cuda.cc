// The entries of a round by few calls of the variable-length flash kernel (equipoise/model/varlen.h). What lies in
// place is passed as a view of its store, all else is copied into one tensor for the call, and results are put back.
#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "equipoise/model/varlen.h"
#include "torch_ext/flash.h"
#include "torch_ext/kernel.h"
#include "torch_ext/stores.h"

namespace equipoise {
namespace {

/// The two stores that a tensor of a call may lie in.
struct StorePair {
  const at::Tensor& local;
  const at::Tensor& foreign;
};

StorePair stores(const Work& work, at::Tensor Queries::* part) { return {work.local.*part, work.guests.*part}; }
StorePair stores(const Work& work, at::Tensor Keys::* part) { return {work.local_keys.*part, work.arena.*part}; }

at::Tensor view_of(const StorePair& pair, const PlacedCells& cells) {
  return view(cells.store == Store::local ? pair.local : pair.foreign,
              {cells.cell, cells.row_stride, cells.head_stride, cells.rows, cells.heads});
}

/// Rows or keys of a call, in order, as the fewest unbroken blocks that we know of.
using Blocks = std::vector<PlacedCells>;

Blocks blocks_of(const VarlenCall& call, PlacedCells VarlenSequence::* side, bool in_place) {
  Blocks blocks;
  for (const VarlenSequence& sequence : call.sequences) {
    if (in_place && !blocks.empty())
      blocks.front().rows += (sequence.*side).rows;
    else
      blocks.push_back(sequence.*side);
  }
  return blocks;
}

/// [rows of all blocks, heads, E]: a view where it is one block.
at::Tensor gather(const StorePair& pair, const Blocks& blocks) {
  if (blocks.size() == 1) return view_of(pair, blocks.front());
  std::vector<at::Tensor> parts;
  for (const PlacedCells& block : blocks) parts.push_back(view_of(pair, block));
  return at::cat(parts);
}

/// Calls put(view of a block in its store, its rows of `results`) for each block.
template <class Put>
void scatter(const StorePair& pair, const Blocks& blocks, const at::Tensor& results, Put put) {
  int64_t row = 0;
  for (const PlacedCells& block : blocks) {
    put(view_of(pair, block), results.narrow(0, row, block.rows));
    row += block.rows;
  }
}

void set(const at::Tensor& place, const at::Tensor& result) { place.copy_(result); }
void add(const at::Tensor& place, const at::Tensor& result) { place.add_(result); }

/// One call and where its tensors lie.
struct PlacedCall {
  Blocks queries;
  Blocks keys;
  at::Tensor cu_q;  ///< cumulative rows of its sequences, int32
  at::Tensor cu_k;
  int64_t most_rows = 0;  ///< of a sequence
  int64_t most_keys = 0;
};

/// Cumulative rows, then keys, of every call, one after another. All reach the device in one copy, and from pinned
/// memory, so that the host need not wait for it.
at::Tensor cumulative_lengths(const VarlenPlan& plan, const at::Device& device) {
  std::vector<int32_t> numbers;  // the rows of a member fit its memory, so they are fewer than 2^31
  for (const VarlenCall& call : plan.calls)
    for (const auto side : {&VarlenSequence::queries, &VarlenSequence::keys}) {
      numbers.push_back(0);
      for (const VarlenSequence& sequence : call.sequences)
        numbers.push_back(numbers.back() + static_cast<int32_t>((sequence.*side).rows));
    }
  const auto options = at::TensorOptions(at::kInt).pinned_memory(device.is_cuda());
  const at::Tensor host = at::empty({std::ssize(numbers)}, options);
  std::copy(numbers.begin(), numbers.end(), host.mutable_data_ptr<int32_t>());
  return host.to(device, at::kInt, /*non_blocking=*/true);
}

std::vector<PlacedCall> place_calls(const VarlenPlan& plan, const at::Device& device) {
  const at::Tensor lengths = cumulative_lengths(plan, device);
  std::vector<PlacedCall> placed;
  int64_t next = 0;
  for (const VarlenCall& call : plan.calls) {
    const auto count = std::ssize(call.sequences) + 1;
    PlacedCall& one = placed.emplace_back();
    one.queries = blocks_of(call, &VarlenSequence::queries, call.queries_in_place);
    one.keys = blocks_of(call, &VarlenSequence::keys, call.keys_in_place);
    one.cu_q = lengths.narrow(0, next, count);
    one.cu_k = lengths.narrow(0, next + count, count);
    next += 2 * count;
    for (const VarlenSequence& sequence : call.sequences) {
      one.most_rows = std::max(one.most_rows, sequence.queries.rows);
      one.most_keys = std::max(one.most_keys, sequence.keys.rows);
    }
  }
  return placed;
}

FlashInputs flash_inputs(const Work& work, const PlacedCall& call) {
  return {gather(stores(work, &Queries::q), call.queries),
          gather(stores(work, &Keys::k), call.keys),
          gather(stores(work, &Keys::v), call.keys),
          call.cu_q,
          call.cu_k,
          call.most_rows,
          call.most_keys,
          work.mask,
          work.scale};
}

void forward(const Work& work) {
  const VarlenPlan plan = plan_varlen(work.mask, work.entries);
  const StorePair outs = stores(work, &Queries::out), statistics = stores(work, &Queries::lse);
  for (const PlacedCall& call : place_calls(plan, work.local.q.device())) {
    const auto [out, lse] = flash_forward(flash_inputs(work, call));
    scatter(outs, call.queries, out, set);
    scatter(statistics, call.queries, lse.t().unsqueeze(-1), set);
  }
  for (const PlacedCells& rows : plan.blind) {
    view_of(outs, rows).zero_();
    view_of(statistics, rows).fill_(-std::numeric_limits<double>::infinity());
  }
}

void backward(const Work& work) {
  const VarlenPlan plan = plan_varlen(work.mask, work.entries);
  const auto rows_of = [&](const PlacedCall& call, at::Tensor Queries::* part) {
    return gather(stores(work, part), call.queries);
  };
  for (const PlacedCall& call : place_calls(plan, work.local.q.device())) {
    const at::Tensor lse = rows_of(call, &Queries::lse).squeeze(-1).t().contiguous();
    const auto [dq, dk, dv] =
        flash_backward(flash_inputs(work, call), rows_of(call, &Queries::grad_out), rows_of(call, &Queries::out), lse);
    scatter(stores(work, &Queries::dq), call.queries, dq, set);
    scatter(stores(work, &Keys::dk), call.keys, dk, add);
    scatter(stores(work, &Keys::dv), call.keys, dv, add);
  }
  for (const PlacedCells& rows : plan.blind) view_of(stores(work, &Queries::dq), rows).zero_();
}

}  // namespace

const Kernel cuda_kernel = {check_flash, forward, backward};

}  // namespace equipoise
