// Sorts the lists of a bucket into its segments, and says what a query row sees, row by row and not by the formulas
// that planning uses.

#include "equipoise/verify/segments.h"

namespace equipoise::verifying {
namespace {

/// The first and last key of one row, straight from the definition of the masks.
Interval keys_of_row(const Mask& mask, int64_t row, int64_t length_tokens) {
  if (mask.kind == MaskKind::full) return {0, length_tokens};
  if (mask.kind == MaskKind::causal) return {0, row + 1};
  return {row < mask.window_tokens ? 0 : row - mask.window_tokens + 1, row + 1};
}

}  // namespace

bool has_bucket_shape(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, Violations& found) {
  const auto masks = static_cast<int64_t>(inputs.masks.size());
  const auto is_pool = [&](size_t size) { return static_cast<int64_t>(size) == inputs.pool; };
  const bool sound = is_pool(bucket.sequences.size()) && is_pool(bucket.shardings.size()) &&
                     static_cast<int64_t>(bucket.layers.size()) == masks && mask_index >= 0 && mask_index < masks;
  if (!sound)
    found.push_back({"bucket shape", bucket_name(bucket, mask_index),
                     text(bucket.sequences.size(), " sequences and ", bucket.shardings.size(), " shardings, expected ",
                          inputs.pool, "; ", bucket.layers.size(), " layer plans, expected ", masks)});
  return sound;
}

std::vector<SegmentView> segment_views(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index) {
  std::vector<SegmentView> views;
  std::vector<size_t> first;  // of each replica
  for (int64_t replica = 0; replica < inputs.pool; ++replica) {
    first.push_back(views.size());
    for (const Segment& segment : bucket.sequences[replica].segments)
      views.push_back(
          {replica, static_cast<int64_t>(views.size() - first.back()), segment.length_tokens, {}, {}, {}, {}});
    for (const ShardPiece& piece : bucket.shardings[replica].pieces)
      if (block_in_segment(bucket, {replica, piece.segment, piece.begin_tokens, piece.length_tokens, 0, 1}) &&
          piece.cp_rank >= 0 && piece.cp_rank < inputs.mesh.cp)
        views[first.back() + piece.segment].pieces.push_back(piece);
  }
  const auto view = [&](int64_t replica, int64_t segment) -> SegmentView& { return views[first[replica] + segment]; };
  const LayerPlan& layer = bucket.layers[mask_index];
  for (const Tile& tile : layer.tiles)
    if (tile_in_range(inputs, bucket, tile)) view(tile.replica_in_pool, tile.segment).tiles.push_back(tile);
  const auto sort_in = [&](const std::vector<Message>& messages, std::vector<size_t> SegmentView::* list) {
    for (size_t i = 0; i < messages.size(); ++i)
      if (block_in_segment(bucket, messages[i].block))
        (view(messages[i].block.replica_in_pool, messages[i].block.segment).*list).push_back(i);
  };
  sort_in(layer.exchange.queries, &SegmentView::queries);
  sort_in(layer.exchange.keys, &SegmentView::keys);
  for (SegmentView& one : views) {
    std::sort(one.pieces.begin(), one.pieces.end());
    std::sort(one.tiles.begin(), one.tiles.end());
  }
  return views;
}

std::vector<int64_t> padded_rows(std::vector<int64_t> owned_tokens, ShardingRule rule, const PlanInputs& inputs) {
  const bool alike = rule == ShardingRule::sequence_zigzag && inputs.mesh.tp > 1 && inputs.limits.align_tokens > 1;
  if (alike) owned_tokens.assign(owned_tokens.size(), *std::max_element(owned_tokens.begin(), owned_tokens.end()));
  for (int64_t& rows : owned_tokens)
    while (rows % inputs.limits.align_tokens != 0 || (alike && rows % 2 != 0)) ++rows;
  return owned_tokens;
}

std::string bucket_name(const BucketPlan& bucket, int64_t mask_index) {
  return text("mask ", mask_index, ", micro-step ", bucket.bucket.micro_step, ", pool ", bucket.bucket.pool);
}

std::string segment_name(const BucketPlan& bucket, int64_t mask_index, int64_t replica, int64_t segment) {
  return text(bucket_name(bucket, mask_index), ", replica ", replica, ", segment ", segment);
}

bool tile_in_range(const PlanInputs& inputs, const BucketPlan& bucket, const Tile& tile) {
  return block_in_segment(bucket, {tile.replica_in_pool, tile.segment, tile.q_begin, tile.q_length, 0, 1}) &&
         inside(tile.head_begin, tile.heads, inputs.heads.query) && tile.member.value >= 0 &&
         tile.member.value < inputs.members();
}

bool block_in_segment(const BucketPlan& bucket, const RowBlock& block) {
  if (block.replica_in_pool < 0 || block.replica_in_pool >= static_cast<int64_t>(bucket.sequences.size())) return false;
  const std::vector<Segment>& segments = bucket.sequences[block.replica_in_pool].segments;
  return block.segment >= 0 && block.segment < static_cast<int64_t>(segments.size()) &&
         inside(block.begin_tokens, block.length_tokens, segments[block.segment].length_tokens);
}

bool fits_groups(int64_t head_begin, int64_t heads, int64_t group) {
  const bool whole = head_begin % group == 0 && heads % group == 0;
  return whole || head_begin / group == (head_begin + heads - 1) / group;
}

Interval keys_of_rows(const Mask& mask, Interval rows, int64_t length_tokens) {
  return {keys_of_row(mask, rows.begin, length_tokens).begin, keys_of_row(mask, rows.end - 1, length_tokens).end};
}

}  // namespace equipoise::verifying
