// Forward of one member: queries, keys and values go out in each round, the kernel runs on what is at home and what
// came, outputs and log-sum-exp come back.
#include <limits>

#include <ATen/ops/empty.h>

#include "torch_ext/rounds.h"

namespace equipoise {
namespace {

Transfer dispatch(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const std::vector<int64_t> shape = {guest_cells(round), run.program.heads.size};
  const at::TensorOptions options = run.local.q.options();
  run.guests[index] = {
      at::empty(shape, options), at::empty(shape, options), at::empty({shape[0], 1}, run.local.lse.options()), {}, {}};
  if (!round.queries_move && !round.keys_move) return {};

  Blocks send, receive;
  add_inputs(run, index, send, receive);
  return start_transfer(run.dispatch_line, index, send, receive);
}

Transfer give_back(Run& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const Queries guests = take_guests(run, index);
  if (!round.queries_move) return {};

  Blocks send, receive;
  for (at::Tensor Queries::* part : {&Queries::out, &Queries::lse}) {
    add_guests(send, round.receive_queries, guests.*part);
    add_sent(receive, round.send_queries, run.local.*part, run.program.heads.query);
  }
  return start_transfer(run.return_line, index, send, receive);
}

}  // namespace

at::ScalarType sum_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

std::tuple<at::Tensor, at::Tensor> run_forward(const RankProgram& program, const GroupNames& groups,
                                               const std::tuple<at::Tensor, at::Tensor, at::Tensor>& qkv,
                                               double scale) {
  const auto& [q, k, v] = qkv;
  const at::Tensor out = make_results(program, program.heads.size, q.options(), 0.0);
  const at::Tensor lse =
      make_results(program, 1, q.options().dtype(sum_type(q.scalar_type())), -std::numeric_limits<double>::infinity());
  Run run = make_run(program, groups, "forward", scale, {as_cells(q), as_cells(out), as_cells(lse), {}, {}},
                     {as_cells(k), as_cells(v), {}, {}});
  run_rounds(run, {dispatch, attend_forward, give_back});
  return {out, lse.squeeze(-1)};
}

}  // namespace equipoise
