#include "equipoise/exchange/loopback.h"

#include <initializer_list>
#include <limits>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/exchange/cells.h"
#include "equipoise/exchange/program_match.h"
#include "equipoise/exchange/reference_kernel.h"
#include "equipoise/model/workload.h"

// All members run a round side by side: each packs its wires, takes what was sent to it, computes, and sends results
// back. Members share nothing but the wires, so a wrong list gives a wrong result here as it would between real ranks.
// What has not arrived is NaN.

namespace equipoise {
namespace {

constexpr double not_arrived = std::numeric_limits<double>::quiet_NaN();

enum class Kind { query, key };

/// A tensor whose rows travel.
struct Field {
  std::vector<double> LoopbackTensors::* tensor;
  Kind kind;
  bool one_number = false;  // a cell is D numbers, or one
};

constexpr Field q{&LoopbackTensors::q, Kind::query}, out{&LoopbackTensors::out, Kind::query},
    lse{&LoopbackTensors::lse, Kind::query, true}, grad_out{&LoopbackTensors::grad_out, Kind::query},
    dq{&LoopbackTensors::dq, Kind::query}, k{&LoopbackTensors::k, Kind::key}, v{&LoopbackTensors::v, Kind::key},
    dk{&LoopbackTensors::dk, Kind::key}, dv{&LoopbackTensors::dv, Kind::key};
using Fields = std::initializer_list<Field>;

struct Member {
  const RankProgram& program;
  LoopbackTensors& own;
  LoopbackTensors foreign;  // guest queries of a round, and the key arena

  int64_t id() const { return program.member.value; }
  int64_t width(const Field& field) const { return field.one_number ? 1 : program.heads.size; }
};
using Members = std::vector<Member>;

/// Numbers under way, in the order in which they were packed.
struct Wire {
  std::vector<double> numbers;
  size_t taken = 0;
};

/// A wire for each ordered pair of members, for one trip.
struct Wires {
  explicit Wires(const Members& all) : members(std::ssize(all)), pairs(all.size() * all.size()) {}
  Wire& between(int64_t from, int64_t to) { return pairs[from * members + to]; }

