#pragma once

#include <span>
#include <vector>

#include "equipoise/model/rank_program.h"

namespace equipoise {

// The kernel entries of one round as few calls of a variable-length attention kernel. Such a call takes the rows of
// many sequences one after another, and their keys likewise. It has one number of query heads and of KV heads, and
// aligns its mask bottom right: the last row of a sequence stands at its last key.

/// Rows of some heads in a store of a rank program: row i of head h is cell + i * row_stride + h * head_stride.
struct PlacedCells {
  Store store = Store::local;
  int64_t cell = 0;
  int64_t row_stride = 0;
  int64_t head_stride = 0;  ///< 0 with one head
  int64_t rows = 0;
  int64_t heads = 0;
  bool operator==(const PlacedCells&) const = default;
};

/// Rows, and the keys that any of them sees. Both are at least one, and each row sees a key.
struct VarlenSequence {
  PlacedCells queries;
  PlacedCells keys;
  bool operator==(const VarlenSequence&) const = default;
};

/// One call. All sequences have equal numbers of heads; no two share a key. What lies in place is one unbroken view of
/// a store, from the first cell of the first sequence; what does not has to be gathered.
struct VarlenCall {
  std::vector<VarlenSequence> sequences;
  bool queries_in_place = false;
  bool keys_in_place = false;
  bool operator==(const VarlenCall&) const = default;
};

struct VarlenPlan {
  std::vector<VarlenCall> calls;
  std::vector<PlacedCells> blind;  ///< rows that see no key and are in no call
  bool operator==(const VarlenPlan&) const = default;
};

/// So many rows that lie in place are not worth a copy to spare a call: an estimate from the bandwidth of a GPU and the
/// time to launch a kernel, not measured.
inline constexpr int64_t rows_worth_a_call = 2048;

/// Plans the calls of one round. Own rows keep their heads together; guests are folded, each KV head a sequence of its
/// own, so that all tiles of one group size fit in one call. Sequences that share keys go to different calls (the first
/// pieces of every document, then the second ones), so that no call copies a prefix twice. Within those, runs in place
/// of at least rows_worth_a_call rows are calls of their own, all else is one.
/// Requires diagonal + rows <= keys but for the full mask, as in every valid program: no row stands behind the last
/// key. Order: (query heads, KV heads, slot, key). Cost: O(n log n + n * calls) in sequences.
VarlenPlan plan_varlen(const Mask& mask, std::span<const KernelEntry> entries);

}  // namespace equipoise
