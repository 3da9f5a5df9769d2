// What each member of a bucket does: its attention, linear work and messages, round by round.

#include <algorithm>
#include <array>

#include "equipoise/base/exact_sum.h"
#include "equipoise/cost/cost.h"

namespace equipoise {
namespace {

/// Bytes of one row of one head on each of the four trips of a layer.
struct RowBytes {
  int64_t forward_out = 0;
  int64_t forward_back = 0;
  int64_t backward_out = 0;
  int64_t backward_back = 0;
};

/// Out: q. Back: o, lse. Backward out: q, o, do, lse, or do alone where the rest was kept; back: dq.
RowBytes query_bytes(const PlanInputs& inputs) {
  const int64_t statistic = inputs.cost.statistic_bytes;
  const int64_t cell = inputs.heads.size * inputs.cost.element_bytes;
  return {cell, cell + statistic, inputs.keep_received ? cell : 3 * cell + statistic, cell};
}

/// Out: k, v. Nothing comes back in the forward. Backward out: k, v, unless they were kept; back: dk, dv, as elements
/// or as exact sums.
RowBytes key_bytes(const PlanInputs& inputs) {
  constexpr int64_t word = sizeof(int64_t);
  const int64_t cell = inputs.heads.size * inputs.cost.element_bytes;
  const int64_t sum = inputs.gradient_sum == GradientSum::fast ? cell : exact_sum_words(inputs.heads.size) * word;
  return {2 * cell, 0, inputs.keep_received ? 0 : 2 * cell, 2 * sum};
}

/// Bytes of one member on one kind of link in one exchange.
struct Traffic {
  int64_t sent = 0;
  int64_t received = 0;
};

/// Trips in the order of RowBytes, on links 0 (node) and 1 (network), of one round of one member.
using RoundTraffic = std::array<std::array<Traffic, 2>, 4>;

struct Ledger {
  int64_t rounds = 1;
  std::vector<RoundTraffic> traffic;  ///< by (member, round)

