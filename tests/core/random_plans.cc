#include "tests/core/random_plans.h"

#include <algorithm>

#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/model/work.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"

namespace equipoise {
namespace {

bool random_chance(SplitMix64& rng, int64_t percent) { return random_between(rng, 1, 100) <= percent; }

Mask random_mask(SplitMix64& rng) {
  Mask mask{.kind = static_cast<MaskKind>(random_between(rng, 0, 2)), .layers = random_between(rng, 1, 3)};
  if (mask.kind == MaskKind::sliding_window) mask.window_tokens = random_between(rng, 1, 40);
  return mask;
}

CostTable random_cost(SplitMix64& rng) {
  CostTable cost;
  cost.model = "random";
  cost.hardware = "random";
  cost.element_bytes = 4;
  cost.activation_bytes = 64;
  const int64_t tile = int64_t{4} << random_between(rng, 0, 2);
  cost.attention.tile_rows = tile;
  cost.attention.tile_keys = tile;
  cost.attention.call_ns = random_between(rng, 0, 200);
  cost.attention.entry_ns = random_between(rng, 0, 100);
  cost.attention.block_ps = random_between(rng, 0, 20'000);
  cost.attention.tile_ps = {{0, random_between(rng, 50'000, 200'000)}, {64, random_between(rng, 10'000, 100'000)}};
  cost.attention.kilobyte_ps = random_between(rng, 0, 1000);
  cost.attention.backward_ppm = {{0, 4 * ppm_one}, {64, 3 * ppm_one}};
  cost.linear.token_ps = {{0, random_between(rng, 1, 100'000)}};
  cost.node.latency_ns = random_between(rng, 0, 100);
  cost.node.kilobyte_ps = random_between(rng, 0, 10'000);
  cost.network.latency_ns = random_between(rng, 0, 1000);
  cost.network.kilobyte_ps = random_between(rng, 0, 100'000);
  return cost;
}

/// Cuts [0, end) at up to `most` random places that are multiples of `unit`.
std::vector<int64_t> random_cuts(SplitMix64& rng, int64_t end, int64_t unit, int64_t most) {
  std::vector<int64_t> cuts = {0, end};
  for (int64_t i = random_between(rng, 0, most); i > 0; --i) cuts.push_back(random_between(rng, 0, end / unit) * unit);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// Head ranges of a grid: whole groups, and some single groups cut inside where that is allowed.
std::vector<int64_t> random_head_cuts(SplitMix64& rng, const Heads& heads, bool whole_groups) {
  std::vector<int64_t> cuts = random_cuts(rng, heads.query, heads.group(), 3);
  if (whole_groups) return cuts;
  const std::vector<int64_t> whole = cuts;
  for (size_t i = 0; i + 1 < whole.size(); ++i)
    if (heads.group() > 1 && whole[i + 1] - whole[i] == heads.group() && random_chance(rng, 50))
      cuts.push_back(whole[i] + random_between(rng, 1, heads.group() - 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// Members that own no row of the tile: those that may compute it.
std::vector<MemberId> find_guests(const PlanInputs& inputs, const Sharding& sharding, const Tile& tile) {
  std::vector<MemberId> guests;
  for (int64_t member = 0; member < inputs.members(); ++member) {
    const bool owns = std::any_of(sharding.pieces.begin(), sharding.pieces.end(), [&](const ShardPiece& piece) {
      return piece.segment == tile.segment && tile.replica_in_pool * inputs.mesh.cp + piece.cp_rank == member &&
             piece.begin_tokens < tile.q_begin + tile.q_length &&
             piece.begin_tokens + piece.length_tokens > tile.q_begin;
    });
    if (!owns) guests.push_back(MemberId{member});
  }
  return guests;
}

LayerPlan make_layer(const PlanInputs& inputs, const BucketPlan& bucket, const Mask& mask, std::vector<Tile> tiles) {
  const auto work = attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, inputs.mesh.cp);
  Exchange exchange = plan_exchange(bucket.sequences, bucket.shardings, work, mask, inputs.heads, inputs.mesh.cp);
  return {std::move(tiles), std::move(exchange)};
}

}  // namespace

int64_t random_between(SplitMix64& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng.next() % static_cast<uint64_t>(high - low + 1));
}

PlanInputs random_inputs(SplitMix64& rng) {
  constexpr Strategy strategies[] = {Strategy::plain, Strategy::allgather, Strategy::ulysses, Strategy::libra,
                                     Strategy::equipoise};
  PlanInputs inputs;
  inputs.strategy = strategies[random_between(rng, 0, 4)];
  inputs.mesh.cp = random_between(rng, 1, 4);
  inputs.pool = random_between(rng, 1, 8 / inputs.mesh.cp);
  inputs.mesh.dp = inputs.pool * random_between(rng, 1, 2);
  inputs.mesh.ranks_per_node = random_between(rng, 1, 8);
  inputs.mesh.tp = random_between(rng, 1, 2);
  inputs.micro_steps = random_between(rng, 1, 2);
  inputs.heads.kv = random_between(rng, 1, 4);
  inputs.heads.query = inputs.heads.kv * random_between(rng, 1, 4);
  inputs.heads.size = int64_t{1} << random_between(rng, 1, 3);
  inputs.cost = random_cost(rng);
  inputs.masks.clear();
  inputs.cost.layers = 0;
  for (int64_t i = random_between(rng, 1, 3); i > 0; --i) {
    inputs.masks.push_back(random_mask(rng));
    inputs.cost.layers += inputs.masks.back().layers;
  }
  inputs.limits.window_tokens = random_between(rng, 16, 128);
  inputs.limits.align_tokens = random_between(rng, 1, 4);
  inputs.limits.max_tokens = default_max_tokens(inputs.limits.window_tokens, inputs.mesh, inputs.limits.align_tokens);
  inputs.dp_sync = static_cast<DpSync>(random_between(rng, 0, 1));
  inputs.arrival.seed = random_between(rng, 0, 99);
  inputs.arrival.shuffle = random_chance(rng, 50);
  inputs.arrival.overlong = static_cast<Overlong>(random_between(rng, 1, 3));
  if (random_chance(rng, 30))
    for (int64_t rank = 0; rank < inputs.mesh.dp * inputs.mesh.cp; ++rank)
      inputs.speeds_ppt.push_back(random_between(rng, 700, 1300));
  const bool splits_groups = inputs.strategy == Strategy::ulysses && inputs.heads.kv % inputs.mesh.cp != 0;
  if (random_chance(rng, 30) && !splits_groups) {
    inputs.gradient_sum = GradientSum::invariant;
    inputs.grid_rows = random_between(rng, 1, 24);
  }
  return inputs;
}

std::vector<int64_t> random_lengths(SplitMix64& rng, const PlanInputs& inputs) {
  const int64_t room = inputs.sequences() * inputs.limits.window_tokens;
  if (random_chance(rng, 10)) return {random_between(rng, 0, room)};
  std::vector<int64_t> lengths;
  for (int64_t tokens = 0; tokens < room * 5 / 4; tokens += lengths.back()) {
    const int64_t kind = random_between(rng, 0, 9);
    if (kind == 0) lengths.push_back(0);
    const int64_t longest = kind <= 6 ? 12 : inputs.limits.window_tokens * 3 / 2;
    lengths.push_back(random_between(rng, 1, longest));
  }
  return lengths;
}

Sequence random_sequence(SplitMix64& rng, int64_t tokens) {
  Sequence sequence;
  if (random_chance(rng, 5)) return sequence;
  int64_t room = random_between(rng, 1, tokens);
  while (room > 0) {
    const int64_t longest = random_chance(rng, 40) ? room : std::min<int64_t>(room, 9);
    const int64_t length = random_between(rng, 1, longest);
    const auto document = static_cast<int64_t>(sequence.segments.size());
    sequence.segments.push_back({DocId{document}, random_between(rng, 0, 20), length});
    room -= length;
  }
  return sequence;
}

Sharding random_sharding(SplitMix64& rng, const Sequence& sequence, int64_t cp) {
  Sharding sharding;
  std::vector<int64_t> room(cp);
  for (int64_t rank = 0; rank < cp; ++rank) room[rank] = (sequence.tokens() + rank) / cp;
  for (size_t s = 0; s < sequence.segments.size(); ++s) {
    const auto segment = static_cast<int64_t>(s);
    const int64_t length = sequence.segments[s].length_tokens;
    for (int64_t begin = 0; begin < length;) {
      int64_t rank = random_between(rng, 0, cp - 1);
      while (room[rank] == 0) rank = (rank + 1) % cp;
      const int64_t tokens = random_between(rng, 1, std::min(room[rank], length - begin));
      ShardPiece* last = sharding.pieces.empty() ? nullptr : &sharding.pieces.back();
      if (last != nullptr && last->segment == segment && last->cp_rank == rank)
        last->length_tokens += tokens;
      else
        sharding.pieces.push_back({segment, begin, tokens, rank});
      room[rank] -= tokens;
      begin += tokens;
    }
  }
  return sharding;
}

std::vector<Tile> random_tiles(SplitMix64& rng, const PlanInputs& inputs, const std::vector<Sequence>& sequences,
                               const std::vector<Sharding>& shardings) {
  std::vector<Tile> tiles;
  for (size_t r = 0; r < sequences.size(); ++r)
    for (size_t s = 0; s < sequences[r].segments.size(); ++s) {
      if (random_chance(rng, 40)) continue;
      const bool invariant = inputs.gradient_sum == GradientSum::invariant;
      const int64_t unit = invariant ? inputs.grid_rows : 1;
      const auto rows = random_cuts(rng, sequences[r].segments[s].length_tokens, unit, 3);
      const auto heads = random_head_cuts(rng, inputs.heads, invariant);
      for (size_t i = 0; i + 1 < rows.size(); ++i)
        for (size_t h = 0; h + 1 < heads.size(); ++h) {
          Tile tile{.replica_in_pool = static_cast<int64_t>(r),
                    .segment = static_cast<int64_t>(s),
                    .q_begin = rows[i],
                    .q_length = rows[i + 1] - rows[i],
                    .head_begin = heads[h],
                    .heads = heads[h + 1] - heads[h],
                    .member = {},
                    .round = random_between(rng, 1, 3)};
          const auto guests = find_guests(inputs, shardings[r], tile);
          if (guests.empty() || random_chance(rng, 40)) continue;
          tile.member = guests[random_between(rng, 0, static_cast<int64_t>(guests.size()) - 1)];
          tiles.push_back(tile);
        }
    }
  std::sort(tiles.begin(), tiles.end());
  return tiles;
}

BucketPlan random_bucket(SplitMix64& rng, const PlanInputs& inputs) {
  BucketPlan plan;
  for (int64_t replica = 0; replica < inputs.pool; ++replica) {
    plan.bucket.sequences.push_back(SeqId{replica});
    plan.sequences.push_back(random_sequence(rng, inputs.limits.window_tokens));
    plan.shardings.push_back(random_sharding(rng, plan.sequences.back(), inputs.mesh.cp));
  }
  for (const Mask& mask : inputs.masks) {
    auto tiles = random_tiles(rng, inputs, plan.sequences, plan.shardings);
    plan.layers.push_back(make_layer(inputs, plan, mask, std::move(tiles)));
  }
  return plan;
}

RandomPlan random_plan(uint64_t seed, bool wild) {
  SplitMix64 rng{seed};
  RandomPlan plan;
  plan.inputs = random_inputs(rng);
  plan.corpus = make_corpus(random_lengths(rng, plan.inputs), plan.inputs.arrival);
  plan.step = plan_step(plan.inputs, plan.corpus, plan.before);
  for (const Bucket& bucket : plan.step.buckets) {
    BucketPlan planned = plan_bucket(plan.inputs, plan.step, bucket);
    for (size_t m = 0; wild && m < plan.inputs.masks.size(); ++m) {
      auto tiles = random_tiles(rng, plan.inputs, planned.sequences, planned.shardings);
      planned.layers[m] = make_layer(plan.inputs, planned, plan.inputs.masks[m], std::move(tiles));
    }
    plan.buckets.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace equipoise
