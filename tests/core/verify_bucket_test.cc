#include <gtest/gtest.h>

#include "equipoise/verify/verify.h"

// Sharding, tiling and exchange, checked on plans small enough to read.

namespace equipoise {
namespace {

using Rules = std::vector<std::string>;

Rules rules(const Violations& found) {
  Rules names;
  for (const Violation& violation : found)
    if (names.empty() || names.back() != violation.rule) names.push_back(violation.rule);
  return names;
}

Sequence sequence_of(const std::vector<int64_t>& lengths) {
  Sequence sequence;
  for (const int64_t length : lengths)
    sequence.segments.push_back({DocId{static_cast<int64_t>(sequence.segments.size())}, 0, length});
  return sequence;
}

Rules sharding_rules(const std::vector<int64_t>& lengths, ShardingRule rule, const std::vector<ShardPiece>& pieces,
                     int64_t cp = 2) {
  PlanInputs inputs;
  inputs.mesh.cp = cp;
  return rules(check_sharding(sequence_of(lengths), {rule, pieces}, inputs));
}

TEST(CheckSharding, CaseP5TellsTheThreeLayoutsApart) {
  const std::vector<ShardPiece> by_document = {{0, 0, 1, 0}, {0, 1, 2, 1}, {0, 3, 1, 0},
                                               {1, 0, 3, 0}, {1, 3, 6, 1}, {1, 9, 3, 0}};
  const std::vector<ShardPiece> by_sequence = {{0, 0, 4, 0}, {1, 0, 8, 1}, {1, 8, 4, 0}};
  const std::vector<ShardPiece> in_half = {{0, 0, 4, 0}, {1, 0, 4, 0}, {1, 4, 8, 1}};
  const std::vector<int64_t> lengths = {4, 12};
  EXPECT_EQ(sharding_rules(lengths, ShardingRule::document_zigzag, by_document), Rules{});
  EXPECT_EQ(sharding_rules(lengths, ShardingRule::document_zigzag, by_sequence), Rules{"pieces follow rule"});
  EXPECT_EQ(sharding_rules(lengths, ShardingRule::document_zigzag, in_half), Rules{"pieces follow rule"});
  EXPECT_EQ(sharding_rules(lengths, ShardingRule::sequence_zigzag, by_sequence), Rules{});
  EXPECT_EQ(sharding_rules(lengths, ShardingRule::sequence_zigzag, by_document), Rules{"pieces follow rule"});
  EXPECT_EQ(sharding_rules(lengths, ShardingRule::contiguous, in_half), Rules{});
}

TEST(CheckSharding, CaseP9TheLastTokenHasAnOwner) {
  const std::vector<ShardPiece> nine = {{0, 0, 3, 0}, {0, 3, 3, 1}, {0, 6, 3, 2}};
  PlanInputs inputs;
  inputs.mesh.cp = 3;
  const Violations found = check_sharding(sequence_of({10}), {ShardingRule::contiguous, nine}, inputs);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "token owned once");
  EXPECT_EQ(found[0].what, "tokens [9, 10) have no owner");
  EXPECT_EQ(sharding_rules({10}, ShardingRule::contiguous, {{0, 0, 4, 0}, {0, 4, 3, 1}, {0, 7, 3, 2}}, 3), Rules{});
}

TEST(CheckSharding, PaddingCountsAgainstTheCap) {
  // Rows in fours: 10 and 6 tokens are level within four, but the first rank then holds 12 of 8 rows.
  const std::vector<ShardPiece> pieces = {{0, 0, 10, 0}, {0, 10, 6, 1}};
  PlanInputs inputs;
  inputs.mesh.cp = 2;
  inputs.limits = {.window_tokens = 16, .max_tokens = 16, .align_tokens = 4};
  const Violations found = check_sharding(sequence_of({16}), {ShardingRule::contiguous, pieces}, inputs);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "rows within cap");
  EXPECT_EQ(found[0].what, "rank 0 has 12 rows, at most 8");
  inputs.limits.max_tokens = 24;
  EXPECT_TRUE(check_sharding(sequence_of({16}), {ShardingRule::contiguous, pieces}, inputs).empty());
}

