// Every rule deals tokens to ranks in its own file; here their pieces get one form: sorted, and merged where one rank
// owns neighbours.

#include <algorithm>

#include "equipoise/base/errors.h"
#include "equipoise/sharding/rules.h"
#include "equipoise/sharding/sharding.h"

namespace equipoise {
namespace {

std::vector<ShardPiece> deal(ShardingRule rule, const Sequence& sequence, int64_t cp) {
  switch (rule) {
    case ShardingRule::sequence_zigzag: return shard_sequence_zigzag(sequence, cp);
    case ShardingRule::document_zigzag: return shard_document_zigzag(sequence, cp);
    case ShardingRule::contiguous: return shard_contiguous(sequence, cp);
    case ShardingRule::hybrid: break;
  }
  return {};
}

}  // namespace

std::vector<ShardPiece> merged(std::vector<ShardPiece> pieces) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<ShardPiece> result;
  for (const ShardPiece& piece : pieces) {
    const bool goes_on = !result.empty() && result.back().segment == piece.segment &&
                         result.back().cp_rank == piece.cp_rank &&
                         result.back().begin_tokens + result.back().length_tokens == piece.begin_tokens;
    if (goes_on)
      result.back().length_tokens += piece.length_tokens;
    else
      result.push_back(piece);
  }
  return result;
}

Sharding shard_sequence(ShardingRule rule, const Sequence& sequence, int64_t cp) {
  EQ_ASSERT(cp >= 1);
  return {.rule = rule, .pieces = merged(deal(rule, sequence, cp))};
}

}  // namespace equipoise
