#include "tests/core/dense_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "equipoise/base/rng.h"

namespace equipoise {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool allowed(const Mask& mask, int64_t row, int64_t key) {
  if (mask.kind == MaskKind::full) return true;
  if (mask.kind == MaskKind::causal) return key <= row;
  return key <= row && row - key < mask.window_tokens;
}

/// One segment of a sequence, and where its rows begin.
struct Part {
  const Mask& mask;
  const Heads& heads;
  double scale;
  int64_t first;
  int64_t length;
};

/// One row of one query head, forward and backward.
void attend_row(const Part& part, int64_t row, int64_t head, DenseTensors& t) {
  const int64_t size = part.heads.size;
  const int64_t kv_head = head / part.heads.group();
  const int64_t row_cell = (part.first + row) * part.heads.query + head;
  const auto key_cell = [&](int64_t key) { return (part.first + key) * part.heads.kv + kv_head; };
  std::vector<double> weights(part.length, 0.0);
  double sum = 0;
  for (int64_t key = 0; key < part.length; ++key) {
    if (!allowed(part.mask, row, key)) continue;
    double score = 0;
    for (int64_t d = 0; d < size; ++d) score += t.q[row_cell * size + d] * t.k[key_cell(key) * size + d];
    sum += weights[key] = std::exp(part.scale * score);  // inputs are small: no overflow
  }
  t.lse[row_cell] = std::log(sum);
  double delta = 0;
  for (int64_t d = 0; d < size; ++d) {
    double& out = t.out[row_cell * size + d];
    for (int64_t key = 0; key < part.length; ++key) out += weights[key] / sum * t.v[key_cell(key) * size + d];
    delta += out * t.grad_out[row_cell * size + d];
  }
  for (int64_t key = 0; key < part.length; ++key) {
    if (!allowed(part.mask, row, key)) continue;
    const double probability = weights[key] / sum;
    double dprobability = 0;
    for (int64_t d = 0; d < size; ++d) dprobability += t.grad_out[row_cell * size + d] * t.v[key_cell(key) * size + d];
    const double dscore = part.scale * probability * (dprobability - delta);
    for (int64_t d = 0; d < size; ++d) {
      t.dq[row_cell * size + d] += dscore * t.k[key_cell(key) * size + d];
      t.dk[key_cell(key) * size + d] += dscore * t.q[row_cell * size + d];
      t.dv[key_cell(key) * size + d] += probability * t.grad_out[row_cell * size + d];
    }
  }
}

/// For each member the packed token of each of its rows, -1 for padding.
std::vector<std::vector<int64_t>> tokens_of_members(const PlanInputs& inputs, const BucketPlan& bucket) {
  std::vector<std::vector<int64_t>> tokens(inputs.members());
  for (size_t replica = 0; replica < bucket.sequences.size(); ++replica) {
    std::vector<int64_t> first = {0};
    for (const Segment& segment : bucket.sequences[replica].segments)
      first.push_back(first.back() + segment.length_tokens);
    std::vector<ShardPiece> pieces = bucket.shardings[replica].pieces;
    std::sort(pieces.begin(), pieces.end());
    for (const ShardPiece& piece : pieces)
      for (int64_t i = 0; i < piece.length_tokens; ++i)
        tokens[replica * inputs.mesh.cp + piece.cp_rank].push_back(first[piece.segment] + piece.begin_tokens + i);
  }
  const int64_t align = inputs.limits.align_tokens;
  for (size_t member = 0; member < tokens.size(); ++member) {
    const int64_t replica = static_cast<int64_t>(member) / inputs.mesh.cp;
    const bool alike =
        bucket.shardings[replica].rule == ShardingRule::sequence_zigzag && inputs.mesh.tp > 1 && align > 1;
    size_t most = 0;  // of its context group
    for (int64_t rank = 0; rank < inputs.mesh.cp; ++rank)
      most = std::max(most, tokens[replica * inputs.mesh.cp + rank].size());
    if (alike) tokens[member].resize(most, -1);
    while (std::ssize(tokens[member]) % align != 0 || (alike && tokens[member].size() % 2 != 0))
      tokens[member].push_back(-1);
  }
  return tokens;
}

/// Appends a row of `width` numbers, `padding` where there is no token.
void append_row(std::vector<double>& to, const std::vector<double>& from, int64_t token, int64_t width,
                double padding) {
  for (int64_t i = 0; i < width; ++i) to.push_back(token < 0 ? padding : from[token * width + i]);
}

double row_difference(const std::vector<double>& got, int64_t row, const std::vector<double>& want, int64_t token,
                      int64_t width, double padding) {
  double largest = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double a = got.at(row * width + i);
    const double b = token < 0 ? padding : want.at(token * width + i);
    if (a == b) continue;
    const double difference = std::abs(a - b);
    largest = std::max(largest, std::isnan(difference) ? infinity : difference);
  }
  return largest;
}

}  // namespace

