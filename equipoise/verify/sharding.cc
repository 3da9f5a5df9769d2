// The pieces of a sequence must be a partition of its tokens: each segment is walked from its first token to its last.
// The zigzag rules say for every chunk who owns it, so they are walked chunk by chunk as well.

#include "equipoise/verify/report.h"
#include "equipoise/verify/segments.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

struct Walk {
  const Sequence& sequence;
  const Sharding& sharding;
  int64_t cp;
  std::vector<std::vector<ShardPiece>> by_segment;  ///< pieces in range
  Violations found;

  void say(const char* rule, int64_t segment, const std::string& what) {
    found.push_back({rule, text("segment ", segment), what});
  }
};

void check_pieces(Walk& walk);
void check_partition(Walk& walk);
void check_level(Walk& walk, const PlanInputs& inputs);
void check_rule(Walk& walk);

}  // namespace

Violations check_sharding(const Sequence& sequence, const Sharding& sharding, const PlanInputs& inputs) {
  Walk walk{sequence, sharding, inputs.mesh.cp, {}, {}};
  check_pieces(walk);
  check_partition(walk);
  check_level(walk, inputs);
  if (walk.found.empty()) check_rule(walk);
  return walk.found;
}

namespace {

void check_pieces(Walk& walk) {
  const auto segments = static_cast<int64_t>(walk.sequence.segments.size());
  walk.by_segment.resize(segments);
  const ShardPiece* last = nullptr;
  for (const ShardPiece& piece : walk.sharding.pieces) {
    const bool in_sequence = piece.segment >= 0 && piece.segment < segments;
    const bool in_group = piece.cp_rank >= 0 && piece.cp_rank < walk.cp;
    if (!in_group) walk.say("rank in group", piece.segment, text("rank ", piece.cp_rank, " of ", walk.cp));
    if (!in_sequence ||
        !inside(piece.begin_tokens, piece.length_tokens, walk.sequence.segments[piece.segment].length_tokens))
      walk.say("piece in segment", piece.segment, text(piece.length_tokens, " tokens from ", piece.begin_tokens));
    else
      walk.by_segment[piece.segment].push_back(piece);
    if (last && std::pair(piece.segment, piece.begin_tokens) <= std::pair(last->segment, last->begin_tokens))
      walk.say("pieces sorted", piece.segment, text("the piece from ", piece.begin_tokens, " follows a later one"));
    if (last && piece.segment == last->segment && piece.cp_rank == last->cp_rank &&
        piece.begin_tokens - last->length_tokens == last->begin_tokens)
      walk.say("pieces merged", piece.segment,
               text("rank ", piece.cp_rank, " has two pieces that meet at ", piece.begin_tokens));
    last = &piece;
  }
}

void check_partition(Walk& walk) {
  for (size_t s = 0; s < walk.by_segment.size(); ++s) {
    Intervals owned;
    for (const ShardPiece& piece : walk.by_segment[s])
      owned.push_back({piece.begin_tokens, piece.begin_tokens + piece.length_tokens});
    const auto segment = static_cast<int64_t>(s);
    for (const Interval& twice : overlaps(owned))
      walk.say("token owned once", segment, text("tokens ", text(twice), " have two owners"));
    for (const Interval& none : subtract({{0, walk.sequence.segments[s].length_tokens}}, merge(owned)))
      walk.say("token owned once", segment, text("tokens ", text(none), " have no owner"));
  }
}

/// Ranks own about the same, and with their padding hold no more than a cp-th of what a sequence may.
void check_level(Walk& walk, const PlanInputs& inputs) {
  std::vector<int64_t> owned(walk.cp);
  for (const auto& pieces : walk.by_segment)
    for (const ShardPiece& piece : pieces)
      if (piece.cp_rank >= 0 && piece.cp_rank < walk.cp) owned[piece.cp_rank] += piece.length_tokens;
  const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
  if (*most - *least > inputs.limits.align_tokens)
    walk.found.push_back({"ranks level", "sequence", text("ranks own between ", *least, " and ", *most, " tokens")});
  const auto rows = padded_rows(owned, walk.sharding.rule, inputs);
  const int64_t cap = ceil_div(inputs.limits.max_tokens, walk.cp);
  for (int64_t rank = 0; rank < walk.cp; ++rank)
    if (rows[rank] > cap)
      walk.found.push_back(
          {"rows within cap", "sequence", text("rank ", rank, " has ", rows[rank], " rows, at most ", cap)});
}

/// Goes through the tokens of the sequence in order and compares the owner of each range.
class Cursor {
 public:
  explicit Cursor(const Walk& walk) : walk_(walk) {}

  /// The next `tokens` belong to `rank`; false at the first that does not.
  bool expect(int64_t tokens, int64_t rank) {
    while (tokens > 0) {
      if (piece_ == walk_.sharding.pieces.size()) return false;
      const ShardPiece& piece = walk_.sharding.pieces[piece_];
      if (piece.cp_rank != rank) return false;
      const int64_t taken = std::min(tokens, piece.length_tokens - used_);
      tokens -= taken;
      used_ += taken;
      if (used_ == piece.length_tokens) ++piece_, used_ = 0;
    }
    return true;
  }

 private:
  const Walk& walk_;
  size_t piece_ = 0;
  int64_t used_ = 0;
};

/// `tokens` in 2 cp equal chunks, rank i owns chunks i and 2 cp - 1 - i; what does not divide is dealt round robin from
/// `dealt` on.
bool expect_zigzag(Cursor& cursor, int64_t tokens, int64_t cp, int64_t& dealt) {
  const int64_t chunk = tokens / (2 * cp);
  for (int64_t c = 0; c < 2 * cp; ++c)
    if (!cursor.expect(chunk, std::min(c, 2 * cp - 1 - c))) return false;
  for (int64_t rest = tokens - chunk * 2 * cp; rest > 0; --rest)
    if (!cursor.expect(1, dealt++ % cp)) return false;
  return true;
}

/// Requires sorted pieces that partition the sequence.
void check_rule(Walk& walk) {
  if (walk.sharding.rule == ShardingRule::contiguous) return;
  Cursor cursor(walk);
  int64_t dealt = 0;
  bool follows = true;
  if (walk.sharding.rule == ShardingRule::sequence_zigzag)
    follows = expect_zigzag(cursor, walk.sequence.tokens(), walk.cp, dealt);
  if (walk.sharding.rule == ShardingRule::document_zigzag)
    for (const Segment& segment : walk.sequence.segments)
      follows = follows && expect_zigzag(cursor, segment.length_tokens, walk.cp, dealt);
  if (!follows)
    walk.found.push_back(
        {"pieces follow rule", "sequence", text("the owners are not those of ", name(walk.sharding.rule))});
}

}  // namespace
}  // namespace equipoise
