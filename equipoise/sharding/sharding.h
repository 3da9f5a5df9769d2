#pragma once

#include "equipoise/model/plan_inputs.h"
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
///                  to segment
/// contiguous       segments stay whole where they can: longest first, on the rank with the least attention work
///                  (causal pairs) among those with room; a segment that fits on no rank is cut evenly into contiguous
///                  ranges over the fewest ranks that hold it
///
/// Ties go to the lower segment, then the lower rank. Nothing is padded here: rank_rows() says what padding follows.
/// Requires cp >= 1 and a rule other than hybrid, which needs predicted times (below). Errors: none.
/// Cost: O(segments * cp), whatever their length. Source: WLB-LLM, per-sequence and per-document sharding; contiguous
/// is ours.
Sharding shard_sequence(ShardingRule rule, const Sequence& sequence, int64_t cp);

/// Predicted attention time of the slowest rank through the whole model where every owner computes its rows, each mask
/// counted with its layers.
int64_t slowest_rank_ns(const PlanInputs& inputs, const Sequence& sequence, const Sharding& sharding);

/// Keeps short segments whole and cuts long ones zigzag over the fewest ranks that fit, or over all, placed to level
/// predicted time; every rank owns the same tokens within one.
///
/// A zigzag is cut between whole row blocks of the kernel where the ranks have room for that, so that no run of rows
/// touches a block more than it fills. Tries a rank's share, a half and a quarter of it as the bound of what is long,
/// and returns the one of least slowest_rank_ns; ties go to the larger bound, where fewer keys travel. Guarantee: never
/// predicted slower than the better of the two zigzags, whose pieces it returns, under its own name, where no bound
/// beats them. Cost: O(bounds * (pieces + segments * cp)). Source: WLB-LLM leaves the mix as future work; this one is
/// ours.
Sharding shard_hybrid(const PlanInputs& inputs, const Sequence& sequence);

/// The fastest predicted of sequence_zigzag, document_zigzag and hybrid, under the name of that rule; ties in this
/// order. Source: WLB-LLM, adaptive sharding.
Sharding shard_adaptive(const PlanInputs& inputs, const Sequence& sequence);

}  // namespace equipoise
