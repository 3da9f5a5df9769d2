#pragma once

#include <span>
#include <vector>

#include "equipoise/base/ids.h"
#include "equipoise/model/gradient_sum.h"
#include "equipoise/model/heads.h"
#include "equipoise/model/mask.h"

namespace equipoise {

// One member's attention for one (bucket, mask), as plain numbers: all that the operator sees. Everything is counted in
// CELLS: a cell is one row of one head, D elements. A member computes over four stores, each an array of cells:
//   local queries  [T, Hq]   its own q (and o, do, dq): cell = row * Hq + head
//   local keys     [T, Hkv]  its own k and v (and dk, dv): cell = row * Hkv + head
//   guest queries  of one round: blocks received from owners, one after another in the order of receive_queries, each
//   [rows, heads] key arena      keys and values gathered from several places, one block [heads, rows] for each
//   (segment, KV heads) that is not wholly local; lives
//                  through all rounds, and so do its gradients in the backward
//
// A round r, forward:  dispatch  pack and send, peer by peer: queries of send_queries, keys of send_keys, values of
// send_keys
//                      compute   every entry; its output goes where its queries lie, in the local or the guest outputs
//                      return    guest outputs, then their log-sum-exp, peer by peer in the order received; the owner
//                      puts them in place
// backward:            dispatch  queries, keys, values, outputs, output gradients, log-sum-exp; with keep_received
//                      only output gradients
//                      compute   every entry: dq where its queries lie; dk and dv added to the local or the arena
//                      gradients return    guest dq; then dk, dv of all blocks received with return_round == r; the
//                      owner adds them in member order
// Within one peer, blocks go in list order. The exchange of a round is called by all members of the pool or by none
// (the *_move flags).

enum class Store : int64_t { local = 0, foreign = 1 };  ///< foreign: guest queries, key arena

/// Rows of this member that go to a peer. Sorted by (peer, ...) in the same order as the peer's receive list.
struct SendBlock {
  int64_t peer = 0;  ///< member
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t head_begin = 0;  ///< query heads or KV heads
  int64_t heads = 0;
  int64_t return_round = 0;  ///< when its result comes back; queries: the same round
  bool operator==(const SendBlock&) const = default;
};

/// Queries received: the next [rows, heads] cells of the guest queries.
struct ReceiveQueries {
  int64_t peer = 0;
  int64_t rows = 0;
  int64_t heads = 0;
  bool operator==(const ReceiveQueries&) const = default;
};

/// Keys and values received: [rows, heads] on the wire, put into the arena at cell + head * head_stride + row.
struct ReceiveKeys {
  int64_t peer = 0;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t cell = 0;
  int64_t head_stride = 0;
  int64_t return_round = 0;
  bool operator==(const ReceiveKeys&) const = default;
};

/// Own keys that an arena block needs beside received ones: local [first_row .. + rows, head_begin .. + heads] ->
/// arena.
struct OwnKeys {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t head_begin = 0;
  int64_t heads = 0;
  int64_t cell = 0;
  int64_t head_stride = 0;
  bool operator==(const OwnKeys&) const = default;
};

/// One call of the attention kernel: row i of head h against key j of the KV head that serves it.
/// The mask counts from the segment: row i stands `diagonal` keys after key 0 of this entry, so causal shows keys j <=
/// i + diagonal, a sliding window keys i + diagonal - window < j <= i + diagonal, full every key.
struct KernelEntry {
  Store q_store = Store::local;
  int64_t q_cell = 0;        ///< of row 0, head 0; heads are adjacent
  int64_t q_row_stride = 0;  ///< cells
  int64_t rows = 0;
  int64_t heads = 0;  ///< query heads; heads / kv_heads of them share one KV head, in order
  Store k_store = Store::local;
  int64_t k_cell = 0;
  int64_t k_row_stride = 0;
  int64_t k_head_stride = 0;
  int64_t keys = 0;
  int64_t kv_heads = 0;
  int64_t diagonal = 0;
  bool operator==(const KernelEntry&) const = default;
};

struct RoundProgram {
  bool queries_move = false;        ///< any member of the pool sends queries in this round
  bool keys_move = false;           ///< any member sends keys in this round
  bool key_gradients_move = false;  ///< any key block has return_round == this round
  std::vector<SendBlock> send_queries;
  std::vector<ReceiveQueries> receive_queries;
  std::vector<SendBlock> send_keys;
  std::vector<ReceiveKeys> receive_keys;
  std::vector<KernelEntry> entries;
  bool operator==(const RoundProgram&) const = default;
};

struct RankProgram {
  static constexpr int64_t magic = 0x65717569706F6973;  ///< "equipois"
  static constexpr int64_t version = 2;
  int64_t step = 0;  ///< where this is in the run: for messages and traces only
  int64_t micro_step = 0;
  int64_t pool = 0;
  MemberId member;
  int64_t members = 1;
  Mask mask;
  Heads heads;
  int64_t rows = 0;       ///< T of this member, padding included
  int64_t grid_rows = 0;  ///< invariant sums: query rows of a grid cell, each an entry; 0: fast, no grid
  GradientSum gradient_sum = GradientSum::fast;
  bool keep_received = false;  ///< the executor keeps guest q, out, lse and its arena until the backward
  int64_t element_bytes = 0;   ///< of q, k and v where the plan promises memory by it (model/buffers.h); 0: any
  int64_t arena_cells = 0;
  std::vector<OwnKeys> own_keys;
  std::vector<RoundProgram> rounds;
  bool operator==(const RankProgram&) const = default;
};

/// The program as flat words, the only form that crosses into the operator: magic, version, header, then each list with
/// its length in front, in the order of the structs above. bools are 0 or 1.
std::vector<int64_t> encode(const RankProgram& program);

/// Reads what encode() wrote. Throws FormatError for a wrong magic, another version, a count that passes the end, or
/// words left over. Checks the form only; verify/program.h checks that all places are in range.
RankProgram decode_rank_program(std::span<const int64_t> words);

}  // namespace equipoise