  int64_t members;
  std::vector<Wire> pairs;
};

/// Cells that travel between a member's store and a peer.
struct Block {
  int64_t peer = 0;
  Cells cells;
  int64_t return_round = 0;
};

Cells own_cells(const Member& member, Kind kind, Range rows, Range heads) {
  const int64_t all = kind == Kind::query ? member.program.heads.query : member.program.heads.kv;
  return {rows.begin * all + heads.begin, all, 1, rows.length, heads.length};
}

/// Blocks of own rows that leave in a round, and come back in another.
std::vector<Block> sent_blocks(const Member& member, int64_t r, Kind kind) {
  const RoundProgram& round = member.program.rounds[r];
  std::vector<Block> blocks;
  for (const SendBlock& block : kind == Kind::query ? round.send_queries : round.send_keys)
    blocks.push_back({block.peer,
                      own_cells(member, kind, {block.first_row, block.rows}, {block.head_begin, block.heads}),
                      block.return_round});
  return blocks;
}

/// Their places at the receiver, in the foreign store.
std::vector<Block> received_blocks(const Member& member, int64_t r, Kind kind) {
  const RoundProgram& round = member.program.rounds[r];
  std::vector<Block> blocks;
  if (kind == Kind::key)
    for (const ReceiveKeys& block : round.receive_keys)
      blocks.push_back({block.peer, {block.cell, 1, block.head_stride, block.rows, block.heads}, block.return_round});
  int64_t cell = 0;
  if (kind == Kind::query)
    for (const ReceiveQueries& block : round.receive_queries) {
      blocks.push_back({block.peer, {cell, block.heads, 1, block.rows, block.heads}, r});
      cell += block.rows * block.heads;
    }
  return blocks;
}

/// Of the blocks of all rounds up to r, those whose results return in round r.
template <class BlocksOf>
std::vector<Block> returning_blocks(const Member& member, int64_t r, Kind kind, BlocksOf blocks_of) {
  std::vector<Block> blocks;
  for (int64_t sent = 0; sent <= r; ++sent)
    for (const Block& block : blocks_of(member, sent, kind))
      if (block.return_round == r) blocks.push_back(block);
  return blocks;
}

void pack(Wire& wire, std::vector<double>& store, const Cells& cells, int64_t width) {
  for_each_cell(cells, [&](int64_t cell) {
    const std::span<double> numbers = cell_at(store, cell, width);
    wire.numbers.insert(wire.numbers.end(), numbers.begin(), numbers.end());
  });
}

/// Puts the next cells of the wire in place, or adds them to what is there.
void unpack(Wire& wire, std::vector<double>& store, const Cells& cells, int64_t width, bool add) {
  for_each_cell(cells, [&](int64_t cell) {
    for (double& number : cell_at(store, cell, width)) {
      EQ_ASSERT(wire.taken < wire.numbers.size());
      const double arrived = wire.numbers[wire.taken++];
      number = add ? number + arrived : arrived;
    }
  });
}

/// Ends a trip: everything that was packed has been taken.
void close(const Wires& wires) {
  for (const Wire& wire : wires.pairs) EQ_ASSERT(wire.taken == wire.numbers.size());
}

void dispatch(Members& members, int64_t r, Fields fields) {
  Wires wires(members);
  for (Member& member : members)
    for (const Field& field : fields)
      for (const Block& block : sent_blocks(member, r, field.kind))
        pack(wires.between(member.id(), block.peer), member.own.*field.tensor, block.cells, member.width(field));
  for (Member& member : members)
    for (const Field& field : fields)
      for (const Block& block : received_blocks(member, r, field.kind))
        unpack(wires.between(block.peer, member.id()), member.foreign.*field.tensor, block.cells, member.width(field),
               false);
  close(wires);
}

void send_back(Members& members, Wires& wires, int64_t r, Fields fields) {
  for (Member& member : members)
    for (const Field& field : fields)
      for (const Block& block : returning_blocks(member, r, field.kind, received_blocks))
        pack(wires.between(member.id(), block.peer), member.foreign.*field.tensor, block.cells, member.width(field));
}

void return_queries(Members& members, int64_t r, Fields fields) {
  Wires wires(members);
  send_back(members, wires, r, fields);
  for (Member& member : members)
    for (const Field& field : fields)
      for (const Block& block : returning_blocks(member, r, field.kind, sent_blocks))
        unpack(wires.between(block.peer, member.id()), member.own.*field.tensor, block.cells, member.width(field),
               false);
  close(wires);
}

/// Sums gradients of keys at their owner: after its own ones those of the peers, by member, each in the order in which
/// they were sent back.
void add_key_gradients(Member& owner, Wires& wires, Fields fields) {
  for (int64_t peer = 0; peer < owner.program.members; ++peer)
    for (int64_t r = 0; r < std::ssize(owner.program.rounds); ++r)
      for (const Field& field : fields)
        for (const Block& block : returning_blocks(owner, r, field.kind, sent_blocks))
          if (block.peer == peer)
            unpack(wires.between(peer, owner.id()), owner.own.*field.tensor, block.cells, owner.width(field), true);
}

void open_guests(Members& members, int64_t r, Fields fields, double value) {
  for (Member& member : members) {
    int64_t cells = 0;
    for (const ReceiveQueries& block : member.program.rounds[r].receive_queries) cells += block.rows * block.heads;
    for (const Field& field : fields) (member.foreign.*field.tensor).assign(cells * member.width(field), value);
  }
}

void open_arena(Members& members, Fields fields, double value) {
  for (Member& member : members)
    for (const Field& field : fields)
      (member.foreign.*field.tensor).assign(member.program.arena_cells * member.width(field), value);
}

/// Carries own keys to their places in the arena, or the gradients there back to the own ones.
void copy_own_keys(Member& member, Fields fields, bool gradients) {
  for (const Field& field : fields)
    for (const OwnKeys& keys : member.program.own_keys) {
      const Cells own = own_cells(member, field.kind, {keys.first_row, keys.rows}, {keys.head_begin, keys.heads});
      const Cells arena{keys.cell, 1, keys.head_stride, keys.rows, keys.heads};
      std::vector<double>& own_store = member.own.*field.tensor;
      std::vector<double>& arena_store = member.foreign.*field.tensor;
      Wire wire;
      pack(wire, gradients ? arena_store : own_store, gradients ? arena : own, member.width(field));
      unpack(wire, gradients ? own_store : arena_store, gradients ? own : arena, member.width(field), gradients);
    }
}

void require_size(const Member& member, const Field& field, const char* name) {
  const Heads& heads = member.program.heads;
  const int64_t cells = member.program.rows * (field.kind == Kind::query ? heads.query : heads.kv);
  const int64_t expected = cells * member.width(field);
  const int64_t size = std::ssize(member.own.*field.tensor);
  if (size != expected)
    throw InputError(std::string(name) + " has " + std::to_string(size) + " numbers",
                     "tensors of member " + std::to_string(member.id()), "give " + std::to_string(expected));
}

/// Checks all arguments of a pass before it begins.
Members make_members(std::span<const RankProgram> programs, std::span<LoopbackTensors> tensors) {
  require_match(programs);
  if (programs.size() != tensors.size())
    throw InputError(std::to_string(tensors.size()) + " sets of tensors are given", "loopback",
                     "give one for each of the " + std::to_string(programs.size()) + " programs");
  Members members;
  for (size_t m = 0; m < programs.size(); ++m) members.push_back({programs[m], tensors[m], {}});
  for (const Member& member : members) {
    require_size(member, q, "q");
    require_size(member, k, "k");
    require_size(member, v, "v");
  }
  return members;
}

template <class Kernel>
void compute(Members& members, int64_t r, double scale, Kernel kernel) {
  for (Member& member : members)
    for (const KernelEntry& entry : member.program.rounds[r].entries)
      kernel(entry, member.program, scale, Stores{&member.own, &member.foreign});
}

}  // namespace

void loopback_forward(std::span<const RankProgram> programs, double scale, std::span<LoopbackTensors> tensors) {
  Members members = make_members(programs, tensors);
  open_arena(members, {k, v}, not_arrived);
  for (Member& member : members) {
    const int64_t cells = member.program.rows * member.program.heads.query;
    member.own.out.assign(cells * member.program.heads.size, 0.0);
    member.own.lse.assign(cells, -std::numeric_limits<double>::infinity());
    copy_own_keys(member, {k, v}, false);
  }
  for (int64_t r = 0; !programs.empty() && r < std::ssize(programs.front().rounds); ++r) {
    open_guests(members, r, {q, out, lse}, not_arrived);
    dispatch(members, r, {q, k, v});
    compute(members, r, scale, attend);
    return_queries(members, r, {out, lse});
  }
}

void loopback_backward(std::span<const RankProgram> programs, double scale, std::span<LoopbackTensors> tensors) {
  Members members = make_members(programs, tensors);
  open_arena(members, {k, v}, not_arrived);
  open_arena(members, {dk, dv}, 0.0);
  for (Member& member : members) {
    require_size(member, out, "out");
    require_size(member, lse, "lse");
    require_size(member, grad_out, "grad_out");
    member.own.dq.assign(member.own.q.size(), 0.0);
    member.own.dk.assign(member.own.k.size(), 0.0);
    member.own.dv.assign(member.own.v.size(), 0.0);
    copy_own_keys(member, {k, v}, false);
  }
  Wires gradients(members);
  for (int64_t r = 0; !programs.empty() && r < std::ssize(programs.front().rounds); ++r) {
    open_guests(members, r, {q, out, grad_out, lse}, not_arrived);
    open_guests(members, r, {dq}, 0.0);
    dispatch(members, r, {q, k, v, out, grad_out, lse});
    compute(members, r, scale, attend_backward);
    return_queries(members, r, {dq});
    send_back(members, gradients, r, {dk, dv});
  }
  for (Member& member : members) {
    copy_own_keys(member, {dk, dv}, true);
    add_key_gradients(member, gradients, {dk, dv});
  }
  close(gradients);
}

}  // namespace equipoise
