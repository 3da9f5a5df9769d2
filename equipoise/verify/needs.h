#pragma once

#include "equipoise/verify/segments.h"

namespace equipoise::verifying {

/// One mask of a bucket whose messages are checked.
struct ExchangeCheck {
  const PlanInputs& inputs;
  const BucketPlan& bucket;
  int64_t mask_index = 0;

  const Exchange& exchange() const { return bucket.layers[mask_index].exchange; }
  const Mask& mask() const { return inputs.masks[mask_index]; }
};

/// Compares the rows that each member needs for its work in one segment with those that the messages bring it: none
/// missing, none for nothing, none twice, and in the right rounds. Requires messages in range.
void check_needs(const ExchangeCheck& check, const SegmentView& view, Violations& found);

}  // namespace equipoise::verifying
