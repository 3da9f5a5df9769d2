// Dispatches and returns have groups of their own, on which each member starts them in order of rounds and waits for
// them in the same order: no member can wait for one that waits for it.
#include "torch_ext/rounds.h"

#include <string>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include "torch_ext/workspace.h"

namespace equipoise {
namespace {

/// What torch.profiler shows of a step of a round; nothing where none runs.
class Span {
 public:
  Span(const char* step, int64_t round) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(std::string("equipoise::") + step + " round " + std::to_string(round));
  }

 private:
  at::RecordFunction record_;
};

/// A transfer and the round it belongs to.
struct Pending {
  Transfer transfer;
  int64_t round = 0;
};

void finish(Pending& pending, const char* step) {
  if (!pending.transfer.finish) return;
  const Span span(step, pending.round);
  pending.transfer.finish();
  pending = {};
}

Pending start(Run& run, int64_t round, const char* step, Transfer (*start_step)(Run&, int64_t)) {
  const Span span(step, round);
  return {start_step(run, round), round};
}

void compute(const Run& run, int64_t round, void (*compute_step)(const Run&, int64_t)) {
  const Span span("compute", round);
  compute_step(run, round);
}

}  // namespace

Memory take_buffers(const RankProgram& program, Pass pass, const at::Tensor& q, const at::Tensor& kept) {
  const NumberBytes bytes = number_bytes(q.scalar_type());
  Memory memory{lay_out_buffers(program, bytes, pass), {}, kept};
  // Enough for both passes: the block need not grow between them.
  memory.pass = take_memory(buffer_bytes(program, bytes).pass, q.device());
  if (!kept.defined()) memory.kept = at::empty({memory.places.kept_bytes}, memory.pass.options());
  return memory;
}

Run make_run(const Call& call, Memory memory, Queries local, Keys local_keys) {
  const RankProgram& program = call.program;
  const bool backward = local.dq.defined();
  const char* const pass = backward ? "backward" : "forward";
  Keys arena = arena_of(memory, local_keys);
  if (!backward || !program.keep_received) fill_arena(program, local_keys, arena);
  std::vector<Queries> guests;
  for (size_t r = 0; r < program.rounds.size(); ++r)
    guests.push_back(guests_of(memory, static_cast<int64_t>(r), local));
  return {program,
          call.scale,
          {call.groups.dispatch, "dispatch", pass, program},
          {call.groups.give_back, "return", pass, program},
          std::move(memory),
          std::move(local),
          std::move(local_keys),
          std::move(arena),
          std::move(guests)};
}

Freight freight_of(const Memory& memory, const WireBuffers& wires) {
  return {
      {}, {}, bytes_of(memory, wires.send), bytes_of(memory, wires.receive), bytes_of(memory, memory.places.returned)};
}

void add_inputs(const Run& run, int64_t round, Freight& freight) {
  const RoundProgram& part = run.program.rounds[round];
  const Heads& heads = run.program.heads;
  add_sent(freight.send, part.send_queries, run.local.q, heads.query);
  add_sent(freight.send, part.send_keys, run.local_keys.k, heads.kv);
  add_sent(freight.send, part.send_keys, run.local_keys.v, heads.kv);
  add_guests(freight.receive, part.receive_queries, run.guests[round].q);
  add_keys(freight.receive, part.receive_keys, run.arena.k);
  add_keys(freight.receive, part.receive_keys, run.arena.v);
}

EntryParts parts_of(const Run& run, int64_t round, const KernelEntry& entry) {
  const Queries& queries = entry.q_store == Store::local ? run.local : run.guests[round];
  const Keys& keys = entry.k_store == Store::local ? run.local_keys : run.arena;
  return {visibility_of(run.program.mask, entry.diagonal), queries_of(queries, entry), keys_of(keys, entry)};
}

void run_rounds(Run& run, const RoundSteps& steps) {
  const auto rounds = static_cast<int64_t>(run.program.rounds.size());
  const auto dispatch = [&](int64_t round) {
    return round < rounds ? start(run, round, "dispatch", steps.dispatch) : Pending{};
  };
  Pending dispatched = dispatch(0), returned;
  for (int64_t round = 0; round < rounds; ++round) {
    Pending next = dispatch(round + 1);
    finish(dispatched, "wait_dispatch");
    compute(run, round, steps.compute);
    finish(returned, "wait_return");
    returned = start(run, round, "return", steps.give_back);
    dispatched = std::move(next);
  }
  finish(returned, "wait_return");
}

}  // namespace equipoise
