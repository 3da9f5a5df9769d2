#pragma once

#include <utility>
#include <vector>

#include "equipoise/model/document.h"
#include "equipoise/model/exchange.h"
#include "equipoise/model/sequence.h"
#include "equipoise/model/shard.h"
#include "equipoise/model/slot.h"
#include "equipoise/model/tile.h"

namespace equipoise {

/// A document, or a piece of a split one, that arrived and waits.
struct Held {
  DocId document;
  int64_t begin_tokens = 0;
  int64_t length_tokens = 0;
  int64_t since_step = 0;
  int64_t queue =
      -1;  ///< `wlb`: its outlier queue; `fixed`: the sequence it is planned for, from the next step on; -1: none
  bool operator==(const Held&) const = default;
};

/// All that packing remembers between steps. Small, and independent of cp and of loader workers.
struct PackerState {
  static constexpr int64_t version = 1;
  int64_t step = 0;            ///< the next step
  int64_t position = 0;        ///< the next position of the arrival order
  int64_t arrived_tokens = 0;  ///< of all documents so far, after the over-long policy
  std::vector<Held> held;
  bool operator==(const PackerState&) const = default;
};

/// Tokens that are not trained, by document: never silent.
struct Untrained {
  std::vector<std::pair<DocId, int64_t>> dropped;
  std::vector<std::pair<DocId, int64_t>> truncated;  ///< tokens cut from the end
  bool operator==(const Untrained&) const = default;
};

/// How far from balanced a level is: heaviest over mean, in parts per million, and what no solution can beat.
struct Balance {
  int64_t imbalance_ppm = 0;
  int64_t lower_bound_ppm = 0;
  bool operator==(const Balance&) const = default;
};

/// The global part of one optimizer step: which documents, in which sequences, in which slots.
/// Invariant: held before + arrived = trained + untrained + held after.
struct StepPlan {
  int64_t step = 0;
  uint64_t inputs_hash = 0;
  std::pair<int64_t, int64_t> arrived = {0, 0};  ///< [first, end) positions of the arrival order
  std::vector<Document> documents;  ///< all that arrived or were held before, by position then; lengths as in the input
  std::vector<Sequence> sequences;  ///< exactly M
  std::vector<Slot> slots;          ///< by sequence
  std::vector<Bucket> buckets;      ///< by (micro_step, pool)
  Untrained untrained;
  PackerState state_after;
  int64_t loss_tokens = 0;  ///< planned targets of the step
  Balance micro_batches;    ///< work of sequences, M of them
  Balance pools;            ///< work that pools wait for, by dp_sync: of their whole step, or of each micro-step
  bool operator==(const StepPlan&) const = default;
};

/// Attention of one mask in one bucket.
struct LayerPlan {
  std::vector<Tile> tiles;
  Exchange exchange;
  bool operator==(const LayerPlan&) const = default;
};

/// What happens in one bucket: made on demand, for one pool. Holds copies of its sequences, so that it can be read
/// alone.
struct BucketPlan {
  Bucket bucket;
  std::vector<Sequence> sequences;  ///< by replica in pool
  std::vector<Sharding> shardings;  ///< by replica in pool
  std::vector<LayerPlan> layers;    ///< by mask
  bool operator==(const BucketPlan&) const = default;
};

}  // namespace equipoise
