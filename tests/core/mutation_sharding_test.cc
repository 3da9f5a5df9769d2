#include <algorithm>

#include "equipoise/sharding/sharding.h"
#include "equipoise/verify/verify.h"
#include "tests/core/dense_count.h"
#include "tests/core/mutations.h"

namespace equipoise {
namespace {

struct ShardedSequence {
  Sequence sequence;
  Sharding sharding;
  PlanInputs inputs;
  bool operator==(const ShardedSequence&) const = default;
};

/// Sharded by one of the rules, or by none.
ShardedSequence make_plan(uint64_t seed) {
  SplitMix64 rng{seed};
  ShardedSequence plan;
  plan.sequence = random_sequence(rng, random_between(rng, 1, 150));
  const int64_t cp = plan.inputs.mesh.cp = random_between(rng, 1, 6);
  plan.inputs.mesh.tp = random_between(rng, 1, 2);
  Limits& limits = plan.inputs.limits;
  limits.align_tokens = random_between(rng, 1, 4);
  const int64_t window = std::max(plan.sequence.tokens(), cp * limits.align_tokens);
  limits.max_tokens = default_max_tokens(window, plan.inputs.mesh, limits.align_tokens);
  const int64_t rule = random_between(rng, 0, 3);
  plan.sharding = rule == 3 ? random_sharding(rng, plan.sequence, cp)
                            : shard_sequence(static_cast<ShardingRule>(rule), plan.sequence, cp);
  if (rule == 3) plan.sharding.rule = ShardingRule::contiguous;
  return plan;
}

bool same(ShardedSequence a, ShardedSequence b) {
  std::sort(a.sharding.pieces.begin(), a.sharding.pieces.end());
  std::sort(b.sharding.pieces.begin(), b.sharding.pieces.end());
  return a == b;
}

using Rng = SplitMix64;

auto on_pieces(auto action) {
  return [action](ShardedSequence& plan, Rng& rng) { return action(plan.sharding.pieces, rng); };
}

auto on_piece(auto action) {
  return [action](ShardedSequence& plan, Rng& rng) {
    ShardPiece* piece = pick(plan.sharding.pieces, rng);
    return piece && action(plan, *piece, rng);
  };
}

bool cut_piece(ShardedSequence& plan, ShardPiece& piece, Rng& rng) {
  if (piece.length_tokens < 2) return false;
  ShardPiece rest = piece;
  piece.length_tokens = random_between(rng, 1, piece.length_tokens - 1);
  rest.begin_tokens += piece.length_tokens, rest.length_tokens -= piece.length_tokens;
  plan.sharding.pieces.insert(plan.sharding.pieces.begin() + (&piece - plan.sharding.pieces.data()) + 1, rest);
  return true;
}

std::vector<Fault<ShardedSequence>> faults() {
  using Pieces = std::vector<ShardPiece>;
  const std::set<std::string> tokens = {"token owned once", "piece in segment"};
  return {
      {"piece dropped", on_pieces([](Pieces& list, Rng& rng) { return drop_one(list, rng); }), tokens},
      {"piece repeated", on_pieces([](Pieces& list, Rng& rng) { return repeat_one(list, rng); }), tokens},
      {"pieces swapped", on_pieces([](Pieces& list, Rng& rng) { return swap_two(list, rng); }), {"pieces sorted"}},
      {"piece shifted",
       on_piece([](ShardedSequence&, ShardPiece& piece, Rng& rng) { return nudge(piece.begin_tokens, rng); }), tokens},
      {"piece off by one",
       on_piece([](ShardedSequence&, ShardPiece& piece, Rng& rng) { return nudge(piece.length_tokens, rng); }), tokens},
      {"piece negative or huge", on_piece([](ShardedSequence&, ShardPiece& piece, Rng& rng) {
         constexpr int64_t values[] = {0, -1, INT64_MIN, INT64_MAX};
         int64_t* fields[] = {&piece.begin_tokens, &piece.length_tokens, &piece.segment};
         return *fields[random_between(rng, 0, 2)] = values[random_between(rng, 0, 3)], true;
       }),
       tokens},
      {"piece of another segment", on_piece([](ShardedSequence& plan, ShardPiece& piece, Rng& rng) {
         return change(piece.segment, -1, std::ssize(plan.sequence.segments), rng);
       }),
       tokens},
      {"piece cut in two", on_piece(cut_piece), {"pieces merged"}},
      {"wrong rank",
       on_piece([](ShardedSequence& plan, ShardPiece& piece, Rng& rng) {
         return change(piece.cp_rank, 0, plan.inputs.mesh.cp - 1, rng);
       }),
       {"ranks level", "rows within cap", "pieces merged", "pieces follow rule"}},
      {"no such rank",
       on_piece([](ShardedSequence& plan, ShardPiece& piece, Rng& rng) {
         return piece.cp_rank = random_between(rng, 0, 1) ? plan.inputs.mesh.cp : -1, true;
       }),
       {"rank in group"}},
      {"ranks of two pieces swapped",
       on_pieces([](Pieces& list, Rng& rng) {
         if (list.size() < 2) return false;
         return std::swap(pick(list, rng)->cp_rank, pick(list, rng)->cp_rank), true;
       }),
       {"ranks level", "rows within cap", "pieces merged", "pieces follow rule"}},
      {"border moved",
       [](ShardedSequence& plan, Rng& rng) {
         Pieces& list = plan.sharding.pieces;
         if (list.size() < 2) return false;
         ShardPiece& left = list[random_between(rng, 0, std::ssize(list) - 2)];
         ShardPiece& right = *(&left + 1);
         if (left.segment != right.segment || right.length_tokens < 2) return false;
         return ++left.length_tokens, ++right.begin_tokens, --right.length_tokens, true;
       },
       {"ranks level", "rows within cap", "pieces follow rule"}},
      {"another rule",
       [](ShardedSequence& plan, Rng& rng) {
         auto rule = static_cast<int64_t>(plan.sharding.rule);
         change(rule, 0, 2, rng);
         return plan.sharding.rule = static_cast<ShardingRule>(rule), true;
       },
       {"pieces follow rule"}},
  };
}

MutationTrial<ShardedSequence> trial() {
  return {make_plan,
          [](const ShardedSequence& plan) { return check_sharding(plan.sequence, plan.sharding, plan.inputs); }, same,
          [](const ShardedSequence& plan) { return dense_sharding_fault(plan.sequence, plan.sharding, plan.inputs); }};
}

TEST(ShardingMutations, ABrokenPieceIsFound) { run_mutations(trial(), faults()); }

TEST(ShardingMutations, TheShardingsAreValidBeforeTheyAreBroken) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const ShardedSequence plan = make_plan(seed);
    const Violations found = check_sharding(plan.sequence, plan.sharding, plan.inputs);
    ASSERT_TRUE(found.empty()) << "seed " << seed << ": " << found[0].rule << ", " << found[0].where << ": "
                               << found[0].what;
  }
}

}  // namespace
}  // namespace equipoise