TEST(CheckSharding, NamesEachFault) {
  EXPECT_EQ(sharding_rules({4}, ShardingRule::contiguous, {{0, 0, 2, 0}, {0, 1, 3, 1}}), Rules{"token owned once"});
  EXPECT_EQ(sharding_rules({4}, ShardingRule::contiguous, {{0, 2, 2, 1}, {0, 0, 2, 0}}), Rules{"pieces sorted"});
  EXPECT_EQ(sharding_rules({4}, ShardingRule::contiguous, {{0, 0, 1, 0}, {0, 1, 1, 0}, {0, 2, 2, 1}}),
            Rules{"pieces merged"});
  EXPECT_EQ(sharding_rules({4}, ShardingRule::contiguous, {{0, 0, 3, 0}, {0, 3, 1, 1}}), Rules{"ranks level"});
  EXPECT_EQ(sharding_rules({4}, ShardingRule::contiguous, {{0, 0, 2, 0}, {0, 2, 2, 2}}),
            (Rules{"rank in group", "ranks level"}));
  EXPECT_EQ(sharding_rules({4}, ShardingRule::contiguous, {{0, 0, 2, 0}, {0, 2, 2, 1}, {1, 0, 1, 1}}),
            Rules{"piece in segment"});
}

/// Two members, each with one document of its own: member 0 has 8 tokens, member 1 has 4. 4 query heads on 2 KV heads.
/// A tile gives rows 6 and 7 of the last two heads to member 1.
struct TwoMembers {
  PlanInputs inputs;
  BucketPlan bucket;

  TwoMembers() {
    inputs.mesh.dp = inputs.pool = 2;
    inputs.heads = {4, 2, 8};
    bucket.bucket.sequences = {SeqId{0}, SeqId{1}};
    bucket.sequences = {sequence_of({8}), sequence_of({4})};
    bucket.shardings = {{ShardingRule::contiguous, {{0, 0, 8, 0}}}, {ShardingRule::contiguous, {{0, 0, 4, 0}}}};
    const Tile tile{.replica_in_pool = 0,
                    .segment = 0,
                    .q_begin = 6,
                    .q_length = 2,
                    .head_begin = 2,
                    .heads = 2,
                    .member = MemberId{1},
                    .round = 1};
    const Message queries{1, MemberId{0}, MemberId{1}, {0, 0, 6, 2, 2, 2}, 1};
    const Message keys{1, MemberId{0}, MemberId{1}, {0, 0, 0, 8, 1, 1}, 1};
    bucket.layers = {{{tile}, {{queries}, {keys}, 2}}};
  }
  Tile& tile() { return bucket.layers[0].tiles[0]; }
  Exchange& exchange() { return bucket.layers[0].exchange; }
  Rules tiling() const { return rules(check_tiling(inputs, bucket, 0)); }
  Rules exchanged() const { return rules(check_exchange(inputs, bucket, 0)); }
};

TEST(CheckTiling, AcceptsATileOnAMemberThatOwnsNoneOfItsRows) {
  TwoMembers plan;
  EXPECT_EQ(plan.tiling(), Rules{});
  plan.tile().member = MemberId{0};
  EXPECT_EQ(plan.tiling(), Rules{"member owns rows"});
}

TEST(CheckTiling, ATileStaysInOneGroupOrTakesWholeOnes) {
  TwoMembers plan;
  plan.tile().head_begin = 1;
  EXPECT_EQ(plan.tiling(), Rules{"tile heads"});
  plan.tile().heads = 1;
  EXPECT_EQ(plan.tiling(), Rules{});
  plan.tile() = {0, 0, 6, 2, 0, 4, MemberId{1}, 1};
  EXPECT_EQ(plan.tiling(), Rules{});
  plan.tile().heads = 5;
  EXPECT_EQ(plan.tiling(), Rules{"tile heads"});
}

TEST(CheckTiling, TilesOverlapWhereTheyShareARowAndAHead) {
  TwoMembers plan;
  std::vector<Tile>& tiles = plan.bucket.layers[0].tiles;
  tiles.push_back({0, 0, 4, 4, 0, 2, MemberId{1}, 1});  // other heads
  tiles.push_back({0, 0, 4, 2, 2, 2, MemberId{1}, 1});  // other rows
  EXPECT_EQ(plan.tiling(), Rules{});
  tiles.push_back({0, 0, 7, 1, 3, 1, MemberId{1}, 1});
  EXPECT_EQ(plan.tiling(), Rules{"tiles overlap"});
}

