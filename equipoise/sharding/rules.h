#pragma once

#include "equipoise/model/sequence.h"
#include "equipoise/model/shard.h"

namespace equipoise {

// One function for each rule of shard_sequence(). They return pieces that partition the sequence, in any order and not
// merged.

std::vector<ShardPiece> shard_sequence_zigzag(const Sequence& sequence, int64_t cp);
std::vector<ShardPiece> shard_document_zigzag(const Sequence& sequence, int64_t cp);
std::vector<ShardPiece> shard_contiguous(const Sequence& sequence, int64_t cp);

}  // namespace equipoise
