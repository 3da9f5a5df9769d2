#pragma once

#include "equipoise/model/sequence.h"
#include "equipoise/model/shard.h"

namespace equipoise {

/// Deals the tokens of a sequence to cp ranks. Under every rule ranks own equal tokens within one, also where lengths
/// divide nothing.
///
/// sequence_zigzag  the packed sequence as one text of T tokens: the first e = floor(T / 2cp) * 2cp tokens in 2 cp
///                  chunks, rank i owns chunks i and 2cp - 1 - i; the T - e last tokens are dealt to ranks 0, 1, ...
///                  one by one
/// document_zigzag  the same inside each segment; the tokens that remain are dealt round robin, going on from segment
/// to
///                  segment
/// contiguous       segments stay whole where they can: longest first, on the rank with the least attention work
///                  (causal pairs) among those with room; a segment that fits on no rank is cut evenly into contiguous
///                  ranges over the fewest ranks that hold it
///
/// Ties go to the lower segment, then the lower rank. Requires cp >= 1. Errors: none.
/// Cost: O(segments * cp), whatever their length. Source: WLB-LLM, per-sequence and per-document sharding; contiguous
/// is ours.
Sharding shard_sequence(ShardingRule rule, const Sequence& sequence, int64_t cp);

}  // namespace equipoise
