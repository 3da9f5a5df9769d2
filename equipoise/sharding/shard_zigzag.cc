// Zigzag: a text is cut into 2 cp equal chunks, and rank i owns chunks i and 2 cp - 1 - i: one early and one late, so
// that under a causal mask all ranks see as many keys. The text is the whole packed sequence, or each of its segments.
// Tokens that do not divide are dealt one by one, without padding.

#include <algorithm>

#include "equipoise/model/workload.h"
#include "equipoise/sharding/rules.h"

namespace equipoise {

std::vector<DealtRange> deal_zigzag(int64_t tokens, int64_t places, int64_t first_place) {
  const int64_t chunk = tokens / (2 * places);
  std::vector<DealtRange> ranges;
  if (chunk > 0)
    for (int64_t i = 0; i < 2 * places; ++i) ranges.push_back({{i * chunk, chunk}, std::min(i, 2 * places - 1 - i)});
  for (int64_t token = 2 * places * chunk; token < tokens; ++token) {
    ranges.push_back({{token, 1}, first_place});
    first_place = (first_place + 1) % places;
  }
  return ranges;
}

std::vector<ShardPiece> shard_sequence_zigzag(const Sequence& sequence, int64_t cp) {
  const std::vector<DealtRange> ranges = deal_zigzag(sequence.tokens(), cp, 0);
  std::vector<ShardPiece> pieces;
  int64_t segment_begin = 0;  // in the packed sequence
  auto range = ranges.begin();
  for (std::size_t s = 0; s < sequence.segments.size(); ++s) {
    const int64_t segment_end = segment_begin + sequence.segments[s].length_tokens;
    for (; range != ranges.end() && range->tokens.begin < segment_end; ++range) {
      const int64_t begin = std::max(range->tokens.begin, segment_begin);
      const int64_t end = std::min(range->tokens.end(), segment_end);
      pieces.push_back({static_cast<int64_t>(s), begin - segment_begin, end - begin, range->place});
      if (range->tokens.end() > segment_end) break;  // goes on in the next segment
    }
    segment_begin = segment_end;
  }
  return pieces;
}

std::vector<ShardPiece> shard_document_zigzag(const Sequence& sequence, int64_t cp) {
  std::vector<ShardPiece> pieces;
  int64_t next_rank = 0;
  for (std::size_t s = 0; s < sequence.segments.size(); ++s) {
    const int64_t tokens = sequence.segments[s].length_tokens;
    for (const DealtRange& range : deal_zigzag(tokens, cp, next_rank))
      pieces.push_back({static_cast<int64_t>(s), range.tokens.begin, range.tokens.length, range.place});
    next_rank = (next_rank + tokens % (2 * cp)) % cp;
  }
  return pieces;
}

}  // namespace equipoise
