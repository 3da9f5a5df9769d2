#pragma once

#include <functional>
#include <string>
#include <vector>

#include "equipoise/model/rank_program.h"
#include "torch_ext/stores.h"

namespace equipoise {

// What travels in a round: blocks of cells to and from peers, packed into one wire of bytes each way, in the order of
// the rank program.

/// A block [rows, heads, E] for or from a peer.
struct Block {
  int64_t peer = 0;
  at::Tensor cells;     ///< a view of where it is, or of where it goes
  at::ScalarType wire;  ///< the type in which it travels
  bool add = false;     ///< received: added to what is there, words as exact sums; else put there
};

/// A list of blocks in order of (peer, time of adding).
class Blocks {
 public:
  void add(int64_t peer, const at::Tensor& cells) { add({peer, cells, cells.scalar_type(), false}); }
  void add(Block block);
  const std::vector<Block>& sorted() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

/// Own rows that go out, of a store with `heads_of_store` heads; and where their results return to.
void add_sent(Blocks& blocks, const std::vector<SendBlock>& sends, const at::Tensor& store, int64_t heads_of_store);
/// Guest rows that come in, and whose results go back.
void add_guests(Blocks& blocks, const std::vector<ReceiveQueries>& receives, const at::Tensor& store);
/// Keys or values that come in.
void add_keys(Blocks& blocks, const std::vector<ReceiveKeys>& receives, const at::Tensor& store);

/// Where a collective stands in the run: what its errors say.
struct Line {
  std::string group;       ///< name of the process group
  const char* collective;  ///< "dispatch" or "return"
  const char* pass;        ///< "forward" or "backward"
  const RankProgram& program;
};

/// An exchange under way, or none.
struct Transfer {
  std::function<void()> finish;  ///< waits, then puts what came where it goes; empty: nothing to wait for
};

/// What goes out and comes in, and the wires of exactly as many bytes.
struct Freight {
  Blocks send;
  Blocks receive;
  at::Tensor out;  ///< uint8
  at::Tensor in;   ///< uint8
  at::Tensor sum;  ///< uint8, room for one block that is added in a larger type than it travels in
};

/// Packs what goes out and starts the all-to-all. Views and wires must live until it is finished.
/// Errors: std::runtime_error with the communicator's text and own rank, step, micro-step, round, collective, peers,
/// here or in finish().
Transfer start_transfer(const Line& line, int64_t round, const Freight& freight);

}  // namespace equipoise
