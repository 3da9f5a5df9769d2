#include <algorithm>

#include "equipoise/planner/planner.h"
#include "equipoise/verify/verify.h"
#include "tests/core/dense_count.h"
#include "tests/core/mutations.h"

namespace equipoise {
namespace {

/// One mask of a bucket.
struct MaskedBucket {
  PlanInputs inputs;
  BucketPlan bucket;
  bool operator==(const MaskedBucket&) const = default;

  LayerPlan& layer() { return bucket.layers[0]; }
};

/// Planned by the stages, or of random tiles.
MaskedBucket make_plan(uint64_t seed) {
  SplitMix64 rng{seed};
  MaskedBucket plan;
  if (seed % 2 == 0) {
    RandomPlan planned = random_plan(seed);
    plan = {planned.inputs, planned.buckets[0]};
  } else {
    plan.inputs = random_inputs(rng);
    plan.bucket = random_bucket(rng, plan.inputs);
  }
  plan.inputs.masks.resize(1);
  plan.bucket.layers.resize(1);
  return plan;
}

Violations check(const MaskedBucket& plan) {
  Violations found = check_tiling(plan.inputs, plan.bucket, 0);
  for (Violation& violation : check_exchange(plan.inputs, plan.bucket, 0)) found.push_back(std::move(violation));
  if (found.empty()) found = check_memory(plan.inputs, plan.bucket);
  return found;
}

void sort_messages(Exchange& exchange) {
  std::sort(exchange.queries.begin(), exchange.queries.end());
  std::sort(exchange.keys.begin(), exchange.keys.end());
}

bool same(MaskedBucket a, MaskedBucket b) {
  for (MaskedBucket* plan : {&a, &b}) {
    std::sort(plan->layer().tiles.begin(), plan->layer().tiles.end());
    sort_messages(plan->layer().exchange);
  }
  return a == b;
}

using Rng = SplitMix64;
using BucketFault = Fault<MaskedBucket>;
using Rules = std::set<std::string>;

int64_t no_such(int64_t end, Rng& rng) { return random_between(rng, 0, 1) ? end : -1; }

int64_t random_absurd(Rng& rng) {
  constexpr int64_t values[] = {0, -1, INT64_MIN, INT64_MAX};
  return values[random_between(rng, 0, 3)];
}

/// What speaks where the rows x heads that a member computes are no longer those that its messages bring.
const Rules needs = {"query missing", "query needed", "key missing", "key needed", "first round", "last round"};

Rules with(Rules rules, const Rules& more) {
  rules.insert(more.begin(), more.end());
  return rules;
}

auto on_tiles(auto action) {
  return [action](MaskedBucket& plan, Rng& rng) { return action(plan.layer().tiles, rng); };
}

auto on_tile(auto action) {
  return [action](MaskedBucket& plan, Rng& rng) {
    Tile* tile = pick(plan.layer().tiles, rng);
    return tile && action(plan, *tile, rng);
  };
}

bool cut_tile(MaskedBucket& plan, Tile& tile, Rng& rng) {
  if (tile.q_length < 2) return false;
  Tile rest = tile;
  tile.q_length = random_between(rng, 1, tile.q_length - 1);
  rest.q_begin += tile.q_length, rest.q_length -= tile.q_length;
  plan.layer().tiles.push_back(rest);
  return true;
}

std::vector<BucketFault> tile_faults() {
  using Tiles = std::vector<Tile>;
  const Rules cells = {"tile of grid cells"};
  const Rules rows = with(with(needs, cells), {"tile in segment", "tiles overlap", "member owns rows"});
  const Rules heads = with(with(needs, cells), {"tile heads", "tiles overlap"});
  return {
      {"tile dropped", on_tiles([](Tiles& list, Rng& rng) { return drop_one(list, rng); }),
       with(needs, {"round in range"})},
      {"tile repeated", on_tiles([](Tiles& list, Rng& rng) { return repeat_one(list, rng); }), {"tiles overlap"}},
      {"tiles swapped", on_tiles([](Tiles& list, Rng& rng) { return swap_two(list, rng); }), {}},
      {"tile cut in two", on_tile(cut_tile), cells},
      {"tile shifted", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.q_begin, rng); }), rows},
      {"tile off by one", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.q_length, rng); }), rows},
      {"tile rows negative or huge", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) {
         return (random_between(rng, 0, 1) ? tile.q_begin : tile.q_length) = random_absurd(rng), true;
       }),
       rows},
      {"tile of other heads", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.head_begin, rng); }),
       heads},
      {"tile of more or fewer heads",
       on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.heads, rng); }), heads},
      {"tile heads negative or huge", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) {
         return (random_between(rng, 0, 1) ? tile.head_begin : tile.heads) = random_absurd(rng), true;
       }),
       heads},
      {"tile on another member", on_tile([](MaskedBucket& plan, Tile& tile, Rng& rng) {
         return change(tile.member.value, 0, plan.inputs.members() - 1, rng);
       }),
       with(needs, {"member owns rows"})},
      {"tile on no member",
       on_tile([](MaskedBucket& plan, Tile& tile, Rng& rng) {
         return tile.member.value = no_such(plan.inputs.members(), rng), true;
       }),
       {"member in pool"}},
      {"tile in another round", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.round, rng); }),
       with(needs, {"round in range"})},
      {"tile of another segment", on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.segment, rng); }),
       rows},
      {"tile of another replica",
       on_tile([](MaskedBucket&, Tile& tile, Rng& rng) { return nudge(tile.replica_in_pool, rng); }), rows},
  };
}

