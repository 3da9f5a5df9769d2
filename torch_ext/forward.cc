// Forward of one member: queries, keys and values go out in each round, the kernel runs on what is at home and what
// came, outputs and log-sum-exp come back.
#include <limits>

#include <ATen/ops/empty.h>

#include "torch_ext/attention.h"
#include "torch_ext/transfer.h"

namespace equipoise {
namespace {

/// All that lives through the rounds of a forward.
struct Forward {
  const RankProgram& program;
  Line dispatch_line;
  Line return_line;
  Queries local;
  Keys local_keys;
  Keys arena;
  std::vector<Queries> guests;  ///< by round; only two rounds' are there at a time
};

Transfer dispatch(Forward& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const Heads& heads = run.program.heads;
  const int64_t cells = guest_cells(round);
  const at::TensorOptions options = run.local.q.options();
  Queries& guests = run.guests[index];
  guests.q = at::empty({cells, heads.size}, options);
  guests.out = at::empty({cells, heads.size}, options);
  guests.lse = at::empty({cells, 1}, run.local.lse.options());
  if (!round.queries_move && !round.keys_move) return {};

  Blocks send, receive;
  add_sent(send, round.send_queries, run.local.q, heads.query);
  add_sent(send, round.send_keys, run.local_keys.k, heads.kv);
  add_sent(send, round.send_keys, run.local_keys.v, heads.kv);
  add_guests(receive, round.receive_queries, guests.q);
  add_keys(receive, round.receive_keys, run.arena.k);
  add_keys(receive, round.receive_keys, run.arena.v);
  return start_transfer(run.dispatch_line, index, send, receive);
}

void compute(Forward& run, int64_t index, double scale) {
  for (const KernelEntry& entry : run.program.rounds[index].entries) {
    const Queries& queries = entry.q_store == Store::local ? run.local : run.guests[index];
    const Keys& keys = entry.k_store == Store::local ? run.local_keys : run.arena;
    attend_forward(visibility_of(run.program.mask, entry.diagonal), queries_of(queries, entry), keys_of(keys, entry),
                   scale);
  }
}

Transfer give_back(Forward& run, int64_t index) {
  const RoundProgram& round = run.program.rounds[index];
  const Queries guests = std::move(run.guests[index]);
  run.guests[index] = {};
  if (!round.queries_move) return {};

  Blocks send, receive;
  add_guests(send, round.receive_queries, guests.out);
  add_guests(send, round.receive_queries, guests.lse);
  add_sent(receive, round.send_queries, run.local.out, run.program.heads.query);
  add_sent(receive, round.send_queries, run.local.lse, run.program.heads.query);
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
  const Keys keys{as_cells(k), as_cells(v), {}, {}};
  Forward run{program,
              {groups.dispatch, "dispatch", "forward", program},
              {groups.give_back, "return", "forward", program},
              {as_cells(q), as_cells(out), as_cells(lse), {}, {}},
              keys,
              make_arena(program, keys),
              std::vector<Queries>(program.rounds.size())};
  run_rounds(static_cast<int64_t>(program.rounds.size()),
             {[&](int64_t round) { return dispatch(run, round); }, [&](int64_t round) { compute(run, round, scale); },
              [&](int64_t round) { return give_back(run, round); }});
  return {out, lse.squeeze(-1)};
}

}  // namespace equipoise
