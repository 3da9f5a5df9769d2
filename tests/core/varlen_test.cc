#include "equipoise/model/varlen.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "equipoise/exchange/program.h"
#include "tests/core/random_plans.h"

namespace equipoise {
namespace {

using Cell = std::pair<Store, int64_t>;
/// The keys that a row of a head sees, in order.
using Seen = std::map<Cell, std::vector<Cell>>;

Cell cell_of(const PlacedCells& cells, int64_t row, int64_t head) {
  return {cells.store, cells.cell + row * cells.row_stride + head * cells.head_stride};
}

bool sees(const Mask& mask, int64_t distance) {
  return mask.kind == MaskKind::full ||
         (distance >= 0 && (mask.kind == MaskKind::causal || distance < mask.window_tokens));
}

void add_seen(Seen& seen, const Mask& mask, const VarlenSequence& sequence, int64_t diagonal) {
  const auto& [queries, keys] = sequence;
  for (int64_t h = 0; h < queries.heads; ++h)
    for (int64_t i = 0; i < queries.rows; ++i) {
      std::vector<Cell>& row = seen[cell_of(queries, i, h)];
      for (int64_t j = 0; j < keys.rows; ++j)
        if (sees(mask, i + diagonal - j)) row.push_back(cell_of(keys, j, h * keys.heads / queries.heads));
    }
}

/// By the entries' own diagonals.
Seen seen_by_entries(const Mask& mask, std::span<const KernelEntry> entries) {
  Seen seen;
  for (const KernelEntry& e : entries)
    add_seen(seen, mask,
             {{e.q_store, e.q_cell, e.q_row_stride, 1, e.rows, e.heads},
              {e.k_store, e.k_cell, e.k_row_stride, e.k_head_stride, e.keys, e.kv_heads}},
             e.diagonal);
  return seen;
}

/// By the calls, aligned bottom right.
Seen seen_by_calls(const Mask& mask, const VarlenPlan& plan) {
  Seen seen;
  for (const VarlenCall& call : plan.calls)
    for (const VarlenSequence& sequence : call.sequences)
      add_seen(seen, mask, sequence, sequence.keys.rows - sequence.queries.rows);
  for (const PlacedCells& rows : plan.blind) add_seen(seen, mask, {rows, {}}, 0);
  return seen;
}

std::vector<Cell> all_cells(const VarlenCall& call, PlacedCells VarlenSequence::* side) {
  std::vector<Cell> cells;
  for (const VarlenSequence& sequence : call.sequences)
    for (int64_t row = 0; row < (sequence.*side).rows; ++row)
      for (int64_t h = 0; h < (sequence.*side).heads; ++h) cells.push_back(cell_of(sequence.*side, row, h));
  return cells;
}

/// What a kernel would read through one view from the first cell.
std::vector<Cell> cells_of_view(const VarlenCall& call, PlacedCells VarlenSequence::* side) {
  VarlenSequence whole = call.sequences.front();
  (whole.*side).rows = 0;
  for (const VarlenSequence& sequence : call.sequences) (whole.*side).rows += (sequence.*side).rows;
  return all_cells({{whole}, true, true}, side);
}

void expect_sound(const Mask& mask, std::span<const KernelEntry> entries) {
  const VarlenPlan plan = plan_varlen(mask, entries);
  EXPECT_EQ(seen_by_calls(mask, plan), seen_by_entries(mask, entries));
  for (const VarlenCall& call : plan.calls) {
    for (const VarlenSequence& sequence : call.sequences) {
      EXPECT_GT(sequence.queries.rows, 0);
      EXPECT_GT(sequence.keys.rows, 0);
      EXPECT_EQ(sequence.queries.heads, call.sequences.front().queries.heads);
      EXPECT_EQ(sequence.keys.heads, call.sequences.front().keys.heads);
      EXPECT_TRUE(mask.kind == MaskKind::full || sequence.keys.rows >= sequence.queries.rows) << "a row without keys";
    }
    std::vector<Cell> keys = all_cells(call, &VarlenSequence::keys);
    for (const auto& [side, in_place] : {std::pair{&VarlenSequence::queries, call.queries_in_place},
                                         std::pair{&VarlenSequence::keys, call.keys_in_place}}) {
      if (in_place) {
        EXPECT_EQ(all_cells(call, side), cells_of_view(call, side));
      }
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end()) << "a key is in a call twice";
  }
}

/// A document of `length` tokens at home, of all of 4 query and 2 KV heads.
KernelEntry home(int64_t row, int64_t length) {
  return {.q_cell = row * 4,
          .q_row_stride = 4,
          .rows = length,
          .heads = 4,
          .k_cell = row * 2,
          .k_row_stride = 2,
          .k_head_stride = 1,
          .keys = length,
          .kv_heads = 2};
}

TEST(Varlen, DocumentsAtHomeAreOneCallInPlace) {
  const VarlenPlan plan = plan_varlen({}, std::vector{home(0, 100), home(100, 1), home(101, 30)});
  ASSERT_EQ(plan.calls.size(), 1U);
  EXPECT_EQ(plan.calls[0].sequences.size(), 3U);
  EXPECT_TRUE(plan.calls[0].queries_in_place);
  EXPECT_TRUE(plan.calls[0].keys_in_place);
  EXPECT_TRUE(plan.blind.empty());
}

TEST(Varlen, AGapIsWorthACallWhereTheRunsAreLong) {
  const auto calls = [](int64_t before, int64_t after) {
    return plan_varlen({}, std::vector{home(0, before), home(before + 50, after)}).calls;
  };
  ASSERT_EQ(calls(100, 200).size(), 1U);
  EXPECT_FALSE(calls(100, 200)[0].queries_in_place || calls(100, 200)[0].keys_in_place);
  ASSERT_EQ(calls(100, rows_worth_a_call).size(), 2U);
  for (const VarlenCall& call : calls(100, rows_worth_a_call)) EXPECT_TRUE(call.queries_in_place && call.keys_in_place);
}

TEST(Varlen, PiecesOfOneDocumentThatShareKeysAreApart) {
  // Rows 30 .. 39 and 70 .. 79 of a document of 80 whose keys lie in the arena, and a whole document at home.
  const auto piece = [](int64_t row, int64_t begin) {
    KernelEntry entry = home(row, 10);
    entry.k_store = Store::foreign;
    entry.k_cell = 0;
    entry.k_row_stride = 1;
    entry.k_head_stride = 80;
    entry.keys = begin + 10;
    entry.diagonal = begin;
    return entry;
  };
  const VarlenPlan plan = plan_varlen({}, std::vector{piece(0, 30), piece(10, 70), home(20, 50)});
  ASSERT_EQ(plan.calls.size(), 2U);
  EXPECT_EQ(plan.calls[0].sequences.size(), 2U) << "the document at home and the first piece";
  ASSERT_EQ(plan.calls[1].sequences.size(), 1U);
  EXPECT_EQ(plan.calls[1].sequences[0].keys, (PlacedCells{Store::foreign, 0, 1, 80, 80, 2}));
  EXPECT_TRUE(plan.calls[1].queries_in_place && plan.calls[1].keys_in_place);
}

TEST(Varlen, GuestsAreOneSequenceForEachKvHead) {
  const KernelEntry wide{.q_store = Store::foreign,
                         .q_row_stride = 4,
                         .rows = 8,
                         .heads = 4,
                         .k_store = Store::foreign,
                         .k_row_stride = 1,
                         .k_head_stride = 20,
                         .keys = 20,
                         .kv_heads = 2,
                         .diagonal = 12};
  KernelEntry narrow = wide;
  narrow.q_cell = 8 * 4;
  narrow.q_row_stride = narrow.heads = 2;
  narrow.k_cell = 40;
  narrow.kv_heads = 1;
  const VarlenPlan plan = plan_varlen({}, std::vector{wide, narrow});
  ASSERT_EQ(plan.calls.size(), 1U);
  const std::vector<VarlenSequence>& sequences = plan.calls[0].sequences;
  ASSERT_EQ(sequences.size(), 3U);
  EXPECT_EQ(sequences[1].queries, (PlacedCells{Store::foreign, 2, 4, 1, 8, 2}));
  EXPECT_EQ(sequences[1].keys, (PlacedCells{Store::foreign, 20, 1, 0, 20, 1}));
  EXPECT_FALSE(plan.calls[0].queries_in_place);
  EXPECT_TRUE(plan.calls[0].keys_in_place) << "heads of the arena lie one after another";
}

TEST(Varlen, RowsWithoutAKeyAndKeysWithoutARowAreCutOff) {
  KernelEntry entry = home(0, 10);
  entry.diagonal = -4;
  const VarlenPlan causal = plan_varlen({}, std::vector{entry});
  EXPECT_EQ(causal.blind, (std::vector<PlacedCells>{{Store::local, 0, 4, 1, 4, 4}}));
  ASSERT_EQ(causal.calls.size(), 1U);
  const VarlenSequence seen{{Store::local, 16, 4, 1, 6, 4}, {Store::local, 0, 2, 1, 6, 2}};
  EXPECT_EQ(causal.calls[0].sequences, std::vector{seen});

  entry = home(0, 10);
  entry.keys = 30;
  entry.diagonal = 15;
  const VarlenPlan window = plan_varlen({MaskKind::sliding_window, 4}, std::vector{entry});
  ASSERT_EQ(window.calls.size(), 1U);
  const VarlenSequence within{{Store::local, 0, 4, 1, 10, 4}, {Store::local, 12 * 2, 2, 1, 13, 2}};
  EXPECT_EQ(window.calls[0].sequences, std::vector{within});

  entry = home(0, 10);
  entry.keys = 0;
  EXPECT_TRUE(plan_varlen({MaskKind::full}, std::vector{entry}).calls.empty());
  EXPECT_EQ(plan_varlen({MaskKind::full}, std::vector{entry}).blind.size(), 1U);
  EXPECT_EQ(plan_varlen({}, {}), VarlenPlan{});
}

TEST(Varlen, CallsSeeWhatTheEntriesOfRandomProgramsSee) {
  size_t calls = 0, entries = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomPlan plan = random_plan(seed, seed % 2 == 1);
    const BucketPlan& bucket = plan.buckets.front();
    for (int64_t member = 0; member < plan.inputs.members(); ++member) {
      const RankProgram program = make_rank_program(plan.inputs, bucket, 0, MemberId{member}, 0);
      for (const RoundProgram& round : program.rounds) {
        expect_sound(program.mask, round.entries);
        calls += plan_varlen(program.mask, round.entries).calls.size();
        entries += round.entries.size();
      }
    }
  }
  EXPECT_LT(3 * calls, 2 * entries);
}

TEST(Varlen, CallsSeeWhatEntriesOfAnyDiagonalSee) {
  SplitMix64 rng(7);
  for (int64_t n = 0; n < 500; ++n) {
    Mask mask{static_cast<MaskKind>(random_between(rng, 0, 2)), 0, 1};
    if (mask.kind == MaskKind::sliding_window) mask.window_tokens = random_between(rng, 1, 20);
    std::vector<KernelEntry> entries;
    for (int64_t row = 0, key = 0, i = random_between(rng, 0, 5); i > 0; --i) {
      KernelEntry entry = home(row, random_between(rng, 1, 20));
      entry.keys = random_between(rng, 0, 30);
      entry.k_cell = key * 2;
      const int64_t most = entry.keys - entry.rows;
      entry.diagonal = mask.kind == MaskKind::full ? random_between(rng, -5, 5) : random_between(rng, most - 9, most);
      row += entry.rows + random_between(rng, 0, 1);
      key += entry.keys + random_between(rng, 0, 1);
      entries.push_back(entry);
    }
    expect_sound(mask, entries);
  }
}

}  // namespace
}  // namespace equipoise
