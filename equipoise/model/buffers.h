#pragma once

#include <vector>

#include "equipoise/model/cost_table.h"
#include "equipoise/model/rank_program.h"

namespace equipoise {

// What a rank program needs beside its arguments and results: the operator allocates exactly this, and plans are held
// to it. It is two blocks of memory. One belongs to a pass and is used again by the next; all of it is live at once,
// since two rounds are. The other, only with keep_received, is filled by a forward and read by its backward.
//
// Not exchange buffers: arguments and results of the operator (q, k, v, out, log-sum-exp and their gradients), copies
// of arguments that are not contiguous, what a kernel or a communicator allocates for itself.

inline constexpr int64_t buffer_alignment = 64;  ///< bytes; kernels give other bits on other alignments
inline constexpr int64_t wire_alignment = 8;     ///< bytes; of a block on a wire, so that every type is aligned

/// Bytes of one number.
struct NumberBytes {
  int64_t element = 2;    ///< of q, k, v, outputs and gradients
  int64_t statistic = 4;  ///< of a log-sum-exp, and of sums of gradients of keys
  bool operator==(const NumberBytes&) const = default;
};

/// Of the type that a plan was made for.
constexpr NumberBytes number_bytes(const CostTable& cost) { return {cost.element_bytes, cost.statistic_bytes}; }

enum class Pass { forward, backward };

/// A part of one of the two blocks. Without bytes: not needed.
struct Buffer {
  bool kept = false;   ///< in the block that lives from forward to backward, else in that of the pass
  int64_t offset = 0;  ///< bytes, a multiple of buffer_alignment
  int64_t bytes = 0;   ///< exactly what is used of it
  bool operator==(const Buffer&) const = default;
};

/// All that goes to and comes from all peers in one exchange, peer by peer.
struct WireBuffers {
  Buffer send;
  Buffer receive;
};

/// Buffers of one round. Those of a round and of the next but one are the same memory.
struct RoundBuffers {
  Buffer q, out, lse, grad_out, dq;  ///< guest queries, guest_cells() cells each
  WireBuffers dispatch;              ///< live until the round is computed
  WireBuffers give_back;             ///< live until the next round gives back; all rounds share one memory
};

/// Buffers of one pass.
struct PassBuffers {
  Buffer k, v, dk, dv;    ///< key arena; gradients are sums: statistics, or exact (model/gradient_sum.h)
  Buffer returned;        ///< one block of returned dk or dv as statistics, where it travels in a smaller type
  Buffer own_dk, own_dv;  ///< sums over own rows, where results are of another type and cannot hold them
  std::vector<RoundBuffers> rounds;
  int64_t pass_bytes = 0;
  int64_t kept_bytes = 0;  ///< the same in both passes
};

/// Cells that a member receives as queries in a round.
int64_t guest_cells(const RoundProgram& round);

/// Bytes of `cells` cells of `cell_bytes` each as one block of a wire.
constexpr int64_t wire_bytes(int64_t cells, int64_t cell_bytes) {
  return (cells * cell_bytes + wire_alignment - 1) / wire_alignment * wire_alignment;
}

/// Requires a program in which verify/ finds nothing. Cost: O(blocks). Errors: InputError where the buffers pass 2^60
/// bytes.
PassBuffers lay_out_buffers(const RankProgram& program, const NumberBytes& bytes, Pass pass);

/// What a member holds for a program: the operator takes this much in both passes.
struct HeldBytes {
  int64_t pass = 0;  ///< of the larger pass; given up after each
  int64_t kept = 0;  ///< from a forward to its backward, for each layer and micro-batch in flight
};

HeldBytes buffer_bytes(const RankProgram& program, const NumberBytes& bytes);

}  // namespace equipoise
