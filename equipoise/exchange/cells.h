#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "equipoise/base/errors.h"

namespace equipoise {

/// Rows x heads of cells in a store: cell + row * row_stride + head * head_stride.
struct Cells {
  int64_t cell = 0;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  int64_t rows = 0;
  int64_t heads = 0;
};

/// One cell of `width` numbers. Throws InputError where the store has no such cell, so that a broken program cannot
/// read past the end.
inline std::span<double> cell_at(std::vector<double>& store, int64_t cell, int64_t width) {
  if (cell < 0 || cell >= std::ssize(store) / width)
    throw InputError(
        "cell " + std::to_string(cell) + " is outside of 0 .. " + std::to_string(std::ssize(store) / width - 1),
        "store of a member", "check the rank program before running it");
  return std::span(store).subspan(cell * width, width);
}

/// Calls visit(cell) row by row, heads inside a row: the order [rows, heads] of the wire.
template <class Visit>
void for_each_cell(const Cells& cells, Visit visit) {
  for (int64_t row = 0; row < cells.rows; ++row)
    for (int64_t head = 0; head < cells.heads; ++head)
      visit(cells.cell + row * cells.row_stride + head * cells.head_stride);
}

}  // namespace equipoise
