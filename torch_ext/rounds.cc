// Dispatches and returns have groups of their own, on which each member starts them in order of rounds and waits for
// them in the same order: no member can wait for one that waits for it.
#include "torch_ext/rounds.h"

#include <utility>

namespace equipoise {
namespace {

void finish(Transfer& transfer) {
  if (transfer.finish) transfer.finish();
  transfer = {};
}

}  // namespace

Run make_run(const RankProgram& program, const GroupNames& groups, const char* pass, double scale, Queries local,
             Keys local_keys) {
  Keys arena = make_arena(program, local_keys);
  return {program,
          scale,
          {groups.dispatch, "dispatch", pass, program},
          {groups.give_back, "return", pass, program},
          std::move(local),
          std::move(local_keys),
          std::move(arena),
          std::vector<Queries>(program.rounds.size())};
}

void add_inputs(const Run& run, int64_t round, Blocks& send, Blocks& receive) {
  const RoundProgram& part = run.program.rounds[round];
  const Heads& heads = run.program.heads;
  add_sent(send, part.send_queries, run.local.q, heads.query);
  add_sent(send, part.send_keys, run.local_keys.k, heads.kv);
  add_sent(send, part.send_keys, run.local_keys.v, heads.kv);
  add_guests(receive, part.receive_queries, run.guests[round].q);
  add_keys(receive, part.receive_keys, run.arena.k);
  add_keys(receive, part.receive_keys, run.arena.v);
}

void compute_round(const Run& run, int64_t round, Attend attend) {
  for (const KernelEntry& entry : run.program.rounds[round].entries) {
    const Queries& queries = entry.q_store == Store::local ? run.local : run.guests[round];
    const Keys& keys = entry.k_store == Store::local ? run.local_keys : run.arena;
    attend(visibility_of(run.program.mask, entry.diagonal), queries_of(queries, entry), keys_of(keys, entry),
           run.scale);
  }
}

Queries take_guests(Run& run, int64_t round) { return std::exchange(run.guests[round], {}); }

void run_rounds(Run& run, const RoundSteps& steps) {
  const auto rounds = static_cast<int64_t>(run.program.rounds.size());
  Transfer dispatched = rounds > 0 ? steps.dispatch(run, 0) : Transfer{};
  Transfer returned;
  for (int64_t round = 0; round < rounds; ++round) {
    Transfer next = round + 1 < rounds ? steps.dispatch(run, round + 1) : Transfer{};
    finish(dispatched);
    compute_round(run, round, steps.attend);
    finish(returned);
    returned = steps.give_back(run, round);
    dispatched = std::move(next);
  }
  finish(returned);
}

}  // namespace equipoise
