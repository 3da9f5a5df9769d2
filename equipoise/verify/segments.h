#pragma once

#include <vector>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"
#include "equipoise/verify/report.h"

// A bucket seen segment by segment: what the checkers of tiles, messages and programs walk. Attention never crosses
// segments, so each segment is a world of its own, and a bucket of any size is checked with memory for its lists only.

namespace equipoise::verifying {

/// The parts of one mask of a bucket that concern one segment. Parts out of range are left out: their own checker names
/// them.
struct SegmentView {
  int64_t replica = 0;  ///< in pool
  int64_t segment = 0;
  int64_t length_tokens = 0;
  std::vector<ShardPiece> pieces;  ///< sorted by begin
  std::vector<Tile> tiles;         ///< sorted by q_begin
  std::vector<size_t> queries;     ///< indices into Exchange::queries
  std::vector<size_t> keys;        ///< indices into Exchange::keys
};

/// Whether sequences, shardings and layers are there for all replicas and masks; otherwise says so under "bucket shape"
/// and nothing else can be checked.
bool has_bucket_shape(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, Violations& found);

/// All segments of a bucket, by (replica, segment).
std::vector<SegmentView> segment_views(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

/// Rows of the cp ranks that own these tokens of one sequence, padding included: each a multiple of align_tokens; under
/// sequence_zigzag, where tp ranks share them, equal and even.
std::vector<int64_t> padded_rows(std::vector<int64_t> owned_tokens, ShardingRule rule, const PlanInputs& inputs);

/// "mask 0, micro-step 1, pool 0".
std::string bucket_name(const BucketPlan& bucket, int64_t mask_index);
/// The same with ", replica 2, segment 5".
std::string segment_name(const BucketPlan& bucket, int64_t mask_index, int64_t replica, int64_t segment);

bool tile_in_range(const PlanInputs& inputs, const BucketPlan& bucket, const Tile& tile);
bool block_in_segment(const BucketPlan& bucket, const RowBlock& block);

/// Whether [head_begin, head_begin + heads) lies in one KV head's group of query heads, or is whole groups.
bool fits_groups(int64_t head_begin, int64_t heads, int64_t group);

/// The keys that rows [rows.begin, rows.end) of a segment see: from the first key of the first row to the last key of
/// the last row.
Interval keys_of_rows(const Mask& mask, Interval rows, int64_t length_tokens);

}  // namespace equipoise::verifying