TEST(CheckExchange, AcceptsTheRowsOfATileAndTheKeysThatTheySee) {
  TwoMembers plan;
  EXPECT_EQ(plan.exchanged(), Rules{});
}

TEST(CheckExchange, KeysFollowTheMask) {
  TwoMembers plan;
  plan.inputs.masks[0] = {MaskKind::sliding_window, 3, 1};
  const Violations found = check_exchange(plan.inputs, plan.bucket, 0);
  ASSERT_EQ(rules(found), Rules{"key needed"});
  EXPECT_EQ(found[0].what, "rows [0, 4) of KV head 1");  // rows 6 and 7 see keys 4 to 7
  plan.exchange().keys[0].block.begin_tokens = 4;
  plan.exchange().keys[0].block.length_tokens = 4;
  EXPECT_EQ(plan.exchanged(), Rules{});
  plan.exchange().keys[0].block.begin_tokens = 5;
  plan.exchange().keys[0].block.length_tokens = 3;
  EXPECT_EQ(plan.exchanged(), Rules{"key missing"});
}

TEST(CheckExchange, NamesWhatIsMissingAndWhatIsNotNeeded) {
  TwoMembers plan;
  plan.exchange().queries[0].block.length_tokens = 1;
  EXPECT_EQ(plan.exchanged(), Rules{"query missing"});
  plan = TwoMembers();
  plan.exchange().queries[0].block.head_begin = 1;
  plan.exchange().queries[0].block.heads = 3;
  EXPECT_EQ(plan.exchanged(), Rules{"query needed"});
  plan = TwoMembers();
  plan.exchange().keys[0].block.head_begin = 0;
  EXPECT_EQ(plan.exchanged(), (Rules{"key needed", "key missing"}));
  plan = TwoMembers();
  plan.exchange().keys.push_back({1, MemberId{0}, MemberId{1}, {0, 0, 2, 1, 1, 1}, 1});
  EXPECT_EQ(plan.exchanged(), Rules{"rows travel once"});
}

TEST(CheckExchange, KeysArriveBeforeTheirFirstUseAndReturnAfterTheirLast) {
  TwoMembers plan;
  plan.exchange().keys[0].round = 0;
  EXPECT_EQ(plan.exchanged(), Rules{"first round"});
  plan = TwoMembers();
  plan.bucket.layers[0].tiles.push_back({0, 0, 5, 1, 2, 2, MemberId{1}, 2});
  plan.exchange().queries.push_back({2, MemberId{0}, MemberId{1}, {0, 0, 5, 1, 2, 2}, 2});
  plan.exchange().rounds = 3;
  EXPECT_EQ(plan.exchanged(), Rules{"last round"});
  plan.exchange().keys[0].last_round = 2;
  EXPECT_EQ(plan.exchanged(), Rules{});
}

TEST(CheckExchange, RowsComeFromTheirOwner) {
  TwoMembers plan;
  plan.exchange().queries[0].from = MemberId{1};
  EXPECT_EQ(plan.exchanged(), Rules{"receiver is another"});
  plan = TwoMembers();
  plan.inputs.mesh.dp = plan.inputs.pool = 3;
  plan.bucket.bucket.sequences.push_back(SeqId{2});
  plan.bucket.sequences.push_back({});
  plan.bucket.shardings.push_back({});
  EXPECT_EQ(plan.exchanged(), Rules{});
  plan.exchange().queries[0].from = MemberId{2};
  EXPECT_EQ(plan.exchanged(), Rules{"sender owns rows"});
}

TEST(CheckExchange, HomeWorkOverSeveralOwnersNeedsTheirKeysInRoundZero) {
  PlanInputs inputs;
  inputs.mesh.cp = 2;
  BucketPlan bucket{
      {}, {sequence_of({4})}, {{ShardingRule::contiguous, {{0, 0, 2, 0}, {0, 2, 2, 1}}}}, {{{}, {{}, {}, 1}}}};
  EXPECT_EQ(rules(check_exchange(inputs, bucket, 0)), Rules{"key missing"});
  bucket.layers[0].exchange.keys = {{0, MemberId{0}, MemberId{1}, {0, 0, 0, 2, 0, 1}, 0}};
  EXPECT_EQ(rules(check_exchange(inputs, bucket, 0)), Rules{});
}

}  // namespace
}  // namespace equipoise
