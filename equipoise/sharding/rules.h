#pragma once

#include <functional>

#include "equipoise/model/sequence.h"
#include "equipoise/model/shard.h"
#include "equipoise/model/workload.h"

namespace equipoise {

// One function for each rule of shard_sequence(). They return pieces that partition the sequence, in any order and not
// merged.

std::vector<ShardPiece> shard_sequence_zigzag(const Sequence& sequence, int64_t cp);
std::vector<ShardPiece> shard_document_zigzag(const Sequence& sequence, int64_t cp);
std::vector<ShardPiece> shard_contiguous(const Sequence& sequence, int64_t cp);

/// A range of one text and the place in a list of ranks that owns it.
struct DealtRange {
  Range tokens;
  int64_t place = 0;
};

/// Zigzag over `places` owners: 2 * places equal chunks, one early and one late for each; the tokens that do not divide
/// go one by one to first_place, first_place + 1, ... round robin. In order of the text.
std::vector<DealtRange> deal_zigzag(int64_t tokens, int64_t places, int64_t first_place);

/// What one rank can still own, and the attention work that it has so far.
struct RankRoom {
  int64_t cp_rank = 0;
  int64_t room_tokens = 0;
  int64_t work = 0;
};

/// Attention work of rows of a segment of `length_tokens`: pairs, or predicted time.
using RowWork = std::function<int64_t(Range rows, int64_t length_tokens)>;

/// A sequence that is being dealt. Rooms are equal within one and sum to what is left.
struct Deal {
  const Sequence& sequence;
  RowWork work_of;
  std::vector<RankRoom> ranks;
  std::vector<ShardPiece> pieces;
};

/// Nothing is dealt yet: the rooms sum to the sequence.
Deal begin_deal(const Sequence& sequence, int64_t cp, RowWork work_of);

/// Segments of the sequence, longest first; ties to the lower one.
std::vector<int64_t> longest_segments(const Sequence& sequence);

/// Gives rows of a segment to a rank: appends the piece, takes the room, adds the work.
void give_rows(Deal& deal, int64_t segment, Range rows, RankRoom& rank);

/// Places a whole segment on the rank with the least work that holds it; one that fits on no rank is cut evenly into
/// contiguous ranges over the fewest ranks that hold it.
void place_contiguous(Deal& deal, int64_t segment);

/// Sorts pieces by (segment, begin) and merges neighbours of one rank.
std::vector<ShardPiece> merged(std::vector<ShardPiece> pieces);

}  // namespace equipoise
