// One bucket and what its members read of it: rows, rank programs, predicted loads.

#include <nanobind/stl/array.h>

#include <array>

#include "bindings/bindings.h"
#include "equipoise/cost/cost.h"
#include "equipoise/exchange/program.h"
#include "equipoise/model/buffers.h"
#include "equipoise/model/plan_hash.h"
#include "equipoise/planner/planner.h"

namespace equipoise::bindings {
namespace {

using Row = std::vector<int64_t>;

/// [documents, begin, length] by segment, of each replica in the pool.
std::vector<std::vector<Row>> segment_rows(const BucketPlan& bucket) {
  std::vector<std::vector<Row>> sequences;
  for (const Sequence& sequence : bucket.sequences) {
    std::vector<Row>& rows = sequences.emplace_back();
    for (const Segment& s : sequence.segments) rows.push_back({s.document.value, s.begin_tokens, s.length_tokens});
  }
  return sequences;
}

/// [replica in pool, segment, q_begin, q_length, head_begin, heads, member, round] by tile.
std::vector<Row> tile_rows(const BucketPlan& bucket, int64_t mask) {
  std::vector<Row> rows;
  for (const Tile& t : bucket.layers.at(mask).tiles)
    rows.push_back(
        {t.replica_in_pool, t.segment, t.q_begin, t.q_length, t.head_begin, t.heads, t.member.value, t.round});
  return rows;
}

/// Tiles as tile_rows gives them.
BucketPlan with_tile_rows(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask,
                          const std::vector<std::array<int64_t, 8>>& rows) {
  std::vector<Tile> tiles;
  for (const auto& [replica, segment, q_begin, q_length, head_begin, heads, member, round] : rows)
    tiles.push_back({replica, segment, q_begin, q_length, head_begin, heads, MemberId{member}, round});
  return with_tiles(inputs, bucket, mask, std::move(tiles));
}

/// ([pieces, 3] segment, begin, length in the order of the member's rows; owned rows; padding rows).
nb::tuple member_rows(const PlanInputs& inputs, const BucketPlan& bucket, int64_t replica_in_pool, int64_t cp_rank) {
  const LocalRows rows =
      local_rows(bucket.shardings.at(replica_in_pool), inputs.mesh, cp_rank, inputs.limits.align_tokens);
  Row words;
  for (const LocalPiece& piece : rows.pieces)
    words.insert(words.end(), {piece.segment, piece.begin_tokens, piece.length_tokens});
  return nb::make_tuple(to_numpy(std::move(words), 3), rows.owned_rows, rows.padding_rows);
}

/// (words, bytes of buffers of a pass, bytes of received rows that a forward keeps).
nb::tuple rank_program(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask, int64_t member, int64_t step) {
  Row words;
  HeldBytes held;
  {
    const nb::gil_scoped_release unlocked;
    const RankProgram program = make_rank_program(inputs, bucket, mask, MemberId{member}, step);
    words = encode(program);
    held = buffer_bytes(program, number_bytes(inputs.cost));
  }
  return nb::make_tuple(to_numpy(std::move(words)), held.pass, held.kept);
}

std::pair<int64_t, int64_t> both(const PassTime& time) { return {time.forward_ns, time.backward_ns}; }

std::vector<int64_t> replica_totals(const PlanInputs& inputs, const BucketPlan& bucket) {
  std::vector<int64_t> totals;
  for (const PassTime& time : replica_times(inputs, bucket)) totals.push_back(time.total());
  return totals;
}

}  // namespace

void init_buckets(nb::module_& module) {
  nb::class_<MemberLoad>(module, "MemberLoad")
      .def_prop_ro("attention_ns", [](const MemberLoad& load) { return both(load.attention()); })
      .def_prop_ro("linear_ns", [](const MemberLoad& load) { return both(load.linear); })
      .def_prop_ro("exchange_ns", [](const MemberLoad& load) { return both(load.exchange()); })
      .def_ro("pairs", &MemberLoad::pairs)
      .def_ro("sent_bytes", &MemberLoad::sent_bytes)
      .def_ro("received_bytes", &MemberLoad::received_bytes);
  nb::class_<BucketPlan>(module, "BucketPlan")
      .def_prop_ro("sequences", &segment_rows)
      .def("tiles", &tile_rows)
      .def("rounds", [](const BucketPlan& bucket, int64_t mask) { return bucket.layers.at(mask).exchange.rounds; })
      .def("hash", &hash_bucket);
  module.def(
      "plan_bucket",
      [](const PlanInputs& inputs, const StepPlan& step, int64_t bucket) {
        return plan_bucket(inputs, step, step.buckets.at(bucket));
      },
      Unlocked());
  module.def("stay_home", &stay_home, Unlocked());
  module.def("with_tiles", &with_tile_rows, Unlocked());
  module.def("member_loads", &member_loads, Unlocked());
  module.def("replica_times", &replica_totals, Unlocked());
  module.def("member_rows", &member_rows);
  module.def("rank_program", &rank_program);
}

}  // namespace equipoise::bindings
