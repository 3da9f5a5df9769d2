#include <gtest/gtest.h>

#include "equipoise/verify/verify.h"

// Rank programs, written by hand: member 0 owns a document of 4 tokens, member 1 one of 2. One head. Member 0 gives its
// last 2 rows to member 1, which needs keys 0 to 3 for them.

namespace equipoise {
namespace {

using Rules = std::vector<std::string>;

Rules rules(const Violations& found) {
  Rules names;
  for (const Violation& violation : found)
    if (names.empty() || names.back() != violation.rule) names.push_back(violation.rule);
  return names;
}

KernelEntry home(int64_t rows) {
  return {
      .q_row_stride = 1, .rows = rows, .heads = 1, .k_row_stride = 1, .k_head_stride = 1, .keys = rows, .kv_heads = 1};
}

KernelEntry guest() {
  KernelEntry entry = home(2);
  entry.q_store = entry.k_store = Store::foreign;
  entry.keys = 4;
  entry.diagonal = 2;
  return entry;
}

std::vector<RankProgram> two_programs() {
  std::vector<RankProgram> programs(2);
  for (int64_t member = 0; member < 2; ++member) {
    programs[member].member = MemberId{member};
    programs[member].members = 2;
    programs[member].rows = member == 0 ? 4 : 2;
    programs[member].rounds.resize(2);
    programs[member].rounds[0].entries = {home(2)};
    RoundProgram& round = programs[member].rounds[1];
    round.queries_move = round.keys_move = round.key_gradients_move = true;
  }
  programs[0].rounds[1].send_queries = {{1, 2, 2, 0, 1, 1}};
  programs[0].rounds[1].send_keys = {{1, 0, 4, 0, 1, 1}};
  programs[1].rounds[1].receive_queries = {{0, 2, 1}};
  programs[1].rounds[1].receive_keys = {{0, 4, 1, 0, 4, 1}};
  programs[1].rounds[1].entries = {guest()};
  programs[1].arena_cells = 4;
  return programs;
}

/// The plan that these programs were made from.
struct Plan {
  PlanInputs inputs;
  BucketPlan bucket;

