// Tiles are rectangles of rows x heads. Each must lie in its segment and on a member that does not own its rows; no two
// may share a row and head, or the pairs there would be counted twice. What no tile names is its owner's, so nothing
// else can be missing.

#include <map>

#include "equipoise/verify/segments.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

std::string describe(const Tile& tile) {
  return text("rows ", tile.q_length, " from ", tile.q_begin, ", heads ", tile.heads, " from ", tile.head_begin,
              ", member ", tile.member.value, ", round ", tile.round);
}

void check_fields(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, Violations& found) {
  const LayerPlan& layer = bucket.layers[mask_index];
  for (const Tile& tile : layer.tiles) {
    const auto say = [&](const char* rule) {
      found.push_back({rule, segment_name(bucket, mask_index, tile.replica_in_pool, tile.segment), describe(tile)});
    };
    if (!block_in_segment(bucket, {tile.replica_in_pool, tile.segment, tile.q_begin, tile.q_length, 0, 1}))
      say("tile in segment");
    if (!inside(tile.head_begin, tile.heads, inputs.heads.query) ||
        !fits_groups(tile.head_begin, tile.heads, inputs.heads.group()))
      say("tile heads");
    if (tile.member.value < 0 || tile.member.value >= inputs.members()) say("member in pool");
    if (tile.round < 1 || tile.round >= layer.exchange.rounds) say("round in range");
  }
}

void check_count(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, Violations& found) {
  std::map<MemberId, int64_t> counts;
  for (const Tile& tile : bucket.layers[mask_index].tiles) ++counts[tile.member];
  for (const auto& [member, count] : counts)
    if (count > inputs.limits.max_tiles)
      found.push_back({"tiles within cap", text(bucket_name(bucket, mask_index), ", member ", member.value),
                       text(count, " tiles, at most ", inputs.limits.max_tiles)});
}

bool share(int64_t begin_a, int64_t length_a, int64_t begin_b, int64_t length_b) {
  return begin_a < begin_b + length_b && begin_b < begin_a + length_a;
}

/// Whether a cell of the invariant grid may begin or end at this row.
bool is_cell_border(const SegmentView& view, int64_t row, int64_t grid_rows) {
  const auto begins_here = [row](const ShardPiece& piece) { return piece.begin_tokens == row; };
  return row % grid_rows == 0 || row == view.length_tokens ||
         std::any_of(view.pieces.begin(), view.pieces.end(), begins_here);
}

bool holds_whole_cells(const PlanInputs& inputs, const SegmentView& view, const Tile& tile) {
  const int64_t group = inputs.heads.group();
  return tile.head_begin % group == 0 && tile.heads % group == 0 &&
         is_cell_border(view, tile.q_begin, inputs.grid_rows) &&
         is_cell_border(view, tile.q_begin + tile.q_length, inputs.grid_rows);
}

}  // namespace

Violations check_tiling(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index) {
  Violations found;
  if (!has_bucket_shape(inputs, bucket, mask_index, found)) return found;
  check_fields(inputs, bucket, mask_index, found);
  check_count(inputs, bucket, mask_index, found);
  for (const SegmentView& view : segment_views(inputs, bucket, mask_index)) {
    const auto say = [&](const char* rule, const std::string& what) {
      found.push_back({rule, segment_name(bucket, mask_index, view.replica, view.segment), what});
    };
    std::vector<const Tile*> open;  // tiles that may reach the rows of the next ones
    for (const Tile& tile : view.tiles) {
      std::erase_if(open, [&](const Tile* other) { return other->q_begin + other->q_length <= tile.q_begin; });
      for (const Tile* other : open)
        if (share(tile.head_begin, tile.heads, other->head_begin, other->heads))
          say("tiles overlap", text(describe(*other), " and ", describe(tile)));
      open.push_back(&tile);
      if (inputs.gradient_sum == GradientSum::invariant && !holds_whole_cells(inputs, view, tile))
        say("tile of grid cells", describe(tile));
      for (const ShardPiece& piece : view.pieces)
        if (view.replica * inputs.mesh.cp + piece.cp_rank == tile.member.value &&
            share(tile.q_begin, tile.q_length, piece.begin_tokens, piece.length_tokens))
          say("member owns rows", describe(tile));
    }
  }
  return found;
}

}  // namespace equipoise
