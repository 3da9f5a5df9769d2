#include "equipoise/exchange/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "equipoise/base/errors.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/exchange/program_match.h"
#include "equipoise/model/work.h"
#include "equipoise/sharding/sharding.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

/// Inputs of one pool of `pool` x `cp` members with causal attention.
PlanInputs pool_inputs(int64_t pool, int64_t cp, const Heads& heads) {
  PlanInputs inputs;
  inputs.mesh.dp = pool;
  inputs.mesh.cp = cp;
  inputs.pool = pool;
  inputs.heads = heads;
  return inputs;
}

/// A bucket of one sequence a replica, its segments of the given lengths.
BucketPlan bucket_of(const PlanInputs& inputs, const std::vector<std::vector<int64_t>>& lengths, ShardingRule rule,
                     const std::vector<Tile>& tiles = {}) {
  BucketPlan bucket;
  for (const std::vector<int64_t>& sequence : lengths) {
    bucket.sequences.emplace_back();
    for (const int64_t length : sequence) bucket.sequences.back().segments.push_back({DocId{0}, 0, length});
    bucket.shardings.push_back(shard_sequence(rule, bucket.sequences.back(), inputs.mesh.cp));
  }
  const auto work = attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, inputs.mesh.cp);
  bucket.layers.push_back(
      {tiles, plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[0], inputs.heads, inputs.mesh.cp)});
  return bucket;
}

RankProgram program_of(const PlanInputs& inputs, const BucketPlan& bucket, int64_t member) {
  return make_rank_program(inputs, bucket, 0, MemberId{member}, 0);
}

std::vector<int64_t> positions(const Sequence& sequence, ShardingRule rule, int64_t rank) {
  std::vector<int64_t> rows;
  for (const LocalPiece& piece : local_rows(shard_sequence(rule, sequence, 2), {.cp = 2}, rank, 1).pieces)
    for (int64_t i = 0; i < piece.length_tokens; ++i) rows.push_back(piece.begin_tokens + i);
  return rows;
}

