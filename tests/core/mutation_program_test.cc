#include <algorithm>
#include <tuple>

#include "equipoise/exchange/program.h"
#include "equipoise/verify/verify.h"
#include "tests/core/dense_attention.h"
#include "tests/core/mutations.h"

namespace equipoise {
namespace {

/// The programs of all members for one mask of a bucket.
struct ProgramSet {
  PlanInputs inputs;
  BucketPlan bucket;
  std::vector<RankProgram> programs;
  bool unreadable = false;  ///< a program's words could not be decoded
  bool operator==(const ProgramSet&) const = default;
};

ProgramSet make_plan(uint64_t seed) {
  SplitMix64 rng{seed};
  ProgramSet plan;
  if (seed % 2 == 0) {
    RandomPlan planned = random_plan(seed);
    plan = {planned.inputs, planned.buckets[0], {}};
  } else {
    plan.inputs = random_inputs(rng);
    plan.bucket = random_bucket(rng, plan.inputs);
  }
  plan.inputs.masks.resize(1);
  plan.bucket.layers.resize(1);
  for (int64_t member = 0; member < plan.inputs.members(); ++member)
    plan.programs.push_back(make_rank_program(plan.inputs, plan.bucket, 0, MemberId{member}, 7));
  return plan;
}

Violations check(const ProgramSet& plan) {
  if (plan.unreadable) return {{"unreadable", "", ""}};
  return check_bucket_programs(plan.inputs, plan.bucket, 0, plan.programs);
}

/// Runs the programs, forward and backward, and compares with attention that knows no programs.
std::string loopback_fault(const ProgramSet& plan) {
  std::vector<DenseTensors> dense = random_tensors(plan.bucket.sequences, plan.inputs.heads, 1);
  std::vector<LoopbackTensors> members = deal_tensors(plan.inputs, plan.bucket, dense);
  for (size_t i = 0; i < dense.size(); ++i)
    dense_attention(plan.bucket.sequences[i], plan.inputs.masks[0], plan.inputs.heads, 0.5, dense[i]);
  loopback_forward(plan.programs, 0.5, members);
  loopback_backward(plan.programs, 0.5, members);
  const double difference = compare_tensors(plan.inputs, plan.bucket, dense, members).any();
  return difference < 1e-10 ? "" : "results differ by " + std::to_string(difference);
}

/// Equal but for the order of kernel calls and of copies within a member.
bool same(ProgramSet a, ProgramSet b) {
  const auto entry_key = [](const KernelEntry& e) { return std::tuple(e.q_store, e.q_cell, e.k_store, e.k_cell); };
  const auto keys_key = [](const OwnKeys& k) { return std::tuple(k.cell, k.first_row, k.head_begin); };
  const auto sort_by = [](auto& list, auto key) {
    std::sort(list.begin(), list.end(), [&](const auto& x, const auto& y) { return key(x) < key(y); });
  };
  for (ProgramSet* plan : {&a, &b})
    for (RankProgram& program : plan->programs) {
      sort_by(program.own_keys, keys_key);
      for (RoundProgram& round : program.rounds) sort_by(round.entries, entry_key);
    }
  return a == b;
}

using Rng = SplitMix64;
using Rules = std::set<std::string>;
using ProgramFault = Fault<ProgramSet>;

template <class Block>
using List = std::vector<Block> RoundProgram::*;

const Rules wires = {"send without receive", "receive without send"};
const Rules counts = {"row computed twice", "row never computed"};
const Rules peers = {"peer in pool", "sorted by peer"};
const Rules ranges = {"block in rows", "heads in range", "entry in store"};
const Rules returns = {"return round", "flags agree"};
const Rules arena = {"arena in range", "arena written once", "arena cell filled"};
const Rules places = {"entry rows", "entry keys", "tile followed", "padding used"};

Rules any_of(std::initializer_list<Rules> sets) {
  Rules all;
  for (const Rules& rules : sets) all.insert(rules.begin(), rules.end());
  return all;
}

/// A random round of a random member in which the list is not empty.
template <class Block>
std::vector<Block>* pick_list(ProgramSet& plan, List<Block> list, Rng& rng) {
  std::vector<std::vector<Block>*> filled;
  for (RankProgram& program : plan.programs)
    for (RoundProgram& round : program.rounds)
      if (!(round.*list).empty()) filled.push_back(&(round.*list));
  return filled.empty() ? nullptr : *pick(filled, rng);
}

template <class Block>
auto on_list(List<Block> list, bool (*action)(std::vector<Block>&, Rng&)) {
  return [list, action](ProgramSet& plan, Rng& rng) {
    std::vector<Block>* blocks = pick_list(plan, list, rng);
    return blocks && action(*blocks, rng);
  };
}

template <class Block>
auto on_field(List<Block> list, int64_t Block::* field) {
  return [list, field](ProgramSet& plan, Rng& rng) {
    std::vector<Block>* blocks = pick_list(plan, list, rng);
    return blocks && nudge(pick(*blocks, rng)->*field, rng);
  };
}

/// An absurd value in one of the fields.
template <class Block>
auto absurd_field(List<Block> list, std::vector<int64_t Block::*> fields) {
  return [list, fields](ProgramSet& plan, Rng& rng) {
    constexpr int64_t values[] = {0, -1, INT64_MIN, INT64_MAX, int64_t{1} << 40};
    std::vector<Block>* blocks = pick_list(plan, list, rng);
    if (blocks) pick(*blocks, rng)->**pick(fields, rng) = values[random_between(rng, 0, 4)];
    return blocks != nullptr;
  };
}

/// The faults that every list can have.
template <class Block>
std::vector<ProgramFault> list_faults(List<Block> list, const std::string& name, const Rules& rules) {
  return {{name + " dropped", on_list(list, drop_one<std::vector<Block>>), rules},
          {name + " repeated", on_list(list, repeat_one<std::vector<Block>>), rules},
          {name + " swapped", on_list(list, swap_two<std::vector<Block>>), rules}};
}

std::vector<ProgramFault> send_faults(List<SendBlock> list, const std::string& name, const Rules& moved) {
  std::vector<ProgramFault> faults = list_faults(list, name, any_of({peers, wires, counts, places, arena}));
  const auto add = [&](const char* what, int64_t SendBlock::* field, const Rules& rules) {
    faults.push_back({name + " " + what, on_field(list, field), rules});
  };
  add("to another peer", &SendBlock::peer, any_of({peers, wires}));
  add("from another row", &SendBlock::first_row, any_of({ranges, moved}));
  add("of other rows", &SendBlock::rows, any_of({ranges, wires, counts}));
  add("of another head", &SendBlock::head_begin, any_of({ranges, moved}));
  add("of more or fewer heads", &SendBlock::heads, any_of({ranges, wires, counts}));
  add("that returns in another round", &SendBlock::return_round, any_of({returns, wires}));
  faults.push_back({name + " absurd",
                    absurd_field(list, {&SendBlock::peer, &SendBlock::first_row, &SendBlock::rows,
                                        &SendBlock::head_begin, &SendBlock::heads, &SendBlock::return_round}),
                    any_of({peers, ranges, returns, wires, moved})});
  return faults;
}

std::vector<ProgramFault> receive_faults() {
  const auto queries = &RoundProgram::receive_queries;
  const auto keys = &RoundProgram::receive_keys;
  std::vector<ProgramFault> faults =
      list_faults(queries, "received queries", any_of({peers, wires, ranges, counts, places}));
  for (ProgramFault& fault : list_faults(keys, "received keys", any_of({peers, wires, arena, places})))
    faults.push_back(std::move(fault));
  const auto add = [&](const char* name, auto list, auto field, const Rules& rules) {
    faults.push_back({name, on_field(list, field), rules});
  };
  add("received queries from another peer", queries, &ReceiveQueries::peer, any_of({peers, wires}));
  add("received queries of other rows", queries, &ReceiveQueries::rows, any_of({ranges, wires, counts}));
  add("received queries of other heads", queries, &ReceiveQueries::heads, any_of({ranges, wires, counts}));
  add("received keys from another peer", keys, &ReceiveKeys::peer, any_of({peers, wires}));
  add("received keys of other rows", keys, &ReceiveKeys::rows, any_of({arena, wires}));
  add("received keys of other heads", keys, &ReceiveKeys::heads, any_of({arena, wires}));
  add("received keys in another cell", keys, &ReceiveKeys::cell, any_of({arena, places}));
  add("received keys of another stride", keys, &ReceiveKeys::head_stride, any_of({arena, places}));
  add("received keys that return elsewhen", keys, &ReceiveKeys::return_round, any_of({returns, wires}));
  faults.push_back({"received queries absurd",
                    absurd_field(queries, {&ReceiveQueries::peer, &ReceiveQueries::rows, &ReceiveQueries::heads}),
                    any_of({peers, ranges, counts, wires})});
  faults.push_back({"received keys absurd",
                    absurd_field(keys, {&ReceiveKeys::peer, &ReceiveKeys::rows, &ReceiveKeys::heads, &ReceiveKeys::cell,
                                        &ReceiveKeys::head_stride, &ReceiveKeys::return_round}),
                    any_of({peers, ranges, arena, returns, wires, places})});
  return faults;
}

/// An entry of the grid in two parts that compute the same: only the grid can tell.
bool cut_cell(ProgramSet& plan, Rng& rng) {
  if (plan.inputs.gradient_sum == GradientSum::fast || plan.inputs.masks[0].kind != MaskKind::full) return false;
  std::vector<KernelEntry>* entries = pick_list(plan, &RoundProgram::entries, rng);
  KernelEntry* first = entries ? pick(*entries, rng) : nullptr;
  if (first == nullptr || first->rows < 2) return false;
  KernelEntry rest = *first;
  first->rows = random_between(rng, 1, first->rows - 1);
  rest.rows -= first->rows;
  rest.diagonal += first->rows;
  rest.q_cell += first->rows * first->q_row_stride;
  entries->push_back(rest);
  return true;
}

std::vector<ProgramFault> entry_faults() {
  const auto entries = &RoundProgram::entries;
  const Rules read =
      any_of({{"entry shape", "entry in store", "entry is a grid cell"}, counts, arena, returns, places});
  std::vector<ProgramFault> faults = list_faults(entries, "entry", any_of({counts, places}));
  faults.back().rules.clear();  // the order of calls means nothing
  const auto add = [&](const char* name, int64_t KernelEntry::* field) {
    faults.push_back({name, on_field(entries, field), read});
  };
  add("entry at another query cell", &KernelEntry::q_cell);
  add("entry of another query stride", &KernelEntry::q_row_stride);
  add("entry of other rows", &KernelEntry::rows);
  add("entry of other heads", &KernelEntry::heads);
  add("entry at another key cell", &KernelEntry::k_cell);
  add("entry of another key stride", &KernelEntry::k_row_stride);
  add("entry of another head stride", &KernelEntry::k_head_stride);
  add("entry of other keys", &KernelEntry::keys);
  add("entry of other KV heads", &KernelEntry::kv_heads);
  add("entry of another diagonal", &KernelEntry::diagonal);
  faults.push_back(
      {"entry absurd",
       absurd_field(entries, {&KernelEntry::q_cell, &KernelEntry::q_row_stride, &KernelEntry::rows, &KernelEntry::heads,
                              &KernelEntry::k_cell, &KernelEntry::k_row_stride, &KernelEntry::k_head_stride,
                              &KernelEntry::keys, &KernelEntry::kv_heads, &KernelEntry::diagonal}),
       read});
  faults.push_back({"entry of another store",
                    [entries](ProgramSet& plan, Rng& rng) {
                      std::vector<KernelEntry>* list = pick_list(plan, entries, rng);
                      if (!list) return false;
                      KernelEntry& entry = *pick(*list, rng);
                      Store& store = random_between(rng, 0, 1) ? entry.q_store : entry.k_store;
                      store = static_cast<Store>(store == Store::local ? random_between(rng, 1, 2) : 0);
                      return true;
                    },
                    read});
  faults.push_back({"cell cut in two", cut_cell, {"entry is a grid cell"}});
  return faults;
}

/// Two blocks that both ends of the wire take for each other: only the places of rows can tell.
bool swap_at_both_ends(ProgramSet& plan, Rng& rng) {
  std::vector<SendBlock*> first;
  const auto one_shape = [](const SendBlock& a, const SendBlock& b) {
    return std::tuple(a.peer, a.rows, a.heads, a.return_round) == std::tuple(b.peer, b.rows, b.heads, b.return_round);
  };
  for (RankProgram& program : plan.programs)
    for (RoundProgram& round : program.rounds)
      for (std::vector<SendBlock>* sent : {&round.send_queries, &round.send_keys})
        for (size_t i = 0; i + 1 < sent->size(); ++i)
          if (one_shape((*sent)[i], (*sent)[i + 1])) first.push_back(&(*sent)[i]);
  if (first.empty()) return false;
  SendBlock* block = *pick(first, rng);
  return std::swap(block[0], block[1]), true;
}

bool drop_at_both_ends(ProgramSet& plan, Rng& rng) {
  RankProgram& sender = *pick(plan.programs, rng);
  const int64_t r = random_between(rng, 0, std::ssize(sender.rounds) - 1);
  std::vector<SendBlock>& sent = sender.rounds[r].send_keys;
  if (sent.empty()) return false;
  std::vector<ReceiveKeys>& received = plan.programs[sent[0].peer].rounds[r].receive_keys;
  received.erase(std::find_if(received.begin(), received.end(),
                              [&](const ReceiveKeys& keys) { return keys.peer == sender.member.value; }));
  return sent.erase(sent.begin()), true;
}

std::vector<ProgramFault> own_key_faults() {
  const auto on_keys = [](auto action) {
    return [action](ProgramSet& plan, Rng& rng) {
      std::vector<RankProgram*> filled;
      for (RankProgram& program : plan.programs)
        if (!program.own_keys.empty()) filled.push_back(&program);
      return !filled.empty() && action((*pick(filled, rng))->own_keys, rng);
    };
  };
  const Rules rules = any_of({ranges, arena, places, counts});
  std::vector<ProgramFault> faults = {
      {"own keys dropped", on_keys(drop_one<std::vector<OwnKeys>>), rules},
      {"own keys repeated", on_keys(repeat_one<std::vector<OwnKeys>>), rules},
      {"own keys swapped", on_keys(swap_two<std::vector<OwnKeys>>), {}},
      {"two blocks of one shape swapped", swap_at_both_ends, places},
      {"keys dropped at both ends", drop_at_both_ends, any_of({arena, {"flags agree"}})},
  };
  const auto add = [&](const char* name, int64_t OwnKeys::* field) {
    faults.push_back(
        {name, on_keys([field](std::vector<OwnKeys>& keys, Rng& rng) { return nudge(pick(keys, rng)->*field, rng); }),
         rules});
  };
  add("own keys from another row", &OwnKeys::first_row);
  add("own keys of other rows", &OwnKeys::rows);
  add("own keys of another head", &OwnKeys::head_begin);
  add("own keys of other heads", &OwnKeys::heads);
  add("own keys in another cell", &OwnKeys::cell);
  add("own keys of another stride", &OwnKeys::head_stride);
  return faults;
}

auto on_program(auto action) {
  return [action](ProgramSet& plan, Rng& rng) { return action(*pick(plan.programs, rng), rng); };
}

auto on_round(bool RoundProgram::* flag) {
  return on_program([flag](RankProgram& program, Rng& rng) {
    bool& moves = pick(program.rounds, rng)->*flag;
    return moves = !moves, true;
  });
}

std::vector<ProgramFault> header_faults() {
  const Rules header = {"header", "headers agree", "program of plan"};
  const Rules heads = any_of({header, ranges, counts, {"entry shape", "entry keys"}});
  const auto nudged = [](auto field) {
    return on_program([field](RankProgram& program, Rng& rng) { return nudge(field(program), rng); });
  };
  std::vector<ProgramFault> faults = {
      {"wrong step", nudged([](RankProgram& p) -> int64_t& { return p.step; }), header},
      {"wrong micro-step", nudged([](RankProgram& p) -> int64_t& { return p.micro_step; }), header},
      {"wrong pool", nudged([](RankProgram& p) -> int64_t& { return p.pool; }), header},
      {"wrong member", nudged([](RankProgram& p) -> int64_t& { return p.member.value; }), header},
      {"wrong members", nudged([](RankProgram& p) -> int64_t& { return p.members; }), header},
      {"wrong window", nudged([](RankProgram& p) -> int64_t& { return p.mask.window_tokens; }),
       any_of({header, {"entry shape"}})},
      {"wrong layers", nudged([](RankProgram& p) -> int64_t& { return p.mask.layers; }), header},
      {"wrong query heads", nudged([](RankProgram& p) -> int64_t& { return p.heads.query; }), heads},
      {"wrong KV heads", nudged([](RankProgram& p) -> int64_t& { return p.heads.kv; }), heads},
      {"wrong head size", nudged([](RankProgram& p) -> int64_t& { return p.heads.size; }), header},
      {"wrong rows", nudged([](RankProgram& p) -> int64_t& { return p.rows; }),
       any_of({header, ranges, {"entry in store"}})},
      {"wrong grid", nudged([](RankProgram& p) -> int64_t& { return p.grid_rows; }),
       any_of({header, {"entry is a grid cell"}})},
      {"wrong arena", nudged([](RankProgram& p) -> int64_t& { return p.arena_cells; }),
       any_of({header, arena, {"entry in store"}})},
      {"wrong mask", on_program([](RankProgram& p, Rng& rng) {
         auto kind = static_cast<int64_t>(p.mask.kind);
         change(kind, 0, 3, rng);
         return p.mask.kind = static_cast<MaskKind>(kind), true;
       }),
       any_of({header, {"entry shape"}})},
      {"wrong gradient sum", on_program([](RankProgram& p, Rng& rng) {
         return p.gradient_sum = static_cast<GradientSum>(random_between(rng, 1, 2)), true;
       }),
       header},
      {"gradient sum wrong everywhere",
       [](ProgramSet& plan, Rng&) {
         for (RankProgram& program : plan.programs) {
           const bool fast = program.gradient_sum == GradientSum::fast;
           program.gradient_sum = fast ? GradientSum::invariant : GradientSum::fast;
           program.grid_rows = fast ? 1 << 20 : 0;
         }
         return true;
       },
       {"program of plan", "entry is a grid cell"}},
  };
  return faults;
}

/// Faults of a set of programs, or of the same thing in all of them.
std::vector<ProgramFault> set_faults() {
  const Rules header = {"header", "headers agree", "program of plan"};
  std::vector<ProgramFault> faults = {
      {"head size wrong everywhere",
       [](ProgramSet& plan, Rng&) {
         for (RankProgram& program : plan.programs) ++program.heads.size;
         return true;
       },
       {"program of plan"}},
      {"round dropped", on_program([](RankProgram& p, Rng& rng) { return drop_one(p.rounds, rng); }),
       any_of({{"rounds agree", "header", "program of plan"}, counts, returns})},
      {"round repeated", on_program([](RankProgram& p, Rng& rng) { return repeat_one(p.rounds, rng); }),
       any_of({{"rounds agree", "program of plan"}, counts})},
      {"program dropped", [](ProgramSet& plan, Rng& rng) { return drop_one(plan.programs, rng); }, header},
      {"programs swapped", [](ProgramSet& plan, Rng& rng) { return swap_two(plan.programs, rng); }, header},
      {"queries flag flipped", on_round(&RoundProgram::queries_move), {"flags agree"}},
      {"keys flag flipped", on_round(&RoundProgram::keys_move), {"flags agree"}},
      {"key gradients flag flipped", on_round(&RoundProgram::key_gradients_move), {"flags agree"}},
  };
  return faults;
}

/// One word of an encoded program.
std::vector<ProgramFault> word_faults() {
  const auto on_words = [](auto action) {
    return [action](ProgramSet& plan, Rng& rng) {
      RankProgram& program = *pick(plan.programs, rng);
      std::vector<int64_t> words = encode(program);
      if (!action(words, rng)) return false;
      try {
        program = decode_rank_program(words);
      } catch (const FormatError&) {
        plan.unreadable = true;
      }
      return true;
    };
  };
  using Words = std::vector<int64_t>;
  const Rules rules = any_of({wires,
                              counts,
                              peers,
                              ranges,
                              returns,
                              arena,
                              places,
                              {"unreadable", "header", "headers agree", "rounds agree", "program of plan",
                               "entry shape", "entry is a grid cell"}});
  return {
      {"word nudged", on_words([](Words& words, Rng& rng) { return nudge(*pick(words, rng), rng); }), rules},
      {"word absurd", on_words([](Words& words, Rng& rng) {
         constexpr int64_t values[] = {0, -1, INT64_MIN, INT64_MAX};
         return *pick(words, rng) = values[random_between(rng, 0, 3)], true;
       }),
       rules},
      {"word dropped", on_words([](Words& words, Rng& rng) { return drop_one(words, rng); }), rules},
      {"word repeated", on_words([](Words& words, Rng& rng) { return repeat_one(words, rng); }), rules},
      {"words swapped", on_words([](Words& words, Rng& rng) { return swap_two(words, rng); }), rules},
  };
}

MutationTrial<ProgramSet> trial() { return {make_plan, check, same, loopback_fault}; }

TEST(ProgramMutations, ABrokenSendOfQueriesIsFound) {
  run_mutations(trial(), send_faults(&RoundProgram::send_queries, "sent queries", any_of({counts, wires})));
}
TEST(ProgramMutations, ABrokenSendOfKeysIsFound) {
  run_mutations(trial(), send_faults(&RoundProgram::send_keys, "sent keys", any_of({places, counts})));
}
TEST(ProgramMutations, ABrokenReceiveIsFound) { run_mutations(trial(), receive_faults()); }
TEST(ProgramMutations, ABrokenEntryIsFound) { run_mutations(trial(), entry_faults()); }
TEST(ProgramMutations, BrokenOwnKeysAreFound) { run_mutations(trial(), own_key_faults()); }
TEST(ProgramMutations, ABrokenHeaderIsFound) { run_mutations(trial(), header_faults()); }
TEST(ProgramMutations, ABrokenSetIsFound) { run_mutations(trial(), set_faults()); }
TEST(ProgramMutations, ABrokenWordIsFound) { run_mutations(trial(), word_faults()); }

}  // namespace
}  // namespace equipoise