  RoundTraffic& at(MemberId member, int64_t round) { return traffic[member.value * rounds + round]; }
};

/// Adds all trips of a message.
void add_message(const Message& message, const RowBytes& row, int64_t link, Ledger& ledger) {
  const int64_t cells = message.block.length_tokens * message.block.heads;
  const auto out = [&](int64_t trip, int64_t bytes) {
    ledger.at(message.from, message.round)[trip][link].sent += cells * bytes;
    ledger.at(message.to, message.round)[trip][link].received += cells * bytes;
  };
  const auto back = [&](int64_t trip, int64_t bytes) {
    ledger.at(message.to, message.last_round)[trip][link].sent += cells * bytes;
    ledger.at(message.from, message.last_round)[trip][link].received += cells * bytes;
  };
  out(0, row.forward_out);
  back(1, row.forward_back);
  out(2, row.backward_out);
  back(3, row.backward_back);
}

/// Time of one trip: links of both kinds work at once and in both directions, so the fullest decides.
int64_t trip_time(const CostTable& cost, const std::array<Traffic, 2>& traffic) {
  int64_t slowest = 0;
  for (const auto& [link, moved] : {std::pair(cost.node, traffic[0]), std::pair(cost.network, traffic[1])}) {
    const int64_t bytes = std::max(moved.sent, moved.received);
    if (bytes > 0) slowest = std::max(slowest, link.latency_ns + mul_div(bytes, link.kilobyte_ps, 1024 * 1000));
  }
  return slowest;
}

void add_exchange(const PlanInputs& inputs, const Bucket& bucket, const Exchange& exchange,
                  std::vector<MemberLoad>& loads) {
  const int64_t cp = inputs.mesh.cp;
  const int64_t first_replica = bucket.pool * inputs.pool;
  const auto link_between = [&](MemberId a, MemberId b) {
    const bool near =
        same_node(inputs.mesh, first_replica + a.value / cp, a.value % cp, first_replica + b.value / cp, b.value % cp);
    return near ? 0 : 1;
  };
  Ledger ledger{exchange.rounds, std::vector<RoundTraffic>(loads.size() * exchange.rounds)};
  const RowBytes query = query_bytes(inputs);
  const RowBytes key = key_bytes(inputs);
  for (const Message& message : exchange.queries)
    add_message(message, query, link_between(message.from, message.to), ledger);
  for (const Message& message : exchange.keys)
    add_message(message, key, link_between(message.from, message.to), ledger);
  for (size_t member = 0; member < loads.size(); ++member)
    for (int64_t round = 0; round < exchange.rounds; ++round) {
      const RoundTraffic& trips = ledger.at(MemberId{static_cast<int64_t>(member)}, round);
      for (const int64_t trip : {0, 1})
        for (const Traffic& moved : trips[trip]) {
          loads[member].sent_bytes += moved.sent;
          loads[member].received_bytes += moved.received;
        }
      RoundTimes& times = loads[member].rounds[round];
      times.dispatch = {trip_time(inputs.cost, trips[0]), trip_time(inputs.cost, trips[2])};
      times.give_back = {trip_time(inputs.cost, trips[1]), trip_time(inputs.cost, trips[3])};
    }
}

void add_linear(const PlanInputs& inputs, const BucketPlan& bucket, std::vector<MemberLoad>& loads) {
  const int64_t cp = inputs.mesh.cp;
  for (size_t replica = 0; replica < bucket.shardings.size(); ++replica) {
    const auto rows = rank_rows(bucket.shardings[replica], inputs.mesh, inputs.limits.align_tokens);
    for (int64_t rank = 0; rank < cp; ++rank) loads[replica * cp + rank].linear = linear_time(inputs.cost, rows[rank]);
  }
}

void add_attention(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index,
                   std::vector<MemberLoad>& loads) {
  const Mask& mask = inputs.masks[mask_index];
  const auto& [tiles, exchange] = bucket.layers[mask_index];
  const auto work = attention_work(bucket.sequences, bucket.shardings, tiles, inputs.heads, inputs.mesh.cp);
  const AttentionModel model{inputs.cost, mask, inputs.heads, inputs.grid()};
  const auto times = attention_times(model, bucket.sequences, work, inputs.members(), exchange.rounds);
  for (size_t i = 0; i < times.size(); ++i) loads[i / exchange.rounds].rounds[i % exchange.rounds].attention = times[i];
  for (const WorkItem& item : work) {
    const int64_t length = bucket.sequences[item.replica_in_pool].segments[item.segment].length_tokens;
    loads[item.member.value].pairs += item.heads * attention_pairs(mask, {item.q_begin, item.q_length}, length);
  }
}

void apply_speeds(const PlanInputs& inputs, const Bucket& bucket, std::vector<MemberLoad>& loads) {
  if (inputs.speeds_ppt.empty()) return;
  const auto slow_down = [](PassTime& time, int64_t speed) {
    time = {at_speed(time.forward_ns, speed), at_speed(time.backward_ns, speed)};
  };
  const auto first = bucket.pool * inputs.members();
  for (size_t member = 0; member < loads.size(); ++member) {
    const int64_t speed = inputs.speeds_ppt[first + static_cast<int64_t>(member)];
    for (RoundTimes& round : loads[member].rounds) slow_down(round.attention, speed);
    slow_down(loads[member].linear, speed);
  }
}

}  // namespace

std::vector<int64_t> held_bytes(const CostTable& cost, const Heads& heads, const Exchange& exchange, int64_t members) {
  const int64_t cell = heads.size * cost.element_bytes;
  std::vector<int64_t> keys(members, 0);
  std::vector<int64_t> queries(members * exchange.rounds, 0);
  for (const Message& message : exchange.keys)
    keys[message.to.value] += 2 * cell * message.block.length_tokens * message.block.heads;
  for (const Message& message : exchange.queries)
    queries[message.to.value * exchange.rounds + message.round] +=
        cell * message.block.length_tokens * message.block.heads;
  for (int64_t member = 0; member < members; ++member) {
    const auto first = queries.begin() + member * exchange.rounds;
    keys[member] += *std::max_element(first, first + exchange.rounds);
  }
  return keys;
}

std::vector<MemberLoad> member_loads(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index) {
  const auto rounds = static_cast<size_t>(bucket.layers[mask_index].exchange.rounds);
  std::vector<MemberLoad> loads(inputs.members());
  for (MemberLoad& load : loads) load.rounds.resize(rounds);
  add_attention(inputs, bucket, mask_index, loads);
  add_linear(inputs, bucket, loads);
  add_exchange(inputs, bucket.bucket, bucket.layers[mask_index].exchange, loads);
  apply_speeds(inputs, bucket.bucket, loads);
  return loads;
}

}  // namespace equipoise
