#include "equipoise/model/shard.h"

#include <numeric>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"

namespace equipoise {

std::string_view name(ShardingRule rule) {
  switch (rule) {
    case ShardingRule::sequence_zigzag: return "sequence_zigzag";
    case ShardingRule::document_zigzag: return "document_zigzag";
    case ShardingRule::contiguous: return "contiguous";
    case ShardingRule::hybrid: return "hybrid";
  }
  return "unknown";
}

ShardingRule parse_sharding(std::string_view text) {
  for (const ShardingRule rule : sharding_rules)
    if (text == name(rule)) return rule;
  throw InputError("sharding '" + std::string(text) + "' is not known", "field sharding",
                   "use sequence_zigzag, document_zigzag, contiguous or hybrid");
}

int64_t sequence_multiple(ShardingRule rule, const Mesh& mesh, int64_t align_tokens) {
  const bool in_chunks = rule == ShardingRule::sequence_zigzag && mesh.tp > 1 && align_tokens > 1;
  return in_chunks ? std::lcm(2 * mesh.cp, mesh.cp * align_tokens) : 1;
}

std::vector<int64_t> rank_rows(const Sharding& sharding, const Mesh& mesh, int64_t align_tokens) {
  std::vector<int64_t> rows(mesh.cp, 0);
  for (const ShardPiece& piece : sharding.pieces) rows[piece.cp_rank] += piece.length_tokens;
  const int64_t multiple = sequence_multiple(sharding.rule, mesh, align_tokens);
  const int64_t tokens = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  for (int64_t& count : rows)
    count = multiple > 1 ? round_up(tokens, multiple) / mesh.cp : round_up(count, align_tokens);
  return rows;
}

LocalRows local_rows(const Sharding& sharding, const Mesh& mesh, int64_t cp_rank, int64_t align_tokens) {
  LocalRows rows;
  for (const ShardPiece& piece : sharding.pieces) {
    if (piece.cp_rank != cp_rank) continue;
    rows.pieces.push_back({piece.segment, piece.begin_tokens, piece.length_tokens, rows.owned_rows});
    rows.owned_rows += piece.length_tokens;
  }
  rows.padding_rows = rank_rows(sharding, mesh, align_tokens)[cp_rank] - rows.owned_rows;
  return rows;
}

}  // namespace equipoise