TEST(LocalRows, CaseA6RowsLieBySegmentAndBegin) {
  const Sequence sequence{{{DocId{0}, 0, 4}, {DocId{1}, 0, 4}}};
  EXPECT_EQ(positions(sequence, ShardingRule::sequence_zigzag, 0), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(positions(sequence, ShardingRule::sequence_zigzag, 1), (std::vector<int64_t>{2, 3, 0, 1}));
  EXPECT_EQ(positions(sequence, ShardingRule::document_zigzag, 0), (std::vector<int64_t>{0, 3, 0, 3}));
  EXPECT_EQ(positions(sequence, ShardingRule::document_zigzag, 1), (std::vector<int64_t>{1, 2, 1, 2}));
}

TEST(LocalRows, PaddingFillsUpToTheAlignment) {
  const LocalRows rows = local_rows({ShardingRule::contiguous, {{0, 0, 5, 0}, {0, 5, 4, 1}}}, {.cp = 2}, 0, 4);
  EXPECT_EQ(rows.owned_rows, 5);
  EXPECT_EQ(rows.padding_rows, 3);
}

TEST(LocalRows, TensorParallelRanksShareEvenRowsThatAreAlikeInASequenceZigzag) {
  const Sharding zigzag = shard_sequence(ShardingRule::sequence_zigzag, {{{DocId{0}, 0, 13}}}, 3);
  EXPECT_EQ(rank_rows(zigzag, {.cp = 3}, 1), (std::vector<int64_t>{5, 4, 4}));
  EXPECT_EQ(rank_rows(zigzag, {.cp = 3}, 2), (std::vector<int64_t>{6, 4, 4})) << "nobody shares them";
  EXPECT_EQ(rank_rows(zigzag, {.cp = 3, .tp = 2}, 1), (std::vector<int64_t>{5, 4, 4})) << "each has them all";
  EXPECT_EQ(rank_rows(zigzag, {.cp = 3, .tp = 2}, 2), (std::vector<int64_t>{6, 6, 6}));
  EXPECT_EQ(rank_rows(zigzag, {.cp = 3, .tp = 5}, 5), (std::vector<int64_t>{10, 10, 10}));
  for (int64_t rank = 0; rank < 3; ++rank) {
    const LocalRows rows = local_rows(zigzag, {.cp = 3, .tp = 2}, rank, 2);
    EXPECT_EQ(rows.owned_rows + rows.padding_rows, 6) << rank;
  }
  const Sharding by_document = shard_sequence(ShardingRule::document_zigzag, {{{DocId{0}, 0, 13}}}, 3);
  EXPECT_EQ(rank_rows(by_document, {.cp = 3, .tp = 2}, 2), (std::vector<int64_t>{6, 4, 4}));
}

TEST(RankProgram, AWholeDocumentOfAllHeadsIsOneEntryInPlace) {
  const PlanInputs inputs = pool_inputs(1, 1, {8, 4, 16});
  const RankProgram program = program_of(inputs, bucket_of(inputs, {{30, 50}}, ShardingRule::contiguous), 0);
  ASSERT_EQ(program.rounds.size(), 1U);
  const KernelEntry first{
      .q_row_stride = 8, .rows = 30, .heads = 8, .k_row_stride = 4, .k_head_stride = 1, .keys = 30, .kv_heads = 4};
  KernelEntry second = first;
  second.q_cell = 30 * 8;
  second.k_cell = 30 * 4;
  second.rows = second.keys = 50;
  EXPECT_EQ(program.rounds[0].entries, (std::vector{first, second}));
  EXPECT_EQ(program.arena_cells, 0);
  EXPECT_TRUE(program.own_keys.empty());
}

TEST(RankProgram, CaseA8NothingMovesWhereDocumentsLieWhole) {
  const PlanInputs inputs = pool_inputs(8, 1, {8, 4, 16});
  const BucketPlan bucket = bucket_of(inputs, std::vector<std::vector<int64_t>>(8, {1000}), ShardingRule::contiguous);
  for (int64_t m = 0; m < 8; ++m) {
    const RankProgram program = program_of(inputs, bucket, m);
    ASSERT_EQ(program.rounds.size(), 1U);
    const RoundProgram& round = program.rounds[0];
    EXPECT_FALSE(round.queries_move || round.keys_move || round.key_gradients_move);
    EXPECT_TRUE(round.send_keys.empty() && round.receive_keys.empty() && round.send_queries.empty());
    EXPECT_EQ(round.entries.size(), 1U);
    EXPECT_EQ(program.arena_cells, 0);
  }
}

TEST(RankProgram, CaseA5AMemberWithoutRowsTakesPartInEveryRound) {
  const PlanInputs inputs = pool_inputs(2, 1, {2, 2, 4});
  const Tile tile{.q_begin = 6, .q_length = 4, .head_begin = 0, .heads = 2, .member = MemberId{1}, .round = 2};
  const BucketPlan bucket = bucket_of(inputs, {{10}, {}}, ShardingRule::contiguous, {tile});
  const RankProgram owner = program_of(inputs, bucket, 0);
  const RankProgram guest = program_of(inputs, bucket, 1);
  EXPECT_EQ(guest.rows, 0);
  ASSERT_EQ(guest.rounds.size(), 3U);
  EXPECT_EQ(guest.rounds[2].entries.size(), 1U);
  EXPECT_EQ(guest.arena_cells, 2 * 10);
  EXPECT_TRUE(owner.rounds[2].queries_move && owner.rounds[2].keys_move && owner.rounds[2].key_gradients_move);
  EXPECT_FALSE(owner.rounds[1].queries_move || owner.rounds[1].keys_move);
  require_match(std::vector{owner, guest});
}

TEST(RankProgram, ZigzagGathersItsPrefixAndKeepsTheFirstChunkInPlace) {
  const PlanInputs inputs = pool_inputs(1, 2, {4, 2, 8});
  const BucketPlan bucket = bucket_of(inputs, {{40}}, ShardingRule::document_zigzag);
  const RankProgram program = program_of(inputs, bucket, 0);  // rows 0..9 and 30..39
  ASSERT_EQ(program.rounds.size(), 1U);
  ASSERT_EQ(program.rounds[0].entries.size(), 2U);
  EXPECT_EQ(program.rounds[0].entries[0].k_store, Store::local);
  const KernelEntry& last = program.rounds[0].entries[1];
  EXPECT_EQ(last.k_store, Store::foreign);
  EXPECT_EQ(last.keys, 40);
  EXPECT_EQ(last.diagonal, 30);
  EXPECT_EQ(last.k_head_stride, 40);
  EXPECT_EQ(program.arena_cells, 2 * 40);
  const std::vector<OwnKeys> own = {{0, 10, 0, 2, 0, 40}, {10, 10, 0, 2, 30, 40}};
  EXPECT_EQ(program.own_keys, own);
  const std::vector<ReceiveKeys> received = {{1, 20, 2, 10, 40, 0}};
  EXPECT_EQ(program.rounds[0].receive_keys, received);
}

TEST(RankProgram, AWindowCountsItsDiagonalFromTheFirstKeyItShows) {
  PlanInputs inputs = pool_inputs(2, 1, {1, 1, 4});
  inputs.masks[0] = {MaskKind::sliding_window, 8, 1};
  const Tile tile{.q_begin = 50, .q_length = 10, .head_begin = 0, .heads = 1, .member = MemberId{1}};
  const BucketPlan bucket = bucket_of(inputs, {{100}, {5}}, ShardingRule::contiguous, {tile});
  const RankProgram guest = program_of(inputs, bucket, 1);
  ASSERT_EQ(guest.rounds[1].entries.size(), 1U);
  EXPECT_EQ(guest.rounds[1].entries[0].keys, 17);
  EXPECT_EQ(guest.rounds[1].entries[0].diagonal, 7);
  EXPECT_EQ(guest.arena_cells, 17);
  // What stays at home is the rows before and behind the tile, each one call.
  EXPECT_EQ(program_of(inputs, bucket, 0).rounds[0].entries.size(), 2U);
}

TEST(RankProgram, HeadsInsideAGroupReadOneKvHead) {
  const PlanInputs inputs = pool_inputs(2, 1, {8, 2, 4});
  const Tile tile{.q_begin = 5, .q_length = 7, .head_begin = 5, .heads = 2, .member = MemberId{1}};
  const RankProgram guest = program_of(inputs, bucket_of(inputs, {{12}, {3}}, ShardingRule::contiguous, {tile}), 1);
  ASSERT_EQ(guest.rounds[1].entries.size(), 1U);
  const KernelEntry& entry = guest.rounds[1].entries[0];
  EXPECT_EQ(std::tuple(entry.heads, entry.kv_heads, entry.q_row_stride), std::tuple(2, 1, 2));
  EXPECT_EQ(guest.rounds[1].receive_keys[0].heads, 1);
}

TEST(RankProgram, TilesThatFollowEachOtherAreOneEntry) {
  const PlanInputs inputs = pool_inputs(2, 1, {4, 2, 4});
  std::vector<Tile> tiles;
  for (int64_t begin = 8; begin < 32; begin += 8)
    tiles.push_back({.q_begin = begin, .q_length = 8, .head_begin = 2, .heads = 2, .member = MemberId{1}});
  const RankProgram guest = program_of(inputs, bucket_of(inputs, {{32}, {3}}, ShardingRule::contiguous, tiles), 1);
  ASSERT_EQ(guest.rounds[1].entries.size(), 1U);
  EXPECT_EQ(guest.rounds[1].entries[0].rows, 24);
  EXPECT_EQ(guest.rounds[1].entries[0].keys, 32);
}

TEST(RankProgram, HeadsWhoseKeysDifferAreCutIntoEntries) {
  const PlanInputs inputs = pool_inputs(2, 1, {3, 3, 4});
  const std::vector<Tile> tiles = {{.q_begin = 4, .q_length = 4, .head_begin = 0, .heads = 3, .member = MemberId{1}},
                                   {.q_begin = 8, .q_length = 4, .head_begin = 1, .heads = 1, .member = MemberId{1}}};
  const RankProgram guest = program_of(inputs, bucket_of(inputs, {{12}, {3}}, ShardingRule::contiguous, tiles), 1);
  EXPECT_EQ(guest.arena_cells, 8 + 12 + 8);
  EXPECT_EQ(guest.rounds[1].entries.size(), 4U);
}

/// (rows, keys, diagonal, query heads, KV heads) of all entries of a pool, sorted.
std::vector<std::array<int64_t, 5>> entry_shapes(const PlanInputs& inputs, const BucketPlan& bucket) {
  std::vector<std::array<int64_t, 5>> shapes;
  for (int64_t m = 0; m < inputs.members(); ++m)
    for (const RoundProgram& round : program_of(inputs, bucket, m).rounds)
      for (const KernelEntry& e : round.entries) shapes.push_back({e.rows, e.keys, e.diagonal, e.heads, e.kv_heads});
  std::sort(shapes.begin(), shapes.end());
  return shapes;
}

TEST(RankProgram, InvariantSumsMakeACellOfTheGridAnEntryWhoeverComputesIt) {
  PlanInputs inputs = pool_inputs(2, 1, {4, 2, 8});
  inputs.gradient_sum = GradientSum::invariant;
  inputs.grid_rows = 16;
  const std::vector<std::array<int64_t, 5>> cells = {{8, 40, 32, 2, 1}, {8, 40, 32, 2, 1},  {16, 16, 0, 2, 1},
                                                     {16, 16, 0, 2, 1}, {16, 32, 16, 2, 1}, {16, 32, 16, 2, 1}};
  const std::vector<std::vector<int64_t>> lengths = {{40}, {}};
  EXPECT_EQ(entry_shapes(inputs, bucket_of(inputs, lengths, ShardingRule::contiguous)), cells);
  const Tile below{.q_begin = 16, .q_length = 24, .head_begin = 2, .heads = 2, .member = MemberId{1}};
  const Tile all{.q_begin = 0, .q_length = 40, .head_begin = 0, .heads = 4, .member = MemberId{1}};
  for (const Tile& tile : {below, all})
    EXPECT_EQ(entry_shapes(inputs, bucket_of(inputs, lengths, ShardingRule::contiguous, {tile})), cells);
  const RankProgram program = program_of(inputs, bucket_of(inputs, lengths, ShardingRule::contiguous), 0);
  EXPECT_EQ(program.grid_rows, 16);
  EXPECT_EQ(program.gradient_sum, GradientSum::invariant);
}

TEST(RankProgram, CellsOfTheGridEndWhereAShardPieceEnds) {
  PlanInputs inputs = pool_inputs(1, 2, {2, 2, 8});
  inputs.gradient_sum = GradientSum::invariant;
  inputs.grid_rows = 16;
  const std::vector<std::array<int64_t, 5>> cells = {{4, 20, 16, 1, 1}, {4, 20, 16, 1, 1},  {8, 40, 32, 1, 1},
                                                     {8, 40, 32, 1, 1}, {12, 32, 20, 1, 1}, {12, 32, 20, 1, 1},
                                                     {16, 16, 0, 1, 1}, {16, 16, 0, 1, 1}};
  EXPECT_EQ(entry_shapes(inputs, bucket_of(inputs, {{40}}, ShardingRule::contiguous)), cells) << "0 .. 20, 20 .. 40";
}

TEST(RankProgram, ProgramsOfAPoolMatchAndGuestsFillTheirStores) {
  SplitMix64 rng{3};
  for (int i = 0; i < 300; ++i) {
    const PlanInputs inputs = random_inputs(rng);
    const BucketPlan bucket = random_bucket(rng, inputs);
    for (size_t mask = 0; mask < inputs.masks.size(); ++mask) {
      std::vector<RankProgram> programs;
      for (int64_t m = 0; m < inputs.members(); ++m)
        programs.push_back(make_rank_program(inputs, bucket, static_cast<int64_t>(mask), MemberId{m}, 7));
      ASSERT_NO_THROW(require_match(programs));
      for (const RankProgram& program : programs) {
        int64_t filled = 0;
        for (const OwnKeys& keys : program.own_keys) filled += keys.rows * keys.heads;
        for (const RoundProgram& round : program.rounds)
          for (const ReceiveKeys& keys : round.receive_keys) filled += keys.rows * keys.heads;
        ASSERT_EQ(filled, program.arena_cells);
      }
    }
  }
}

TEST(RankProgram, AMaskOrMemberThatDoesNotExistIsRefused) {
  const PlanInputs inputs = pool_inputs(1, 1, {1, 1, 4});
  const BucketPlan bucket = bucket_of(inputs, {{4}}, ShardingRule::contiguous);
  EXPECT_THROW(make_rank_program(inputs, bucket, 1, MemberId{0}, 0), InputError);
  EXPECT_THROW(make_rank_program(inputs, bucket, 0, MemberId{1}, 0), InputError);
  EXPECT_THROW(make_rank_program(inputs, bucket, -1, MemberId{-1}, 0), InputError);
}

/// A program with at least one element in every list.
RankProgram full_program() {
  RankProgram program;
  program.step = 5;
  program.micro_step = 2;
  program.pool = 1;
  program.member = MemberId{3};
  program.members = 4;
  program.mask = {MaskKind::sliding_window, 9, 2};
  program.heads = {8, 4, 16};
  program.rows = 100;
  program.grid_rows = 512;
  program.gradient_sum = GradientSum::invariant;
  program.arena_cells = 77;
  program.own_keys = {{1, 2, 3, 4, 5, 6}};
  RoundProgram round;
  round.queries_move = round.key_gradients_move = true;
  round.send_queries = {{1, 2, 3, 4, 5, 6}};
  round.receive_queries = {{1, 2, 3}, {4, 5, 6}};
  round.send_keys = {{6, 5, 4, 3, 2, 1}};
  round.receive_keys = {{1, 2, 3, 4, 5, 6}};
  round.entries = {{Store::foreign, 1, 2, 3, 4, Store::local, 5, 6, 7, 8, 9, -10}};
  program.rounds = {round, {}};
  return program;
}

TEST(RankProgramWords, AreReadAsTheyWereWritten) {
  EXPECT_EQ(decode_rank_program(encode(full_program())), full_program());
  EXPECT_EQ(decode_rank_program(encode(RankProgram{})), RankProgram{});
  SplitMix64 rng{4};
  for (int i = 0; i < 50; ++i) {
    const PlanInputs inputs = random_inputs(rng);
    const BucketPlan bucket = random_bucket(rng, inputs);
    for (int64_t m = 0; m < inputs.members(); ++m) {
      const RankProgram program = make_rank_program(inputs, bucket, 0, MemberId{m}, i);
      ASSERT_EQ(decode_rank_program(encode(program)), program);
    }
  }
}

TEST(RankProgramWords, BeginWithMagicNumberAndVersion) {
  const std::vector<int64_t> words = encode(full_program());
  EXPECT_EQ(words[0], RankProgram::magic);
  EXPECT_EQ(words[1], RankProgram::version);
  for (const size_t place : {0, 1})
    for (const int64_t change : {-1, 1}) {
      std::vector<int64_t> broken = words;
      broken[place] += change;
      EXPECT_THROW(decode_rank_program(broken), FormatError);
    }
}

TEST(RankProgramWords, AreRefusedWhenTruncatedAnywhereOrLeftOver) {
  std::vector<int64_t> words = encode(full_program());
  for (size_t length = 0; length < words.size(); ++length)
    EXPECT_THROW(decode_rank_program(std::span(words).first(length)), FormatError) << length;
  words.push_back(0);
  EXPECT_THROW(decode_rank_program(words), FormatError);
}

TEST(RankProgramWords, OfCountsFlagsAndNamesOutOfRangeAreRefused) {
  const std::vector<int64_t> words = encode(full_program());
  // Header: mask kind at word 7, gradient sum at 15, kept or not at 16, number of own keys at 19; rounds begin at 27
  // with their three flags.
  for (const size_t place : {7, 15, 16, 19, 26, 27, 28, 29})
    for (const int64_t value : {int64_t{-1}, int64_t{1} << 40}) {
      std::vector<int64_t> broken = words;
      broken[place] = value;
      EXPECT_THROW(decode_rank_program(broken), FormatError) << place;
    }
}

TEST(RankProgramWords, SayWhichWordIsWrong) {
  std::vector<int64_t> words = encode(full_program());
  words[1] = 3;
  try {
    decode_rank_program(words);
    FAIL() << "accepted";
  } catch (const FormatError& error) {
    EXPECT_STREQ(
        error.what(),
        "version 3 is not 2, word 1 of a rank program: pass the words of encode() unchanged, between equal versions");
  }
}

}  // namespace
}  // namespace equipoise
