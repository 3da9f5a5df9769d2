// How long those who wait for each other take together: the slowest linear work, then attention with its exchanges,
// round by round.

#include <algorithm>
#include <numeric>

#include "equipoise/cost/cost.h"

namespace equipoise {
namespace {

/// Runs the rounds of one pass and returns when the last member is done. Times are of one pass.
int64_t rounds_ns(std::span<const MemberLoad> loads, int64_t PassTime::* pass) {
  const size_t rounds = loads.front().rounds.size();
  const auto slowest = [&](size_t round, PassTime RoundTimes::* part) {
    int64_t most = 0;
    for (const MemberLoad& load : loads) most = std::max(most, load.rounds[round].*part.*pass);
    return most;
  };
  // An exchange begins when the last member has come to it and the one before it on its line is over.
  const auto exchange = [&](size_t round, PassTime RoundTimes::* part, int64_t all_came, int64_t& line) {
    if (const int64_t time = slowest(round, part); time > 0) line = std::max(line, all_came) + time;
  };
  std::vector<int64_t> busy(loads.size(), 0);  // until when each member computes or waits
  int64_t dispatched = 0;
  int64_t returned = 0;
  exchange(0, &RoundTimes::dispatch, 0, dispatched);
  for (size_t round = 0; round < rounds; ++round) {
    int64_t next = dispatched;
    if (round + 1 < rounds)
      exchange(round + 1, &RoundTimes::dispatch, *std::max_element(busy.begin(), busy.end()), next);
    for (size_t m = 0; m < loads.size(); ++m)
      busy[m] = std::max(busy[m], dispatched) + loads[m].rounds[round].attention.*pass;
    for (int64_t& until : busy) until = std::max(until, returned);
    exchange(round, &RoundTimes::give_back, *std::max_element(busy.begin(), busy.end()), returned);
    dispatched = next;
  }
  return std::max(returned, *std::max_element(busy.begin(), busy.end()));
}

/// The most of what some loads have, in each pass.
template <class Part>
PassTime slowest(std::span<const MemberLoad> loads, Part part) {
  PassTime most;
  for (const MemberLoad& load : loads) {
    const PassTime time = part(load);
    most = {std::max(most.forward_ns, time.forward_ns), std::max(most.backward_ns, time.backward_ns)};
  }
  return most;
}

/// By replica, the first of those that wait for each other in some layers: replicas that exchange rows, and those that
/// wait for one of them.
std::vector<int64_t> who_waits(std::span<const LayerPlan> layers, int64_t replicas, int64_t cp) {
  std::vector<int64_t> first(replicas);
  std::iota(first.begin(), first.end(), 0);
  const auto join = [&](const std::vector<Message>& messages) {
    for (const Message& message : messages) {
      const int64_t from = first[message.from.value / cp];
      const int64_t to = first[message.to.value / cp];
      if (from != to) std::replace(first.begin(), first.end(), std::max(from, to), std::min(from, to));
    }
  };
  for (const LayerPlan& layer : layers) {
    join(layer.exchange.queries);
    join(layer.exchange.keys);
  }
  return first;
}

/// One layer of one mask, by replica. `first` is who_waits().
std::vector<LayerTime> layer_times(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index,
                                   std::span<const int64_t> first) {
  const auto loads = member_loads(inputs, bucket, mask_index);
  std::vector<LayerTime> times(first.size());
  for (size_t group = 0; group < first.size(); ++group) {
    if (first[group] != static_cast<int64_t>(group)) continue;
    std::vector<MemberLoad> waiting;
    for (size_t member = 0; member < loads.size(); ++member)
      if (first[member / inputs.mesh.cp] == first[group]) waiting.push_back(loads[member]);
    const LayerTime time = layer_time(waiting);
    for (size_t replica = group; replica < first.size(); ++replica)
      if (first[replica] == first[group]) times[replica] = time;
  }
  return times;
}

/// Of those that take equally long, the first.
template <class Time>
Time longest(std::span<const Time> times, int64_t (*total)(const Time&)) {
  return *std::max_element(times.begin(), times.end(),
                           [&](const Time& a, const Time& b) { return total(a) < total(b); });
}

}  // namespace

PassTime MemberLoad::attention() const {
  PassTime time;
  for (const RoundTimes& round : rounds) time += round.attention;
  return time;
}

PassTime MemberLoad::exchange() const {
  PassTime time;
  for (const RoundTimes& round : rounds) (time += round.dispatch) += round.give_back;
  return time;
}

PassTime LayerTime::all() const {
  PassTime time = linear;
  return (time += attention) += exposed;
}

LayerTime layer_time(std::span<const MemberLoad> loads) {
  const PassTime attention = slowest(loads, [](const MemberLoad& load) { return load.attention(); });
  return {.linear = slowest(loads, [](const MemberLoad& load) { return load.linear; }),
          .attention = attention,
          .exposed = {rounds_ns(loads, &PassTime::forward_ns) - attention.forward_ns,
                      rounds_ns(loads, &PassTime::backward_ns) - attention.backward_ns}};
}

LayerTime layer_time(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index) {
  const auto first =
      who_waits(std::span(bucket.layers).subspan(mask_index, 1), std::ssize(bucket.sequences), inputs.mesh.cp);
  const auto times = layer_times(inputs, bucket, mask_index, first);
  return longest<LayerTime>(times, [](const LayerTime& time) { return time.all().total(); });
}

std::vector<PassTime> replica_times(const PlanInputs& inputs, const BucketPlan& bucket) {
  const auto first = who_waits(bucket.layers, std::ssize(bucket.sequences), inputs.mesh.cp);
  std::vector<PassTime> times(bucket.sequences.size());
  for (size_t m = 0; m < inputs.masks.size(); ++m) {
    const auto layer = layer_times(inputs, bucket, static_cast<int64_t>(m), first);
    for (size_t replica = 0; replica < times.size(); ++replica) {
      times[replica].forward_ns += inputs.masks[m].layers * layer[replica].all().forward_ns;
      times[replica].backward_ns += inputs.masks[m].layers * layer[replica].all().backward_ns;
    }
  }
  return times;
}

PassTime bucket_time(const PlanInputs& inputs, const BucketPlan& bucket) {
  const auto times = replica_times(inputs, bucket);
  return longest<PassTime>(times, [](const PassTime& time) { return time.total(); });
}

int64_t step_time_ns(DpSync dp_sync, std::span<const std::vector<PassTime>> buckets, int64_t pools) {
  std::vector<int64_t> sums;  // by replica of all pools
  int64_t sum_of_slowest = 0;
  int64_t slowest_now = 0;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const size_t pool = b % static_cast<size_t>(pools);
    sums.resize(std::max(sums.size(), (pool + 1) * buckets[b].size()), 0);
    if (pool == 0) slowest_now = 0;
    for (size_t replica = 0; replica < buckets[b].size(); ++replica) {
      const int64_t time = buckets[b][replica].total();
      sums[pool * buckets[b].size() + replica] += time;
      slowest_now = std::max(slowest_now, time);
    }
    if (pool + 1 == static_cast<size_t>(pools)) sum_of_slowest += slowest_now;
  }
  return dp_sync == DpSync::micro_step ? sum_of_slowest : *std::max_element(sums.begin(), sums.end());
}

}  // namespace equipoise
