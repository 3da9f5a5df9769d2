// Zigzag: a text is cut into 2 cp equal chunks, and rank i owns chunks i and 2 cp - 1 - i: one early and one late, so
// that under a causal mask all ranks see as many keys. The text is the whole packed sequence, or each of its segments.
// Tokens that do not divide are dealt one by one, without padding.

#include <algorithm>

#include "equipoise/model/workload.h"
#include "equipoise/sharding/rules.h"

namespace equipoise {
namespace {

struct OwnedRange {
  Range tokens;
  int64_t cp_rank = 0;
};

/// Deals `tokens` tokens; the ones that do not divide go to ranks first_rank, first_rank + 1, ... round robin. In order
/// of the text.
std::vector<OwnedRange> deal_zigzag(int64_t tokens, int64_t cp, int64_t first_rank) {
  const int64_t chunk = tokens / (2 * cp);
  std::vector<OwnedRange> ranges;
  if (chunk > 0)
    for (int64_t i = 0; i < 2 * cp; ++i) ranges.push_back({{i * chunk, chunk}, std::min(i, 2 * cp - 1 - i)});
  for (int64_t token = 2 * cp * chunk; token < tokens; ++token) {
    ranges.push_back({{token, 1}, first_rank});
    first_rank = (first_rank + 1) % cp;
  }
  return ranges;
}

}  // namespace

std::vector<ShardPiece> shard_sequence_zigzag(const Sequence& sequence, int64_t cp) {
  const std::vector<OwnedRange> ranges = deal_zigzag(sequence.tokens(), cp, 0);
  std::vector<ShardPiece> pieces;
  int64_t segment_begin = 0;  // in the packed sequence
  auto range = ranges.begin();
  for (std::size_t s = 0; s < sequence.segments.size(); ++s) {
    const int64_t segment_end = segment_begin + sequence.segments[s].length_tokens;
    for (; range != ranges.end() && range->tokens.begin < segment_end; ++range) {
      const int64_t begin = std::max(range->tokens.begin, segment_begin);
      const int64_t end = std::min(range->tokens.end(), segment_end);
      pieces.push_back({static_cast<int64_t>(s), begin - segment_begin, end - begin, range->cp_rank});
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
    for (const OwnedRange& range : deal_zigzag(tokens, cp, next_rank))
      pieces.push_back({static_cast<int64_t>(s), range.tokens.begin, range.tokens.length, range.cp_rank});
    next_rank = (next_rank + tokens % (2 * cp)) % cp;
  }
  return pieces;
}

}  // namespace equipoise