std::vector<DenseTensors> random_tensors(std::span<const Sequence> sequences, const Heads& heads, uint64_t seed) {
  SplitMix64 random{seed};
  std::vector<DenseTensors> tensors(sequences.size());
  for (size_t s = 0; s < sequences.size(); ++s) {
    const int64_t queries = sequences[s].tokens() * heads.query * heads.size;
    const int64_t keys = sequences[s].tokens() * heads.kv * heads.size;
    for (auto [field, count] : {std::pair(&tensors[s].q, queries), std::pair(&tensors[s].grad_out, queries),
                                std::pair(&tensors[s].k, keys), std::pair(&tensors[s].v, keys)})
      for (int64_t i = 0; i < count; ++i)
        field->push_back(static_cast<double>(static_cast<int64_t>(random.next() >> 11) - (int64_t{1} << 52)) /
                         static_cast<double>(int64_t{1} << 52));
  }
  return tensors;
}

void dense_attention(const Sequence& sequence, const Mask& mask, const Heads& heads, double scale,
                     DenseTensors& tensors) {
  tensors.out.assign(tensors.q.size(), 0.0);
  tensors.dq.assign(tensors.q.size(), 0.0);
  tensors.lse.assign(sequence.tokens() * heads.query, 0.0);
  tensors.dk.assign(tensors.k.size(), 0.0);
  tensors.dv.assign(tensors.k.size(), 0.0);
  int64_t first = 0;
  for (const Segment& segment : sequence.segments) {
    const Part part{mask, heads, scale, first, segment.length_tokens};
    for (int64_t row = 0; row < segment.length_tokens; ++row)
      for (int64_t head = 0; head < heads.query; ++head) attend_row(part, row, head, tensors);
    first += segment.length_tokens;
  }
}

std::vector<LoopbackTensors> deal_tensors(const PlanInputs& inputs, const BucketPlan& bucket,
                                          std::span<const DenseTensors> dense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int64_t query_width = inputs.heads.query * inputs.heads.size;
  const int64_t key_width = inputs.heads.kv * inputs.heads.size;
  const auto tokens = tokens_of_members(inputs, bucket);
  std::vector<LoopbackTensors> members(tokens.size());
  for (size_t m = 0; m < tokens.size(); ++m) {
    const DenseTensors& from = dense[m / inputs.mesh.cp];
    for (const int64_t token : tokens[m]) {
      append_row(members[m].q, from.q, token, query_width, nan);
      append_row(members[m].grad_out, from.grad_out, token, query_width, nan);
      append_row(members[m].k, from.k, token, key_width, nan);
      append_row(members[m].v, from.v, token, key_width, nan);
    }
  }
  return members;
}

double LargestDifference::any() const { return std::max({out, lse, dq, dk, dv}); }

LargestDifference compare_tensors(const PlanInputs& inputs, const BucketPlan& bucket,
                                  std::span<const DenseTensors> dense, std::span<const LoopbackTensors> members) {
  const int64_t query_width = inputs.heads.query * inputs.heads.size;
  const int64_t key_width = inputs.heads.kv * inputs.heads.size;
  const auto tokens = tokens_of_members(inputs, bucket);
  LargestDifference largest;
  const auto compare = [&](double& result, int64_t m, std::vector<double> LoopbackTensors::* field, int64_t width,
                           double padding) {
    for (int64_t row = 0; row < std::ssize(tokens[m]); ++row)
      result = std::max(result, row_difference(members[m].*field, row, dense[m / inputs.mesh.cp].*field, tokens[m][row],
                                               width, padding));
    if (std::ssize(members[m].*field) != std::ssize(tokens[m]) * width) result = infinity;
  };
  for (int64_t m = 0; m < std::ssize(tokens); ++m) {
    compare(largest.out, m, &LoopbackTensors::out, query_width, 0);
    compare(largest.lse, m, &LoopbackTensors::lse, inputs.heads.query, -infinity);
    compare(largest.dq, m, &LoopbackTensors::dq, query_width, 0);
    compare(largest.dk, m, &LoopbackTensors::dk, key_width, 0);
    compare(largest.dv, m, &LoopbackTensors::dv, key_width, 0);
  }
  return largest;
}

}  // namespace equipoise
