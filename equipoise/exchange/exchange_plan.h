#pragma once

#include <span>

#include "equipoise/model/heads.h"
#include "equipoise/model/mask.h"
#include "equipoise/model/plans.h"
#include "equipoise/model/work.h"

namespace equipoise {

/// Derives all messages of one mask of a bucket from its work.
///
/// Queries: one message for each work item whose owner is not its member, in the item's round.
/// Keys: for each member and segment the visible keys of its items that it does not own, cut at their owners' pieces,
/// sent once, before the first round that needs them. Neighbouring KV heads share messages where all their needs in the
/// segment are equal, so that a message lies within one block of the receiver's arena.
/// rounds = 1 + the last round of any item. Sorted as model/exchange.h says.
/// Cost: O(n log n) for n = items + messages, times the head cuts of a segment.
Exchange plan_exchange(std::span<const Sequence> sequences, std::span<const Sharding> shardings,
                       std::span<const WorkItem> work, const Mask& mask, const Heads& heads, int64_t cp);

/// Cuts messages of more than `most_rows` rows at multiples of it from the segment's begin. Query messages are cut at
/// multiples of `grid_rows` as well, where that is not 0: at most as many rows as a whole number of cells has that
/// most_rows holds; at least one cell. Keeps the order that model/exchange.h asks for.
void cut_messages(Exchange& exchange, int64_t most_rows, int64_t grid_rows);

}  // namespace equipoise