  Plan() {
    inputs.mesh.dp = inputs.pool = 2;
    bucket.sequences = {{{{DocId{0}, 0, 4}}}, {{{DocId{1}, 0, 2}}}};
    bucket.shardings = {{ShardingRule::contiguous, {{0, 0, 4, 0}}}, {ShardingRule::contiguous, {{0, 0, 2, 0}}}};
    bucket.layers = {{{{0, 0, 2, 2, 0, 1, MemberId{1}, 1}},
                      {{{1, MemberId{0}, MemberId{1}, {0, 0, 2, 2, 0, 1}, 1}},
                       {{1, MemberId{0}, MemberId{1}, {0, 0, 0, 4, 0, 1}, 1}},
                       2}}};
  }
  Rules rules_of(const std::vector<RankProgram>& programs) const {
    return rules(check_bucket_programs(inputs, bucket, 0, programs));
  }
};

TEST(CheckProgram, AcceptsProgramsThatAgree) {
  const std::vector<RankProgram> programs = two_programs();
  const Plan plan;
  EXPECT_EQ(rules(check_program(programs[0])), Rules{});
  EXPECT_EQ(rules(check_program(programs[1])), Rules{});
  EXPECT_EQ(rules(check_program_set(programs)), Rules{});
  EXPECT_EQ(rules(check_exchange(plan.inputs, plan.bucket, 0)), Rules{});
  EXPECT_EQ(plan.rules_of(programs), Rules{});
}

TEST(CheckProgram, EveryRowIsComputedOnce) {
  RankProgram program = two_programs()[0];
  program.rounds[0].entries[0] = home(3);
  EXPECT_EQ(rules(check_program(program)), Rules{"row computed twice"});
  program.rounds[0].entries[0] = home(1);
  EXPECT_EQ(rules(check_program(program)), Rules{"row never computed"});
}

TEST(CheckProgram, EveryGuestRowIsComputedOnce) {
  RankProgram program = two_programs()[1];
  program.rounds[1].entries.push_back(guest());
  EXPECT_EQ(rules(check_program(program)), Rules{"row computed twice"});
  program.rounds[1].entries.clear();
  EXPECT_EQ(rules(check_program(program)), Rules{"row never computed"});
}

TEST(CheckProgram, AnEntryReadsOnlyCellsThatHoldSomething) {
  RankProgram program = two_programs()[1];
  program.rounds[1].receive_keys[0] = {0, 3, 1, 0, 4, 1};
  EXPECT_EQ(rules(check_program(program)), Rules{"arena cell filled"});
  program.arena_cells = 3;
  EXPECT_EQ(rules(check_program(program)), Rules{"arena in range"});
  program = two_programs()[1];
  program.own_keys = {{0, 1, 0, 1, 2, 1}};
  EXPECT_EQ(rules(check_program(program)), Rules{"arena written once"});
}

TEST(CheckProgram, TheDiagonalFollowsFromRowsAndKeys) {
  RankProgram program = two_programs()[1];
  program.rounds[1].entries[0].diagonal = 1;
  EXPECT_EQ(rules(check_program(program)), Rules{"entry shape"});
  program.mask = {MaskKind::full, 0, 1};
  EXPECT_EQ(rules(check_program(program)), Rules{});
  program.mask = {MaskKind::sliding_window, 1, 1};
  EXPECT_EQ(rules(check_program(program)), Rules{"entry shape"});
}

TEST(CheckProgram, HugeNumbersAreRefusedAndDoNotWrap) {
  constexpr int64_t huge = INT64_MAX;
  RankProgram program = two_programs()[0];
  program.rows = huge;
  EXPECT_EQ(rules(check_program(program)), Rules{"header"});
  program = two_programs()[0];
  program.rounds[1].send_queries[0].first_row = huge;
  EXPECT_EQ(rules(check_program(program)), Rules{"block in rows"});
  program = two_programs()[1];
  program.rounds[1].receive_keys[0].cell = huge;
  EXPECT_EQ(rules(check_program(program)), Rules{"arena in range"});
  program = two_programs()[1];
  program.rounds[1].entries[0].q_cell = huge;
  EXPECT_EQ(rules(check_program(program)), Rules{"entry in store"});
}

TEST(CheckProgramSet, EverySendHasItsReceive) {
  std::vector<RankProgram> programs = two_programs();
  programs[1].rounds[1].receive_keys[0].return_round = 0;
  EXPECT_EQ(rules(check_program_set(programs)), Rules{"return round"});
  programs = two_programs();
  programs[0].rounds[1].send_keys[0].rows = 3;
  const Violations found = check_program_set(programs);
  ASSERT_EQ(rules(found), Rules{"send without receive"});
  EXPECT_EQ(found[0].where, "round 1, member 0 to member 1");
  EXPECT_EQ(
      found[0].what,
      "key block 0: sent 3 rows of 1 heads that return in round 1, received 4 rows of 1 heads that return in round 1");
  programs[0].rounds[1].send_keys.clear();
  EXPECT_EQ(rules(check_program_set(programs)), (Rules{"receive without send", "flags agree"}));
}

TEST(CheckProgramSet, AllMembersAgreeOnWhatMoves) {
  std::vector<RankProgram> programs = two_programs();
  programs[0].rounds[0].keys_move = true;
  EXPECT_EQ(rules(check_program_set(programs)), Rules{"flags agree"});
  programs = two_programs();
  programs[1].rounds.emplace_back();
  EXPECT_EQ(rules(check_program_set(programs)), Rules{"rounds agree"});
}

TEST(CheckBucketPrograms, RowsThatNobodyComputesAreNotTakenForPadding) {
  std::vector<RankProgram> programs = two_programs();
  programs[1].rounds[0].entries.clear();  // alone, member 1 could own no row
  EXPECT_EQ(rules(check_program_set(programs)), Rules{});
  EXPECT_EQ(Plan().rules_of(programs), Rules{"row never computed"});
}

TEST(CheckBucketPrograms, KeysLieInTheOrderOfTheDocument) {
  std::vector<RankProgram> programs = two_programs();
  programs[0].rounds[1].send_keys = {{1, 2, 2, 0, 1, 1}, {1, 0, 2, 0, 1, 1}};
  programs[1].rounds[1].receive_keys = {{0, 2, 1, 0, 2, 1}, {0, 2, 1, 2, 2, 1}};
  EXPECT_EQ(rules(check_program_set(programs)), Rules{});
  EXPECT_EQ(Plan().rules_of(programs), Rules{"entry keys"});
  std::swap(programs[1].rounds[1].receive_keys[0].cell, programs[1].rounds[1].receive_keys[1].cell);
  EXPECT_EQ(Plan().rules_of(programs), Rules{});
}

TEST(CheckBucketPrograms, ProgramsComputeWhatTheTilesGiveThem) {
  Plan plan;
  plan.bucket.layers[0].tiles[0].q_begin = 3;
  plan.bucket.layers[0].tiles[0].q_length = 1;
  EXPECT_EQ(plan.rules_of(two_programs()), Rules{"tile followed"});
}

}  // namespace
}  // namespace equipoise
