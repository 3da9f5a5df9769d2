// The memory of exchange buffers, counted from the plan without its programs: the runs of keys that each member needs
// and does not have in one piece are its arena, messages are its wires.

#include <array>
#include <map>

#include "equipoise/verify/segments.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

enum Trip { dispatch_out, dispatch_in, return_out, return_in };

/// Bytes on the wires of one round of one member, in the order of Trip, and the cells of its guests.
struct RoundCount {
  std::array<int64_t, 4> forward{};
  std::array<int64_t, 4> backward{};
  int64_t guest_cells = 0;
};

/// What one member needs memory for, under one mask.
struct MemberCount {
  int64_t rows = 0;
  int64_t arena_cells = 0;
  int64_t largest_sent = 0;  ///< cells of a block of keys
  std::vector<RoundCount> rounds;
};

/// How many numbers of each kind one cell of a block takes along; elements and sums come by the head.
struct Numbers {
  int64_t heads = 0;
  int64_t statistics = 0;
  int64_t sums = 0;
};

int64_t in_steps(int64_t bytes, int64_t step) { return bytes + (step - bytes % step) % step; }
int64_t buffer(int64_t bytes) { return in_steps(bytes, 64); }

struct MemoryCheck {
  const PlanInputs& inputs;
  const BucketPlan& bucket;
  int64_t mask_index = 0;
  std::vector<MemberCount> members;

  bool exact() const { return inputs.gradient_sum == GradientSum::invariant; }
  int64_t head_bytes() const { return inputs.heads.size * inputs.cost.element_bytes; }
  /// An exact sum is two words of 8 bytes and a byte, the bytes of a head in whole words.
  int64_t sum_bytes() const {
    return exact() ? 16 * inputs.heads.size + in_steps(inputs.heads.size, 8)
                   : inputs.heads.size * inputs.cost.statistic_bytes;
  }
  int64_t on_wire(int64_t cells, const Numbers& numbers) const {
    return numbers.heads * in_steps(cells * head_bytes(), 8) +
           numbers.statistics * in_steps(cells * inputs.cost.statistic_bytes, 8) +
           numbers.sums * in_steps(cells * sum_bytes(), 8);
  }
};

void count_rows(MemoryCheck& check) {
  const int64_t cp = check.inputs.mesh.cp;
  for (int64_t replica = 0; replica < check.inputs.pool; ++replica) {
    std::vector<int64_t> owned(cp, 0);
    for (const ShardPiece& piece : check.bucket.shardings[replica].pieces) owned[piece.cp_rank] += piece.length_tokens;
    const auto rows = padded_rows(owned, check.bucket.shardings[replica].rule, check.inputs);
    for (int64_t rank = 0; rank < cp; ++rank) check.members[replica * cp + rank].rows = rows[rank];
  }
}

/// Rows of a segment that each member computes for one query head.
using RowsByMember = std::map<int64_t, Intervals>;

void add_rows_of_head(const MemoryCheck& check, const SegmentView& view, int64_t head, RowsByMember& rows) {
  Intervals away;
  for (const Tile& tile : view.tiles) {
    if (head < tile.head_begin || head >= tile.head_begin + tile.heads) continue;
    away.push_back({tile.q_begin, tile.q_begin + tile.q_length});
    rows[tile.member.value].push_back(away.back());
  }
  away = merge(away);
  for (const ShardPiece& piece : view.pieces) {
    Intervals& home = rows[view.replica * check.inputs.mesh.cp + piece.cp_rank];
    for (const Interval& part : subtract({{piece.begin_tokens, piece.begin_tokens + piece.length_tokens}}, away))
      home.push_back(part);
  }
}

bool lies_in_own_piece(const MemoryCheck& check, const SegmentView& view, int64_t member, const Interval& keys) {
  const int64_t cp = check.inputs.mesh.cp;
  return std::any_of(view.pieces.begin(), view.pieces.end(), [&](const ShardPiece& piece) {
    return view.replica * cp + piece.cp_rank == member && piece.begin_tokens <= keys.begin &&
           keys.end <= piece.begin_tokens + piece.length_tokens;
  });
}

void count_arena(MemoryCheck& check, const SegmentView& view) {
  const int64_t group = check.inputs.heads.group();
  for (int64_t kv_head = 0; kv_head < check.inputs.heads.kv; ++kv_head) {
    RowsByMember rows;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      add_rows_of_head(check, view, head, rows);
    for (const auto& [member, computed] : rows) {
      Intervals keys;
      for (const Interval& part : computed)
        keys.push_back(keys_of_rows(check.inputs.masks[check.mask_index], part, view.length_tokens));
      for (const Interval& run : merge(keys))
        if (!lies_in_own_piece(check, view, member, run)) check.members[member].arena_cells += run.length();
    }
  }
}

/// Out and back, in both passes.
struct Journeys {
  Numbers forward_out, forward_back, backward_out, backward_back;
};

