// Backward of one member: queries, keys, values, outputs, their gradients and log-sum-exp go out again, or gradients
// alone where the executor kept the rest; dq comes back with its round, dk and dv with the last round that needs their
// keys. Sums of dk and dv are kept in at least float and rounded once.
#include <ATen/ops/zeros.h>

#include "equipoise/base/exact_sum.h"
#include "torch_ext/grid.h"
#include "torch_ext/rounds.h"
#include "torch_ext/workspace.h"

namespace equipoise {
namespace {

Transfer dispatch(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const bool again = !run.program.keep_received;
  if (!round.queries_move && !(round.keys_move && again)) return {};
  Freight freight = freight_of(run.memory, run.memory.places.rounds[index].dispatch);
  const auto add = [&](at::Tensor Queries::* part) {
    add_sent(freight.send, round.send_queries, run.local.*part, run.program.heads.query);
    add_guests(freight.receive, round.receive_queries, run.guests[index].*part);
  };
  if (again) {
    add_inputs(run, index, freight);
    add(&Queries::out);
    add(&Queries::lse);
  }
  add(&Queries::grad_out);
  return start_transfer(run.dispatch_line, index, freight);
}

/// Gradients of key blocks whose last use was this round, in whichever round they came: one of dk or dv.
void add_key_gradients(const Run& run, int64_t index, at::Tensor Keys::* part, Freight& freight) {
  const int64_t kv_heads = run.program.heads.kv;
  const at::ScalarType wire =
      run.program.gradient_sum == GradientSum::invariant ? at::kLong : run.local_keys.k.scalar_type();
  for (const RoundProgram& round : run.program.rounds) {
    for (const ReceiveKeys& block : round.receive_keys)
      if (block.return_round == index)
        freight.send.add({block.peer, view(run.arena.*part, cells_of(block)), wire, false});
    for (const SendBlock& block : round.send_keys)
      if (block.return_round == index)
        freight.receive.add({block.peer, view(run.local_keys.*part, cells_of(block, kv_heads)), wire, true});
  }
}

Transfer give_back(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  if (!round.queries_move && !round.key_gradients_move) return {};
  Freight freight = freight_of(run.memory, run.memory.places.rounds[index].give_back);
  add_guests(freight.send, round.receive_queries, run.guests[index].dq);
  add_sent(freight.receive, round.send_queries, run.local.dq, run.program.heads.query);
  add_key_gradients(run, index, &Keys::dk, freight);
  add_key_gradients(run, index, &Keys::dv, freight);
  return start_transfer(run.return_line, index, freight);
}

/// What own keys got through the arena.
void add_own_arena_gradients(const Run& run) {
  const int64_t kv_heads = run.program.heads.kv;
  const bool exact = run.program.gradient_sum == GradientSum::invariant;
  for (const OwnKeys& own : run.program.own_keys) {
    const Cells from{own.cell, 1, own.head_stride, own.rows, own.heads};
    const Cells to{own.first_row * kv_heads + own.head_begin, kv_heads, 1, own.rows, own.heads};
    for (at::Tensor Keys::* part : {&Keys::dk, &Keys::dv}) {
      const at::Tensor sums = view(run.local_keys.*part, to), more = view(run.arena.*part, from);
      exact ? merge_exactly(sums, more) : static_cast<void>(sums.add_(more));
    }
  }
}

/// Sums of own dk or dv [T, Hkv, D], or exact ones [T, Hkv, W]: the result itself where it has the type of sums, else a
/// buffer.
at::Tensor make_sums(const Memory& memory, const Buffer& buffer, const at::Tensor& keys, bool exact) {
  const auto type = exact ? at::kLong : sum_type(keys.scalar_type());
  if (type == keys.scalar_type()) return at::zeros(keys.sizes(), keys.options());
  const int64_t numbers = exact ? exact_sum_words(keys.size(2)) : keys.size(2);
  return bytes_of(memory, buffer).view(type).view({keys.size(0), keys.size(1), numbers}).zero_();
}

}  // namespace

Tensors run_backward(const Call& call, const Tensors& qkv, const Saved& saved) {
  const auto& [q, k, v] = qkv;
  const RankProgram& program = call.program;
  Memory memory = take_buffers(program, Pass::backward, q, saved.kept);
  const at::Tensor dq = make_results(program, program.heads.size, q.options(), 0.0);
  const bool exact = program.gradient_sum == GradientSum::invariant;
  const at::Tensor dk = make_sums(memory, memory.places.own_dk, k, exact);
  const at::Tensor dv = make_sums(memory, memory.places.own_dv, v, exact);
  Run run = make_run(
      call, std::move(memory),
      {as_cells(q), as_cells(saved.out), as_cells(saved.lse.unsqueeze(-1)), as_cells(saved.grad_out), as_cells(dq)},
      {as_cells(k), as_cells(v), as_cells(dk), as_cells(dv)});
  run_rounds(run, {dispatch, call.kernel.backward, give_back});
  add_own_arena_gradients(run);
  const auto type = k.scalar_type();
  const Tensors results = {dq, exact ? round_exactly(dk, type) : dk.to(type),
                           exact ? round_exactly(dv, type) : dv.to(type)};
  give_memory_back(std::move(run.memory.pass));
  return results;
}

}  // namespace equipoise
