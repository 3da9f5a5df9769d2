// Rank programs count in cells; a view of cells is one as_strided, so kernels and copies work on the tensors in place.
#include "torch_ext/stores.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

namespace equipoise {
namespace {

Cells query_cells(const KernelEntry& entry) { return {entry.q_cell, entry.q_row_stride, 1, entry.rows, entry.heads}; }

Cells key_cells(const KernelEntry& entry) {
  return {entry.k_cell, entry.k_row_stride, entry.k_head_stride, entry.keys, entry.kv_heads};
}

at::Tensor view_if_defined(const at::Tensor& store, const Cells& cells) {
  return store.defined() ? view(store, cells) : at::Tensor();
}

/// Cells of this member's rows that an entry here or elsewhere computes. A valid program computes none twice.
int64_t computed_cells(const RankProgram& program) {
  int64_t cells = 0;
  for (const RoundProgram& round : program.rounds) {
    for (const SendBlock& block : round.send_queries) cells += block.rows * block.heads;
    for (const KernelEntry& entry : round.entries)
      if (entry.q_store == Store::local) cells += entry.rows * entry.heads;
  }
  return cells;
}

}  // namespace

at::Tensor as_cells(const at::Tensor& rows) { return rows.view({rows.size(0) * rows.size(1), rows.size(2)}); }

at::Tensor view(const at::Tensor& store, const Cells& cells) {
  const int64_t elements = store.size(1);
  return store.as_strided({cells.rows, cells.heads, elements},
                          {cells.row_stride * elements, cells.head_stride * elements, 1},
                          store.storage_offset() + cells.cell * elements);
}

Cells cells_of(const SendBlock& block, int64_t heads_of_store) {
  return {block.first_row * heads_of_store + block.head_begin, heads_of_store, 1, block.rows, block.heads};
}

Cells cells_of(const ReceiveKeys& block) { return {block.cell, 1, block.head_stride, block.rows, block.heads}; }

Queries queries_of(const Queries& store, const KernelEntry& entry) {
  const Cells cells = query_cells(entry);
  return {view(store.q, cells), view(store.out, cells), view(store.lse, cells), view_if_defined(store.grad_out, cells),
          view_if_defined(store.dq, cells)};
}

Keys keys_of(const Keys& store, const KernelEntry& entry) {
  const Cells cells = key_cells(entry);
  return {view(store.k, cells), view(store.v, cells), view_if_defined(store.dk, cells),
          view_if_defined(store.dv, cells)};
}

at::Tensor bytes_of(const Memory& memory, const Buffer& buffer) {
  return (buffer.kept ? memory.kept : memory.pass).narrow(0, buffer.offset, buffer.bytes);
}

at::Tensor store_of(const Memory& memory, const Buffer& buffer, at::ScalarType type, int64_t elements) {
  return bytes_of(memory, buffer).view(type).view({-1, elements});
}

Keys arena_of(const Memory& memory, const Keys& local) {
  const PassBuffers& places = memory.places;
  const auto type = local.k.scalar_type();
  const int64_t size = local.k.size(1);
  Keys arena{store_of(memory, places.k, type, size), store_of(memory, places.v, type, size), {}, {}};
  if (!local.dk.defined()) return arena;
  arena.dk = store_of(memory, places.dk, local.dk.scalar_type(), local.dk.size(1)).zero_();
  arena.dv = store_of(memory, places.dv, local.dv.scalar_type(), local.dv.size(1)).zero_();
  return arena;
}

void fill_arena(const RankProgram& program, const Keys& local, const Keys& arena) {
  for (const OwnKeys& own : program.own_keys) {
    const Cells from{own.first_row * program.heads.kv + own.head_begin, program.heads.kv, 1, own.rows, own.heads};
    const Cells to{own.cell, 1, own.head_stride, own.rows, own.heads};
    view(arena.k, to).copy_(view(local.k, from));
    view(arena.v, to).copy_(view(local.v, from));
  }
}

Queries guests_of(const Memory& memory, int64_t round, const Queries& local) {
  const RoundBuffers& places = memory.places.rounds[round];
  const auto type = local.q.scalar_type();
  const int64_t size = local.q.size(1);
  Queries guests{store_of(memory, places.q, type, size),
                 store_of(memory, places.out, type, size),
                 store_of(memory, places.lse, local.lse.scalar_type(), 1),
                 {},
                 {}};
  if (!local.dq.defined()) return guests;
  guests.grad_out = store_of(memory, places.grad_out, type, size);
  guests.dq = store_of(memory, places.dq, type, size);
  return guests;
}

at::Tensor make_results(const RankProgram& program, int64_t elements, const at::TensorOptions& options, double value) {
  const std::vector<int64_t> shape = {program.rows, program.heads.query, elements};
  const bool all_computed = computed_cells(program) == program.rows * program.heads.query;
  return all_computed ? at::empty(shape, options) : at::full(shape, value, options);
}

}  // namespace equipoise
