#pragma once

#include <vector>

#include "equipoise/model/rank_program.h"
#include "equipoise/verify/report.h"

// What the checkers of rank programs share: where the cells of an entry lie, and how often each row and head is
// computed.

namespace equipoise::verifying {

/// Rows x heads of a store.
struct Rectangle {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t head = 0;
  int64_t heads = 0;
};

/// Rows in which the rectangles do not cover every head exactly once, and the first such head.
struct Uneven {
  Interval rows;
  int64_t head = 0;
  int64_t count = 0;  ///< 0: not covered; 2 or more: covered that often
};

/// All uneven rows among [0, rows) of a store with `heads` heads. Cost: O(rectangles x heads).
std::vector<Uneven> uneven_rows(const std::vector<Rectangle>& rectangles, int64_t rows, int64_t heads);

/// A part of an entry's queries that lies in one place: in the local rows, or in one block of the guest queries.
struct QueryPart {
  int64_t block = -1;     ///< index into receive_queries; -1: local
  Rectangle cells;        ///< in the local rows, or in the block
  int64_t entry_row = 0;  ///< where the part begins in the entry
  int64_t entry_head = 0;
};

/// The parts of an entry's queries, first to last: more than one where it spans blocks that lie together. Empty where a
/// cell is in no store or rows and heads do not lie in its grid.
std::vector<QueryPart> query_parts(const RankProgram& program, const RoundProgram& round, const KernelEntry& entry);

/// Where keys in the member's own tensors lie. Requires k_store == local.
Rectangle local_keys(const RankProgram& program, const KernelEntry& entry);

/// One run of cells in the key arena and where it comes from.
struct ArenaRun {
  Interval cells;
  int64_t round = 0;         ///< from this round on
  int64_t return_round = 0;  ///< to this one
  int64_t block = -1;        ///< index into receive_keys of the round; -1: own keys
  int64_t index = 0;         ///< own: into own_keys
  int64_t head = 0;          ///< of the block
  auto operator<=>(const ArenaRun&) const = default;
};

/// All runs sorted by cell. Requires lists in range.
std::vector<ArenaRun> arena_runs(const RankProgram& program);

/// The runs that hold the cells, first to last; empty where a cell is in none. Requires sorted runs that do not
/// overlap.
std::vector<ArenaRun> find_runs(const std::vector<ArenaRun>& runs, Interval cells);

/// One past the last row that anything in the program names: padding can only lie behind it.
int64_t named_rows(const RankProgram& program);

/// Own rows x query heads that are computed at home or sent away, once for each time.
std::vector<Rectangle> handled_queries(const RankProgram& program);

}  // namespace equipoise::verifying
