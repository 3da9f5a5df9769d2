// Backward of one member: queries, keys, values, outputs, their gradients and log-sum-exp go out again, since the
// executor kept nothing; dq comes back with its round, dk and dv with the last round that needs their keys. Sums of dk
// and dv are kept in at least float and rounded once.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "torch_ext/rounds.h"

namespace equipoise {
namespace {

Transfer dispatch(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const std::vector<int64_t> shape = {guest_cells(round), run.program.heads.size};
  const at::TensorOptions options = run.local.q.options();
  Queries& guests = run.guests[index];
  guests = {at::empty(shape, options), at::empty(shape, options), at::empty({shape[0], 1}, run.local.lse.options()),
            at::empty(shape, options), at::empty(shape, options)};
  if (!round.queries_move && !round.keys_move) return {};

  Blocks send, receive;
  add_inputs(run, index, send, receive);
  for (at::Tensor Queries::* part : {&Queries::out, &Queries::grad_out, &Queries::lse}) {
    add_sent(send, round.send_queries, run.local.*part, run.program.heads.query);
    add_guests(receive, round.receive_queries, guests.*part);
  }
  return start_transfer(run.dispatch_line, index, send, receive);
}

/// Gradients of key blocks whose last use was this round, in whichever round they came: one of dk or dv.
void add_key_gradients(const Run& run, int64_t index, at::Tensor Keys::* part, Blocks& send, Blocks& receive) {
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

Transfer give_back(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const Queries guests = take_guests(run, index);
  if (!round.queries_move && !round.key_gradients_move) return {};

  Blocks send, receive;
  add_guests(send, round.receive_queries, guests.dq);
  add_sent(receive, round.send_queries, run.local.dq, run.program.heads.query);
  add_key_gradients(run, index, &Keys::dk, send, receive);
  add_key_gradients(run, index, &Keys::dv, send, receive);
  return start_transfer(run.return_line, index, send, receive);
}

/// What own keys got through the arena.
void add_own_arena_gradients(const Run& run) {
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
  Run run = make_run(
      program, groups, "backward", scale,
      {as_cells(q), as_cells(saved.out), as_cells(saved.lse.unsqueeze(-1)), as_cells(saved.grad_out), as_cells(dq)},
      {as_cells(k), as_cells(v), as_cells(dk), as_cells(dv)});
  run.arena.dk = at::zeros(run.arena.k.sizes(), sums);
  run.arena.dv = at::zeros(run.arena.v.sizes(), sums);
  run_rounds(run, {dispatch, attend_backward, give_back});
  add_own_arena_gradients(run);
  return {dq, dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace equipoise
