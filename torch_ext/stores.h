#pragma once

#include <vector>

#include "equipoise/model/buffers.h"
#include "equipoise/model/rank_program.h"
#include "torch_ext/kernel.h"

namespace equipoise {

// The stores of a rank program (equipoise/model/rank_program.h) as tensors [cells, E], E elements a cell (D, or 1 for
// log-sum-exp), and views of their parts.

/// [T, H, E] as a store [T * H, E]. Requires a contiguous tensor.
at::Tensor as_cells(const at::Tensor& rows);

/// A rectangle of cells: row i of head h is cell + i * row_stride + h * head_stride.
struct Cells {
  int64_t cell = 0;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  int64_t rows = 0;
  int64_t heads = 0;
};

/// The rectangle as a view [rows, heads, E].
at::Tensor view(const at::Tensor& store, const Cells& cells);

/// Where blocks of a program lie: own rows in [T, heads_of_store] cells, received keys in the arena.
Cells cells_of(const SendBlock& block, int64_t heads_of_store);
Cells cells_of(const ReceiveKeys& block);

/// The part of the stores that one kernel entry computes with; tensors that are undefined stay so.
Queries queries_of(const Queries& store, const KernelEntry& entry);
Keys keys_of(const Keys& store, const KernelEntry& entry);

Visibility visibility_of(const Mask& mask, int64_t diagonal);

/// The two blocks of memory of a pass (equipoise/model/buffers.h), uint8, and what lies where in them.
struct Memory {
  PassBuffers places;
  at::Tensor pass;
  at::Tensor kept;
};

/// A buffer as bytes, uint8 [bytes].
at::Tensor bytes_of(const Memory& memory, const Buffer& buffer);

/// A buffer as a store [cells, E].
at::Tensor store_of(const Memory& memory, const Buffer& buffer, at::ScalarType type, int64_t elements);

/// The key arena; its gradients, which are 0, only in a backward.
Keys arena_of(const Memory& memory, const Keys& local);

/// Puts own keys and values in their places in the arena.
void fill_arena(const RankProgram& program, const Keys& local, const Keys& arena);

/// Guests of a round; their gradients only in a backward.
Queries guests_of(const Memory& memory, int64_t round, const Queries& local);

/// [T, heads, E] for results of this member's rows. Filled with `value` only where the program leaves cells to no one
/// (padding rows).
at::Tensor make_results(const RankProgram& program, int64_t elements, const at::TensorOptions& options, double value);

}  // namespace equipoise
