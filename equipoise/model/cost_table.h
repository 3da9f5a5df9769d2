#pragma once

#include <string>

#include "equipoise/base/integers.h"

namespace equipoise {

/// One kind of link, per direction and rank.
struct LinkCost {
  int64_t latency_ns = 0;   ///< of one exchange
  int64_t kilobyte_ps = 0;  ///< picoseconds for 1024 bytes
  bool operator==(const LinkCost&) const = default;
};

/// Attention time of one TP rank in one layer, forward: a call costs
///   call_ns + sum over its entries of (entry_ns + heads * (row blocks * block_ps + tiles * tile_ps(keys)) / 1000 +
///   kilobytes * kilobyte_ps / 1000)
/// An entry is a block of query rows against its visible keys; a tile is tile_rows x tile_keys of one query head,
/// partly used tiles count whole.
struct AttentionCost {
  int64_t tile_rows = 128;
  int64_t tile_keys = 128;
  int64_t call_ns = 0;
  int64_t entry_ns = 0;
  int64_t block_ps = 0;
  Curve tile_ps = {{0, 0}};             ///< by keys that the entry sees
  int64_t kilobyte_ps = 0;              ///< queries, keys and values read, outputs written
  Curve backward_ppm = {{0, ppm_one}};  ///< by keys that the entry sees: backward time over forward time
  bool operator==(const AttentionCost&) const = default;
};

/// Everything in a layer that is linear in tokens: projections, MLP, norms, token collectives.
struct LinearCost {
  Curve token_ps = {{0, 0}};  ///< by rows on the rank: picoseconds a row, one layer, forward
  int64_t backward_ppm = 2 * ppm_one;
  bool operator==(const LinearCost&) const = default;
};

/// Predicted time of one model on one machine, all integers, by value: what decides a plan and is hashed with it.
/// Made by make_cost_table() from a model shape and a hardware description.
struct CostTable {
  std::string model;  ///< names, for the record only
  std::string hardware;
  int64_t layers = 1;            ///< of the whole model
  int64_t element_bytes = 2;     ///< of q, k, v and o
  int64_t statistic_bytes = 4;   ///< of one log-sum-exp
  int64_t activation_bytes = 0;  ///< kept per token and layer until its backward
  AttentionCost attention;
  LinearCost linear;
  LinkCost node;     ///< between ranks of one node
  LinkCost network;  ///< between nodes
  bool operator==(const CostTable&) const = default;
};

}  // namespace equipoise