void count_message(MemoryCheck& check, const Message& message, const Journeys& journeys) {
  const int64_t cells = message.block.length_tokens * message.block.heads;
  const auto add = [&](MemberId member, int64_t round, Trip trip, const Numbers& forward, const Numbers& backward) {
    RoundCount& count = check.members[member.value].rounds[round];
    count.forward[trip] += check.on_wire(cells, forward);
    count.backward[trip] += check.on_wire(cells, backward);
  };
  add(message.from, message.round, dispatch_out, journeys.forward_out, journeys.backward_out);
  add(message.to, message.round, dispatch_in, journeys.forward_out, journeys.backward_out);
  add(message.to, message.last_round, return_out, journeys.forward_back, journeys.backward_back);
  add(message.from, message.last_round, return_in, journeys.forward_back, journeys.backward_back);
}

void count_messages(MemoryCheck& check) {
  const Exchange& exchange = check.bucket.layers[check.mask_index].exchange;
  const bool again = !check.inputs.keep_received;
  const Journeys queries{{1, 0, 0}, {1, 1, 0}, again ? Numbers{3, 1, 0} : Numbers{1, 0, 0}, {1, 0, 0}};
  const Journeys keys{
      {2, 0, 0}, {}, again ? Numbers{2, 0, 0} : Numbers{}, check.exact() ? Numbers{0, 0, 2} : Numbers{2, 0, 0}};
  for (MemberCount& member : check.members) member.rounds.resize(exchange.rounds);
  for (const Message& message : exchange.queries) {
    count_message(check, message, queries);
    check.members[message.to.value].rounds[message.round].guest_cells +=
        message.block.length_tokens * message.block.heads;
  }
  for (const Message& message : exchange.keys) {
    count_message(check, message, keys);
    int64_t& largest = check.members[message.from.value].largest_sent;
    largest = std::max(largest, message.block.length_tokens * message.block.heads);
  }
}

/// Queries, outputs and log-sum-exp of guests.
int64_t guest_bytes(const MemoryCheck& check, const RoundCount& round) {
  return 2 * buffer(round.guest_cells * check.head_bytes()) +
         buffer(round.guest_cells * check.inputs.cost.statistic_bytes);
}

int64_t arena_bytes(const MemoryCheck& check, const MemberCount& member) {
  return 2 * buffer(member.arena_cells * check.head_bytes());
}

/// What is live between the passes of a layer.
int64_t kept_bytes(const MemoryCheck& check, const MemberCount& member) {
  if (!check.inputs.keep_received) return 0;
  int64_t bytes = arena_bytes(check, member);
  for (const RoundCount& round : member.rounds) bytes += guest_bytes(check, round);
  return bytes;
}

/// What is live in a pass: a round's guests and dispatch beside the next one's, and one return.
int64_t pass_bytes(const MemoryCheck& check, const MemberCount& member, bool backward) {
  const Heads& heads = check.inputs.heads;
  const CostTable& cost = check.inputs.cost;
  int64_t bytes = check.inputs.keep_received ? 0 : arena_bytes(check, member);
  if (backward) bytes += 2 * buffer(member.arena_cells * check.sum_bytes());
  const bool alike = cost.statistic_bytes == cost.element_bytes;
  if (backward && (check.exact() || !alike)) bytes += 2 * buffer(member.rows * heads.kv * check.sum_bytes());
  if (backward && !check.exact() && !alike) bytes += buffer(member.largest_sent * check.sum_bytes());
  int64_t even = 0, odd = 0, given_back = 0;
  for (size_t r = 0; r < member.rounds.size(); ++r) {
    const RoundCount& round = member.rounds[r];
    const auto& wires = backward ? round.backward : round.forward;
    int64_t live = buffer(wires[dispatch_out]) + buffer(wires[dispatch_in]);
    if (!check.inputs.keep_received) live += guest_bytes(check, round);
    if (backward) live += 2 * buffer(round.guest_cells * check.head_bytes());
    int64_t& most = r % 2 == 0 ? even : odd;
    most = std::max(most, live);
    given_back = std::max(given_back, buffer(wires[return_out]) + buffer(wires[return_in]));
  }
  return bytes + even + odd + given_back;
}

}  // namespace

Violations check_memory(const PlanInputs& inputs, const BucketPlan& bucket) {
  const int64_t cap = inputs.limits.exchange_bytes;
  Violations found;
  if (cap == no_limit) return found;
  std::vector<int64_t> pass(inputs.members(), 0), kept(inputs.members(), 0);
  for (int64_t mask = 0; mask < static_cast<int64_t>(inputs.masks.size()); ++mask) {
    if (!has_bucket_shape(inputs, bucket, mask, found)) return found;
    MemoryCheck check{inputs, bucket, mask, std::vector<MemberCount>(inputs.members())};
    count_rows(check);
    count_messages(check);
    for (const SegmentView& view : segment_views(inputs, bucket, mask)) count_arena(check, view);
    for (size_t m = 0; m < check.members.size(); ++m) {
      for (const bool backward : {false, true})
        pass[m] = std::max(pass[m], pass_bytes(check, check.members[m], backward));
      kept[m] += inputs.masks[mask].layers * kept_bytes(check, check.members[m]);
    }
  }
  for (size_t m = 0; m < pass.size(); ++m)
    if (pass[m] + kept[m] > cap)
      found.push_back({"exchange within cap",
                       text("micro-step ", bucket.bucket.micro_step, ", pool ", bucket.bucket.pool, ", member ",
                            static_cast<int64_t>(m)),
                       text("needs ", pass[m], " bytes of buffers and keeps ", kept[m], ", at most ", cap)});
  return found;
}

}  // namespace equipoise
