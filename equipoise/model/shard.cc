#include "equipoise/model/shard.h"

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

LocalRows local_rows(const Sharding& sharding, int64_t cp_rank, int64_t align_tokens) {
  LocalRows rows;
  for (const ShardPiece& piece : sharding.pieces) {
    if (piece.cp_rank != cp_rank) continue;
    rows.pieces.push_back({piece.segment, piece.begin_tokens, piece.length_tokens, rows.owned_rows});
    rows.owned_rows += piece.length_tokens;
  }
  rows.padding_rows = round_up(rows.owned_rows, align_tokens) - rows.owned_rows;
  return rows;
}

}  // namespace equipoise
