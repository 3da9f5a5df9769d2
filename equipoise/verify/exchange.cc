// What must travel follows from who owns and who computes: for every segment the work of each member is laid out from
// pieces and tiles, the rows it reads are counted with the mask's own definition, and the messages must bring exactly
// the rows that it does not own, in time and once.

#include "equipoise/verify/needs.h"
#include "equipoise/verify/segments.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

std::string describe(const Message& message) {
  const RowBlock& block = message.block;
  return text("rows ", block.length_tokens, " from ", block.begin_tokens, ", heads ", block.heads, " from ",
              block.head_begin, ", member ", message.from.value, " to ", message.to.value, ", rounds ", message.round,
              " to ", message.last_round);
}

void check_list(const ExchangeCheck& check, const std::vector<Message>& messages, int64_t heads, Violations& found) {
  const auto in_pool = [&](MemberId member) { return member.value >= 0 && member.value < check.inputs.members(); };
  const Message* last = nullptr;
  for (const Message& message : messages) {
    const auto say = [&](const char* rule) {
      found.push_back(
          {rule, segment_name(check.bucket, check.mask_index, message.block.replica_in_pool, message.block.segment),
           describe(message)});
    };
    if (last && message < *last) say("message sorted");
    if (!in_pool(message.from) || !in_pool(message.to)) say("member in pool");
    if (message.from == message.to) say("receiver is another");
    if (!inside(message.block.head_begin, message.block.heads, heads)) say("head in range");
    if (message.round < 0 || message.last_round < message.round || message.last_round >= check.exchange().rounds)
      say("round in range");
    if (!block_in_segment(check.bucket, message.block)) say("block in segment");
    last = &message;
  }
}

/// One more than the last round of any tile; a home is round 0.
void check_rounds(const ExchangeCheck& check, Violations& found) {
  int64_t expected = 1;
  for (const Tile& tile : check.bucket.layers[check.mask_index].tiles) expected = std::max(expected, tile.round + 1);
  if (check.exchange().rounds != expected)
    found.push_back({"round in range", bucket_name(check.bucket, check.mask_index),
                     text(check.exchange().rounds, " rounds, expected ", expected)});
}

}  // namespace

Violations check_exchange(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index) {
  Violations found;
  if (!has_bucket_shape(inputs, bucket, mask_index, found)) return found;
  const ExchangeCheck check{inputs, bucket, mask_index};
  const Exchange& exchange = check.exchange();
  check_list(check, exchange.queries, inputs.heads.query, found);
  check_list(check, exchange.keys, inputs.heads.kv, found);
  check_rounds(check, found);
  if (!found.empty()) return found;  // counting needs lists in range
  for (const SegmentView& view : segment_views(inputs, bucket, mask_index)) check_needs(check, view, found);
  return found;
}

}  // namespace equipoise
