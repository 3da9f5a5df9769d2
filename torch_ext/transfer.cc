// A wire is the blocks of each peer one after another, each rounded up to 8 bytes so that every type is aligned. Both
// sides build their lists from matching programs, so no header travels.
#include "torch_ext/transfer.h"

#include <algorithm>
#include <stdexcept>

#include <c10/util/Exception.h>

#include "equipoise/base/errors.h"
#include "equipoise/model/buffers.h"
#include "torch_ext/grid.h"
#include "torch_ext/wire.h"

namespace equipoise {
namespace {

int64_t data_bytes(const Block& block) {
  return block.cells.numel() * static_cast<int64_t>(c10::elementSize(block.wire));
}

int64_t wire_bytes(const Block& block) { return equipoise::wire_bytes(1, data_bytes(block)); }

std::vector<int64_t> bytes_by_peer(const Blocks& blocks, int64_t members) {
  std::vector<int64_t> bytes(members, 0);
  for (const Block& block : blocks.sorted()) bytes[block.peer] += wire_bytes(block);
  return bytes;
}

/// The layout of buffers and the lists of blocks tell of the same wire.
void check_wire(const at::Tensor& wire, const std::vector<int64_t>& bytes) {
  int64_t total = 0;
  for (const int64_t count : bytes) total += count;
  EQ_ASSERT(total == wire.numel());
}

/// Calls visit(block, its place on the wire) for each block.
template <class Visit>
void for_each_place(const Blocks& blocks, const at::Tensor& wire, const Visit& visit) {
  int64_t offset = 0;
  for (const Block& block : blocks.sorted()) {
    const int64_t bytes = data_bytes(block);
    if (bytes > 0) visit(block, wire.narrow(0, offset, bytes).view(block.wire).view(block.cells.sizes()));
    offset += wire_bytes(block);
  }
}

void pack(const Blocks& blocks, const at::Tensor& wire) {
  for_each_place(blocks, wire, [](const Block& block, at::Tensor place) { place.copy_(block.cells); });
}

/// The same numbers in a larger type, in `room`: adding unlike types would allocate.
at::Tensor widened(const at::Tensor& place, at::ScalarType type, const at::Tensor& room) {
  if (place.scalar_type() == type) return place;
  const int64_t bytes = place.numel() * static_cast<int64_t>(c10::elementSize(type));
  return room.narrow(0, 0, bytes).view(type).view(place.sizes()).copy_(place);
}

void unpack(const Blocks& blocks, const at::Tensor& wire, const at::Tensor& room) {
  for_each_place(blocks, wire, [&](const Block& block, const at::Tensor& place) {
    if (!block.add)
      block.cells.copy_(place);
    else if (block.wire == at::kLong)
      merge_exactly(block.cells, place);
    else
      block.cells.add_(widened(place, block.cells.scalar_type(), room));
  });
}

/// The first sentence of a communicator's text, without the source line that Gloo puts before it.
std::string reason_of(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  std::string text = own != nullptr ? own->what_without_backtrace() : error.what();
  if (text.starts_with("[") && text.find("] ") != std::string::npos) text.erase(0, text.find("] ") + 2);
  text.erase(std::min({text.size(), text.find('\n'), text.find(". ")}));
  return text;
}

/// "peer 3" or "peers 1,3": those with whom bytes were exchanged, as global ranks where they are known.
std::string peers_text(const std::vector<int64_t>& send, const std::vector<int64_t>& receive,
                       const std::vector<int64_t>& ranks) {
  std::string list;
  int64_t count = 0;
  for (size_t peer = 0; peer < send.size(); ++peer) {
    if (send[peer] + receive[peer] == 0) continue;
    list += (count++ > 0 ? "," : "") + std::to_string(ranks.empty() ? static_cast<int64_t>(peer) : ranks[peer]);
  }
  if (count == 0) return "no peer with data";
  return (count == 1 ? "peer " : "peers ") + list;
}

/// The message of a failed collective: what, where, remedy.
std::string failure(const Line& line, int64_t round, const std::string& peers, const std::string& reason) {
  const RankProgram& program = line.program;
  const std::vector<int64_t> ranks = find_group(line.group).global_ranks;
  const int64_t member = program.member.value;
  const std::string who = ranks.empty() ? "" : "rank " + std::to_string(ranks[member]) + " = ";
  return std::string(line.collective) + " of attention " + line.pass + " failed (" + reason + "), " + who + "member " +
         std::to_string(member) + " of pool " + std::to_string(program.pool) + ", step " +
         std::to_string(program.step) + ", micro-step " + std::to_string(program.micro_step) + ", round " +
         std::to_string(round) + ", " + peers +
         ": look for the rank that ended first, whose message is the cause, and start again from the last checkpoint";
}

}  // namespace

void Blocks::add(Block block) {
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), block.peer,
                                      [](int64_t peer, const Block& other) { return peer < other.peer; });
  blocks_.insert(after, std::move(block));
}

void add_sent(Blocks& blocks, const std::vector<SendBlock>& sends, const at::Tensor& store, int64_t heads_of_store) {
  for (const SendBlock& block : sends) blocks.add(block.peer, view(store, cells_of(block, heads_of_store)));
}

void add_guests(Blocks& blocks, const std::vector<ReceiveQueries>& receives, const at::Tensor& store) {
  int64_t cell = 0;
  for (const ReceiveQueries& block : receives) {
    blocks.add(block.peer, view(store, {cell, block.heads, 1, block.rows, block.heads}));
    cell += block.rows * block.heads;
  }
}

void add_keys(Blocks& blocks, const std::vector<ReceiveKeys>& receives, const at::Tensor& store) {
  for (const ReceiveKeys& block : receives) blocks.add(block.peer, view(store, cells_of(block)));
}

Transfer start_transfer(const Line& line, int64_t round, const Freight& freight) {
  const std::vector<int64_t> send_bytes = bytes_by_peer(freight.send, line.program.members);
  const std::vector<int64_t> receive_bytes = bytes_by_peer(freight.receive, line.program.members);
  const at::Tensor out = freight.out, in = freight.in;
  check_wire(out, send_bytes);
  check_wire(in, receive_bytes);
  pack(freight.send, out);
  const auto guarded = [=](const auto& call) {
    try {
      return call();
    } catch (const std::exception& error) {
      const std::string peers = peers_text(send_bytes, receive_bytes, find_group(line.group).global_ranks);
      throw std::runtime_error(failure(line, round, peers, reason_of(error)));
    }
  };
  const auto wait = guarded([&] { return start_all_to_all(line.group, out, send_bytes, in, receive_bytes); });
  return {[=, receive = freight.receive, room = freight.sum] {
    guarded(wait);
    unpack(receive, in, room);
  }};
}

}  // namespace equipoise
