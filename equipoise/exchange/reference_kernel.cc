#include "equipoise/exchange/reference_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "equipoise/exchange/cells.h"

// Softmax attention as its definition says: for each row and head the scores of all keys it sees, nothing blocked and
// nothing cleverly kept.

namespace equipoise {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

bool sees(const Mask& mask, int64_t row, int64_t key) {
  switch (mask.kind) {
    case MaskKind::full: return true;
    case MaskKind::causal: return key <= row;
    case MaskKind::sliding_window: return key <= row && key > row - mask.window_tokens;
  }
  return false;
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

void add_scaled(std::span<double> to, double factor, std::span<const double> from) {
  for (size_t d = 0; d < to.size(); ++d) to[d] += factor * from[d];
}

/// Calls visit(query cell, cells of the keys that it sees) for each row and head of the entry.
template <class Visit>
void for_each_query(const KernelEntry& entry, const Mask& mask, Visit visit) {
  std::vector<int64_t> keys;
  for (int64_t row = 0; row < entry.rows; ++row)
    for (int64_t head = 0; head < entry.heads; ++head) {
      const int64_t kv = head * entry.kv_heads / entry.heads;
      keys.clear();
      for (int64_t key = 0; key < entry.keys; ++key)
        if (sees(mask, row + entry.diagonal, key))
          keys.push_back(entry.k_cell + key * entry.k_row_stride + kv * entry.k_head_stride);
      visit(entry.q_cell + row * entry.q_row_stride + head, keys);
    }
}

}  // namespace

void attend(const KernelEntry& entry, const RankProgram& program, double scale, const Stores& stores) {
  const int64_t size = program.heads.size;
  LoopbackTensors& queries = *stores[static_cast<size_t>(entry.q_store)];
  LoopbackTensors& keys = *stores[static_cast<size_t>(entry.k_store)];
  for_each_query(entry, program.mask, [&](int64_t cell, const std::vector<int64_t>& seen) {
    const std::span<double> q = cell_at(queries.q, cell, size);
    const std::span<double> out = cell_at(queries.out, cell, size);
    std::vector<double> scores;
    double highest = minus_infinity;
    for (const int64_t key : seen) {
      scores.push_back(scale * dot(q, cell_at(keys.k, key, size)));
      highest = std::max(highest, scores.back());
    }
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - highest);
    std::fill(out.begin(), out.end(), 0.0);
    for (size_t i = 0; i < seen.size(); ++i) add_scaled(out, scores[i] / sum, cell_at(keys.v, seen[i], size));
    cell_at(queries.lse, cell, 1)[0] = seen.empty() ? minus_infinity : highest + std::log(sum);
  });
}

void attend_backward(const KernelEntry& entry, const RankProgram& program, double scale, const Stores& stores) {
  const int64_t size = program.heads.size;
  LoopbackTensors& queries = *stores[static_cast<size_t>(entry.q_store)];
  LoopbackTensors& keys = *stores[static_cast<size_t>(entry.k_store)];
  for_each_query(entry, program.mask, [&](int64_t cell, const std::vector<int64_t>& seen) {
    const std::span<double> q = cell_at(queries.q, cell, size);
    const std::span<double> dq = cell_at(queries.dq, cell, size);
    const std::span<double> grad_out = cell_at(queries.grad_out, cell, size);
    const double delta = dot(grad_out, cell_at(queries.out, cell, size));
    const double lse = cell_at(queries.lse, cell, 1)[0];
    for (const int64_t key : seen) {
      const std::span<double> k = cell_at(keys.k, key, size);
      const double probability = std::exp(scale * dot(q, k) - lse);
      const double dscore = scale * probability * (dot(grad_out, cell_at(keys.v, key, size)) - delta);
      add_scaled(dq, dscore, k);
      add_scaled(cell_at(keys.dk, key, size), dscore, q);
      add_scaled(cell_at(keys.dv, key, size), probability, grad_out);
    }
  });
}

}  // namespace equipoise
