// Backward of one member: queries, keys, values, outputs, their gradients and log-sum-exp go out again, since the
// executor kept nothing; dq comes back with its round, dk and dv with the last round that needs their keys. Sums of dk
// and dv are kept in at least float and rounded once.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "torch_ext/attention.h"
#include "torch_ext/transfer.h"

namespace equipoise {
namespace {

/// All that lives through the rounds of a backward.
struct Backward {
  const RankProgram& program;
  Line dispatch_line;
  Line return_line;
  Queries local;
  Keys local_keys;
  Keys arena;
  std::vector<Queries> guests;  ///< by round; only two rounds' are there at a time
};

Transfer dispatch(Backward& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const Heads& heads = run.program.heads;
  const std::vector<int64_t> shape = {guest_cells(round), heads.size};
  const at::TensorOptions options = run.local.q.options();
  Queries& guests = run.guests[index];
  guests = {at::empty(shape, options), at::empty(shape, options), at::empty({shape[0], 1}, run.local.lse.options()),
            at::empty(shape, options), at::empty(shape, options)};
  if (!round.queries_move && !round.keys_move) return {};

  Blocks send, receive;
  add_sent(send, round.send_queries, run.local.q, heads.query);
  add_sent(send, round.send_keys, run.local_keys.k, heads.kv);
  add_sent(send, round.send_keys, run.local_keys.v, heads.kv);
  add_guests(receive, round.receive_queries, guests.q);
  add_keys(receive, round.receive_keys, run.arena.k);
  add_keys(receive, round.receive_keys, run.arena.v);
  for (at::Tensor Queries::* part : {&Queries::out, &Queries::grad_out, &Queries::lse}) {
    add_sent(send, round.send_queries, run.local.*part, heads.query);
    add_guests(receive, round.receive_queries, guests.*part);
  }
  return start_transfer(run.dispatch_line, index, send, receive);
}

void compute(Backward& run, int64_t index, double scale) {
  for (const KernelEntry& entry : run.program.rounds[index].entries) {
    const Queries& queries = entry.q_store == Store::local ? run.local : run.guests[index];
    const Keys& keys = entry.k_store == Store::local ? run.local_keys : run.arena;
    attend_backward(visibility_of(run.program.mask, entry.diagonal), queries_of(queries, entry), keys_of(keys, entry),
                    scale);
  }
}

/// Gradients of key blocks whose last use was this round, in whichever round they came: one of dk or dv.
void add_key_gradients(const Backward& run, int64_t index, at::Tensor Keys::* part, Blocks& send, Blocks& receive) {
  const int64_t kv_heads = run.program.heads.kv;
  const at::ScalarType wire = run.local_keys.k.scalar_type();
  for (const RoundProgram& round : run.program.rounds) {
    for (const ReceiveKeys& block : round.receive_keys)
      if (block.return_round == index) send.add({block.peer, view(run.arena.*part, cells_of(block)), wire, false});
    for (const SendBlock& block : round.send_keys)
      if (block.return_round == index)
        receive.add({block.peer, view(run.local_keys.*part, cells_of(block, kv_heads)), wire, true});
  }
}

Transfer give_back(Backward& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const Queries guests = std::move(run.guests[index]);
  run.guests[index] = {};
  if (!round.queries_move && !round.key_gradients_move) return {};

  Blocks send, receive;
  add_guests(send, round.receive_queries, guests.dq);
  add_sent(receive, round.send_queries, run.local.dq, run.program.heads.query);
  add_key_gradients(run, index, &Keys::dk, send, receive);
  add_key_gradients(run, index, &Keys::dv, send, receive);
  return start_transfer(run.return_line, index, send, receive);
}

/// What own keys got through the arena.
void add_own_arena_gradients(const Backward& run) {
  const int64_t kv_heads = run.program.heads.kv;
  for (const OwnKeys& own : run.program.own_keys) {
    const Cells from{own.cell, 1, own.head_stride, own.rows, own.heads};
    const Cells to{own.first_row * kv_heads + own.head_begin, kv_heads, 1, own.rows, own.heads};
    view(run.local_keys.dk, to).add_(view(run.arena.dk, from));
    view(run.local_keys.dv, to).add_(view(run.arena.dv, from));
  }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> run_backward(const RankProgram& program, const GroupNames& groups,
                                                            const std::tuple<at::Tensor, at::Tensor, at::Tensor>& qkv,
                                                            const Saved& saved, double scale) {
  const auto& [q, k, v] = qkv;
  const at::TensorOptions sums = k.options().dtype(sum_type(k.scalar_type()));
  const at::Tensor dq = make_results(program, program.heads.size, q.options(), 0.0);
  const at::Tensor dk = at::zeros(k.sizes(), sums), dv = at::zeros(v.sizes(), sums);
  const Keys keys{as_cells(k), as_cells(v), as_cells(dk), as_cells(dv)};
  Backward run{
      program,
      {groups.dispatch, "dispatch", "backward", program},
      {groups.give_back, "return", "backward", program},
      {as_cells(q), as_cells(saved.out), as_cells(saved.lse.unsqueeze(-1)), as_cells(saved.grad_out), as_cells(dq)},
      keys,
      make_arena(program, keys),
      std::vector<Queries>(program.rounds.size())};
  run.arena.dk = at::zeros(run.arena.k.sizes(), sums);
  run.arena.dv = at::zeros(run.arena.v.sizes(), sums);
  run_rounds(static_cast<int64_t>(program.rounds.size()),
             {[&](int64_t round) { return dispatch(run, round); }, [&](int64_t round) { compute(run, round, scale); },
              [&](int64_t round) { return give_back(run, round); }});
  add_own_arena_gradients(run);
  return {dq, dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace equipoise