using Messages = std::vector<Message>;

/// Breaks one list of messages and sorts it again, so that only what is wrong can speak.
auto on_messages(Messages Exchange::* list, auto action) {
  return [list, action](MaskedBucket& plan, Rng& rng) {
    Messages& messages = plan.layer().exchange.*list;
    if (messages.empty() || !action(plan, messages, *pick(messages, rng), rng)) return false;
    std::sort(messages.begin(), messages.end());
    return true;
  };
}

/// Rows of a random piece to a random member that does not own them.
bool send_for_nothing(MaskedBucket& plan, Messages& messages, Message& like, Rng& rng) {
  const int64_t replica = random_between(rng, 0, plan.inputs.pool - 1);
  const ShardPiece* piece = pick(plan.bucket.shardings[replica].pieces, rng);
  if (!piece || plan.inputs.members() < 2) return false;
  Message message = like;
  message.from.value = replica * plan.inputs.mesh.cp + piece->cp_rank;
  message.to.value = message.from.value;
  change(message.to.value, 0, plan.inputs.members() - 1, rng);
  message.block.replica_in_pool = replica, message.block.segment = piece->segment;
  message.block.begin_tokens = piece->begin_tokens, message.block.length_tokens = piece->length_tokens;
  return messages.push_back(message), true;
}

bool cut_message(MaskedBucket&, Messages& messages, Message& message, Rng& rng) {
  if (message.block.length_tokens < 2) return false;
  Message rest = message;
  message.block.length_tokens = random_between(rng, 1, message.block.length_tokens - 1);
  rest.block.begin_tokens += message.block.length_tokens;
  rest.block.length_tokens -= message.block.length_tokens;
  return messages.push_back(rest), true;
}

/// An action on a field of a message.
auto on_field(Messages Exchange::* list, int64_t& (*field)(Message&), auto action) {
  return on_messages(list, [field, action](MaskedBucket& plan, Messages&, Message& message, Rng& rng) {
    return action(plan, field(message), rng);
  });
}

bool nudge_field(MaskedBucket&, int64_t& value, Rng& rng) { return nudge(value, rng); }
bool make_absurd(MaskedBucket&, int64_t& value, Rng& rng) { return value = random_absurd(rng), true; }
bool other_member(MaskedBucket& plan, int64_t& value, Rng& rng) {
  return change(value, 0, plan.inputs.members() - 1, rng);
}
bool no_member(MaskedBucket& plan, int64_t& value, Rng& rng) {
  return value = no_such(plan.inputs.members(), rng), true;
}

