// Forward of one member: queries, keys and values go out in each round, the kernel runs on what is at home and what
// came, outputs and log-sum-exp come back.
#include <limits>

#include "torch_ext/grid.h"
#include "torch_ext/rounds.h"
#include "torch_ext/workspace.h"

namespace equipoise {
namespace {

Transfer dispatch(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  if (!round.queries_move && !round.keys_move) return {};
  Freight freight = freight_of(run.memory, run.memory.places.rounds[index].dispatch);
  add_inputs(run, index, freight);
  return start_transfer(run.dispatch_line, index, freight);
}

Transfer give_back(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  if (!round.queries_move) return {};
  Freight freight = freight_of(run.memory, run.memory.places.rounds[index].give_back);
  for (at::Tensor Queries::* part : {&Queries::out, &Queries::lse}) {
    add_guests(freight.send, round.receive_queries, run.guests[index].*part);
    add_sent(freight.receive, round.send_queries, run.local.*part, run.program.heads.query);
  }
  return start_transfer(run.return_line, index, freight);
}

void compute(const Run& run, int64_t index) {
  const std::vector<KernelEntry>& entries = run.program.rounds[index].entries;
  const auto attend_entry = [&](int64_t i, auto attend) {
    const auto [visibility, queries, keys] = parts_of(run, index, entries[i]);
    attend(visibility, queries, keys, run.scale);
  };
  if (run.program.gradient_sum == GradientSum::invariant)
    return for_each_grid_cell(std::ssize(entries), [&](int64_t i) { attend_entry(i, attend_grid_cell); });
  for (int64_t i = 0; i < std::ssize(entries); ++i) attend_entry(i, attend_forward);
}

}  // namespace

at::ScalarType sum_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

NumberBytes number_bytes(at::ScalarType type) {
  return {static_cast<int64_t>(c10::elementSize(type)), static_cast<int64_t>(c10::elementSize(sum_type(type)))};
}

Tensors run_forward(const Call& call, const Tensors& qkv) {
  const auto& [q, k, v] = qkv;
  const RankProgram& program = call.program;
  const at::Tensor out = make_results(program, program.heads.size, q.options(), 0.0);
  const at::Tensor lse =
      make_results(program, 1, q.options().dtype(sum_type(q.scalar_type())), -std::numeric_limits<double>::infinity());
  Run run = make_run(call, take_buffers(program, Pass::forward, q, {}),
                     {as_cells(q), as_cells(out), as_cells(lse), {}, {}}, {as_cells(k), as_cells(v), {}, {}});
  run_rounds(run, {dispatch, compute, give_back});
  give_memory_back(std::move(run.memory.pass));
  return {out, lse.squeeze(-1), run.memory.kept};
}

}  // namespace equipoise