std::vector<BucketFault> message_faults(Messages Exchange::* list, const std::string& kind) {
  const Rules missing = {kind + " missing"};
  const Rules wrong = with(missing, {kind + " needed", "rows travel once"});
  const Rules rows = with(wrong, {"sender owns rows", "block in segment"});
  const Rules heads = with(wrong, {"head in range"});
  const Rules rounds = {kind + " missing", "first round", "last round", "round in range"};
  const auto field = [&](int64_t& (*of)(Message&), auto action) { return on_field(list, of, action); };
  const auto from = [](Message& m) -> int64_t& { return m.from.value; };
  const auto to = [](Message& m) -> int64_t& { return m.to.value; };
  const auto begin = [](Message& m) -> int64_t& { return m.block.begin_tokens; };
  const auto length = [](Message& m) -> int64_t& { return m.block.length_tokens; };
  const auto head = [](Message& m) -> int64_t& { return m.block.head_begin; };
  const auto count = [](Message& m) -> int64_t& { return m.block.heads; };
  std::vector<BucketFault> faults = {
      {"dropped", on_messages(list, [](auto&, Messages& all, auto&, Rng& rng) { return drop_one(all, rng); }), missing},
      {"repeated",
       on_messages(list, [](auto&, Messages& all, auto&, Rng& rng) { return repeat_one(all, rng); }),
       {"rows travel once"}},
      {"swapped",
       [list](MaskedBucket& plan, Rng& rng) { return swap_two(plan.layer().exchange.*list, rng); },
       {"message sorted"}},
      {"for nothing", on_messages(list, send_for_nothing), with(wrong, {"first round", "last round"})},
      {"cut in two", on_messages(list, cut_message), {}},
      {"shifted", field(begin, nudge_field), rows},
      {"off by one", field(length, nudge_field), rows},
      {"begin negative or huge", field(begin, make_absurd), rows},
      {"length negative or huge", field(length, make_absurd), rows},
      {"of other heads", field(head, nudge_field), heads},
      {"of more or fewer heads", field(count, nudge_field), heads},
      {"heads negative or huge", field(count, make_absurd), heads},
      {"of another segment", field([](Message& m) -> int64_t& { return m.block.segment; }, nudge_field), rows},
      {"of another replica", field([](Message& m) -> int64_t& { return m.block.replica_in_pool; }, nudge_field), rows},
      {"from another member", field(from, other_member), {"sender owns rows", "receiver is another"}},
      {"from no member", field(from, no_member), {"member in pool"}},
      {"to another member", field(to, other_member), with(wrong, {"receiver is another"})},
      {"to no member", field(to, no_member), {"member in pool"}},
      {"in another round", field([](Message& m) -> int64_t& { return m.round; }, nudge_field), rounds},
      {"with another last round",
       field([](Message& m) -> int64_t& { return m.last_round; }, nudge_field),
       {"last round", "round in range"}},
      {"in an absurd round",
       field([](Message& m) -> int64_t& { return m.round; },
             [](MaskedBucket& plan, int64_t& value, Rng& rng) {
               return value = no_such(plan.layer().exchange.rounds, rng), true;
             }),
       {"round in range"}},
  };
  for (BucketFault& fault : faults) fault.name = kind + " message " + fault.name;
  return faults;
}

std::vector<BucketFault> whole_faults() {
  return {
      {"too many bytes",
       [](MaskedBucket& plan, Rng& rng) {
         const int64_t bytes = most_held_bytes(plan.inputs, plan.bucket);
         plan.inputs.limits.exchange_bytes = bytes - random_between(rng, 1, 8);
         return bytes > 0;
       },
       {"exchange within cap"}},
      {"just enough bytes",
       [](MaskedBucket& plan, Rng&) {
         plan.inputs.limits.exchange_bytes = most_held_bytes(plan.inputs, plan.bucket);
         return true;
       },
       {}},
      {"wrong number of rounds",
       [](MaskedBucket& plan, Rng& rng) { return nudge(plan.layer().exchange.rounds, rng); },
       {"round in range"}},
      {"sequence missing",
       [](MaskedBucket& plan, Rng& rng) { return drop_one(plan.bucket.sequences, rng); },
       {"bucket shape"}},
      {"sharding repeated",
       [](MaskedBucket& plan, Rng& rng) { return repeat_one(plan.bucket.shardings, rng); },
       {"bucket shape"}},
      {"layer repeated",
       [](MaskedBucket& plan, Rng& rng) { return repeat_one(plan.bucket.layers, rng); },
       {"bucket shape"}},
      {"another mask",
       [](MaskedBucket& plan, Rng& rng) {
         Mask& mask = plan.inputs.masks[0];
         if (mask.kind == MaskKind::sliding_window) return nudge(mask.window_tokens, rng) && mask.window_tokens > 0;
         return mask.kind = mask.kind == MaskKind::full ? MaskKind::causal : MaskKind::full, true;
       },
       {"key missing", "key needed", "first round", "last round"}},
      {"owners changed",
       [](MaskedBucket& plan, Rng& rng) {
         ShardPiece* piece = pick(pick(plan.bucket.shardings, rng)->pieces, rng);
         return piece && change(piece->cp_rank, 0, plan.inputs.mesh.cp - 1, rng);
       },
       with(needs, {"sender owns rows", "member owns rows"})},
  };
}

MutationTrial<MaskedBucket> trial() {
  return {make_plan, check, same,
          [](const MaskedBucket& plan) { return dense_attention_fault(plan.inputs, plan.bucket, 0); }};
}

TEST(BucketMutations, ABrokenTileIsFound) { run_mutations(trial(), tile_faults()); }
TEST(BucketMutations, ABrokenQueryMessageIsFound) {
  run_mutations(trial(), message_faults(&Exchange::queries, "query"));
}
TEST(BucketMutations, ABrokenKeyMessageIsFound) { run_mutations(trial(), message_faults(&Exchange::keys, "key")); }
TEST(BucketMutations, ABrokenBucketIsFound) { run_mutations(trial(), whole_faults()); }

}  // namespace
}  // namespace equipoise
