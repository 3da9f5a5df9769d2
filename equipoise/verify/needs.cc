// A segment's query heads fall into slabs of heads that all tiles and messages treat alike. In one slab the work of a
// member is a list of row ranges: its own rows that no tile names, and the tiles it was given. Set arithmetic on ranges
// then says which queries and keys must travel.

#include "equipoise/verify/needs.h"

#include <map>

namespace equipoise::verifying {
namespace {

/// Row ranges that one member computes in one round.
struct Work {
  int64_t member = 0;
  int64_t round = 0;
  Interval rows;
};

/// When the receiver of a message uses any of its rows.
struct Use {
  int64_t first_round = no_limit;
  int64_t last_round = -1;
};

struct SegmentCheck {
  const ExchangeCheck& check;
  const SegmentView& view;
  std::vector<Intervals> owned;  ///< by cp rank of the segment's replica
  std::vector<Use> uses;         ///< by view.keys
  Violations& found;
  Intervals none = {};

  void say(const char* rule, int64_t member, const std::string& what) {
    found.push_back(
        {rule, text(segment_name(check.bucket, check.mask_index, view.replica, view.segment), ", member ", member),
         what});
  }
  /// `what` makes the text: texts are dear, and most lists of rows are empty.
  void say(const char* rule, int64_t member, const Intervals& rows, auto what) {
    for (const Interval& part : rows) say(rule, member, text("rows ", text(part), " ", what()));
  }
  const Intervals& owned_by(int64_t member) const {
    const int64_t cp = check.inputs.mesh.cp;
    return member / cp == view.replica ? owned[member % cp] : none;
  }
};

Interval rows_of(const Message& message) {
  return {message.block.begin_tokens, message.block.begin_tokens + message.block.length_tokens};
}

bool covers(const Message& message, int64_t head) {
  return message.block.head_begin <= head && head < message.block.head_begin + message.block.heads;
}

void check_senders(SegmentCheck& segment, const std::vector<Message>& messages, const std::vector<size_t>& list);
std::vector<int64_t> head_cuts(const ExchangeCheck& check, const SegmentView& view);
std::vector<Work> work_in_slab(const SegmentCheck& segment, int64_t head);
void check_queries(SegmentCheck& segment, const std::vector<Work>& work, int64_t head);
void check_keys(SegmentCheck& segment, const std::vector<Work>& work, int64_t kv_head);
void check_rounds(SegmentCheck& segment);

}  // namespace

void check_needs(const ExchangeCheck& check, const SegmentView& view, Violations& found) {
  SegmentCheck segment{check, view, {}, std::vector<Use>(view.keys.size()), found};
  segment.owned.resize(check.inputs.mesh.cp);
  for (const ShardPiece& piece : view.pieces)
    segment.owned[piece.cp_rank].push_back({piece.begin_tokens, piece.begin_tokens + piece.length_tokens});
  for (Intervals& rows : segment.owned) rows = merge(std::move(rows));
  check_senders(segment, check.exchange().queries, view.queries);
  check_senders(segment, check.exchange().keys, view.keys);
  const std::vector<int64_t> cuts = head_cuts(check, view);
  const int64_t group = check.inputs.heads.group();
  std::vector<Work> kv_work;  // of all slabs that share a KV head
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::vector<Work> work = work_in_slab(segment, cuts[i]);
    check_queries(segment, work, cuts[i]);
    kv_work.insert(kv_work.end(), work.begin(), work.end());
    if (cuts[i + 1] % group != 0) continue;
    check_keys(segment, kv_work, cuts[i] / group);
    kv_work.clear();
  }
  check_rounds(segment);
}

namespace {

void check_senders(SegmentCheck& segment, const std::vector<Message>& messages, const std::vector<size_t>& list) {
  for (const size_t index : list) {
    const Message& message = messages[index];
    const Interval rows = rows_of(message);
    const Intervals& owned = segment.owned_by(message.from.value);
    auto part = std::upper_bound(owned.begin(), owned.end(), rows.begin,
                                 [](int64_t row, const Interval& one) { return row < one.end; });
    if (part == owned.end() || part->begin > rows.begin || part->end < rows.end)
      segment.say("sender owns rows", message.from.value,
                  text("rows ", text(rows), " are sent to member ", message.to.value));
  }
}

/// Where query heads begin to be treated differently, 0 and all heads included. A slab lies in one KV head's group or
/// is whole groups.
std::vector<int64_t> head_cuts(const ExchangeCheck& check, const SegmentView& view) {
  const auto& [query_heads, kv_heads, size] = check.inputs.heads;
  const int64_t group = check.inputs.heads.group();
  std::vector<bool> is_cut(query_heads + 1);
  const auto cut = [&](int64_t begin, int64_t heads) {
    for (const int64_t head : {begin, begin + heads})
      is_cut[head] = is_cut[head / group * group] = is_cut[(head + group - 1) / group * group] = true;
  };
  cut(0, query_heads);
  for (const Tile& tile : view.tiles) cut(tile.head_begin, tile.heads);
  for (const size_t index : view.queries) {
    const RowBlock& block = check.exchange().queries[index].block;
    cut(block.head_begin, block.heads);
  }
  for (const size_t index : view.keys) {
    const RowBlock& block = check.exchange().keys[index].block;
    cut(block.head_begin * group, block.heads * group);
  }
  std::vector<int64_t> cuts;
  for (int64_t head = 0; head <= query_heads; ++head)
    if (is_cut[head]) cuts.push_back(head);
  return cuts;
}

std::vector<Work> work_in_slab(const SegmentCheck& segment, int64_t head) {
  std::vector<Work> work;
  Intervals away;
  for (const Tile& tile : segment.view.tiles) {
    if (head < tile.head_begin || head >= tile.head_begin + tile.heads) continue;
    work.push_back({tile.member.value, tile.round, {tile.q_begin, tile.q_begin + tile.q_length}});
    away.push_back(work.back().rows);
  }
  away = merge(away);
  const int64_t cp = segment.check.inputs.mesh.cp;
  for (int64_t rank = 0; rank < cp; ++rank)
    for (const Interval& rows : subtract(segment.owned[rank], away))
      work.push_back({segment.view.replica * cp + rank, 0, rows});
  return work;
}

/// Query rows that a member computes and does not own, and those that it is sent, by round.
void check_queries(SegmentCheck& segment, const std::vector<Work>& work, int64_t head) {
  struct Rows {
    Intervals needed, brought;
  };
  std::map<std::pair<int64_t, int64_t>, Rows> by_round;  // (member, round)
  std::map<int64_t, Intervals> by_member;
  for (const Work& one : work)
    for (const Interval& rows : subtract({one.rows}, segment.owned_by(one.member)))
      by_round[{one.member, one.round}].needed.push_back(rows);
  for (const size_t index : segment.view.queries) {
    const Message& message = segment.check.exchange().queries[index];
    if (!covers(message, head)) continue;
    by_round[{message.to.value, message.round}].brought.push_back(rows_of(message));
    by_member[message.to.value].push_back(rows_of(message));
    if (message.last_round != message.round)
      segment.say("last round", message.to.value, "queries are kept longer than their round");
  }
  for (auto& [key, rows] : by_round) {
    const Intervals needed = merge(rows.needed);
    const Intervals brought = merge(rows.brought);
    const auto what = [head, round = key.second] { return text("of query head ", head, " in round ", round); };
    segment.say("query missing", key.first, subtract(needed, brought), what);
    segment.say("query needed", key.first, subtract(brought, needed), what);
  }
  for (auto& [member, rows] : by_member)
    segment.say("rows travel once", member, overlaps(rows),
                [&] { return text("of query head ", head, " arrive twice"); });
}

/// The same for keys, which serve every round from their first use to their last.
void check_keys(SegmentCheck& segment, const std::vector<Work>& work, int64_t kv_head) {
  struct Reading {
    std::vector<std::pair<Interval, int64_t>> ranges;  // (keys, round)
    std::vector<size_t> messages;                      // indices into view.keys
  };
  std::map<int64_t, Reading> members;
  for (const Work& one : work)
    members[one.member].ranges.push_back(
        {keys_of_rows(segment.check.mask(), one.rows, segment.view.length_tokens), one.round});
  const std::vector<Message>& all = segment.check.exchange().keys;
  for (size_t i = 0; i < segment.view.keys.size(); ++i)
    if (const Message& message = all[segment.view.keys[i]]; covers(message, kv_head))
      members[message.to.value].messages.push_back(i);
  for (const auto& [member, reading] : members) {
    Intervals needed, brought;
    for (const auto& [keys, round] : reading.ranges) needed.push_back(keys);
    for (const size_t i : reading.messages) {
      const Interval rows = rows_of(all[segment.view.keys[i]]);
      brought.push_back(rows);
      for (const auto& [keys, round] : reading.ranges) {
        if (keys.begin >= rows.end || rows.begin >= keys.end) continue;
        segment.uses[i].first_round = std::min(segment.uses[i].first_round, round);
        segment.uses[i].last_round = std::max(segment.uses[i].last_round, round);
      }
    }
    const auto what = [&] { return text("of KV head ", kv_head); };
    segment.say("rows travel once", member, overlaps(brought), [&] { return what() + " arrive twice"; });
    needed = subtract(merge(needed), segment.owned_by(member));
    brought = merge(brought);
    segment.say("key missing", member, subtract(needed, brought), what);
    segment.say("key needed", member, subtract(brought, needed), what);
  }
}

/// Keys leave before the first round that uses any of their rows, and their gradients return with the last.
void check_rounds(SegmentCheck& segment) {
  for (size_t i = 0; i < segment.uses.size(); ++i) {
    const Message& message = segment.check.exchange().keys[segment.view.keys[i]];
    const Use& use = segment.uses[i];
    if (use.last_round < 0) continue;  // named above: not needed
    if (message.round == use.first_round && message.last_round == use.last_round) continue;
    const std::string rows = text("keys ", text(rows_of(message)), " from member ", message.from.value);
    if (message.round != use.first_round)
      segment.say("first round", message.to.value,
                  text(rows, " arrive in round ", message.round, ", first used in ", use.first_round));
    if (message.last_round != use.last_round)
      segment.say("last round", message.to.value,
                  text(rows, " are kept to round ", message.last_round, ", last used in ", use.last_round));
  }
}

}  // namespace
}  // namespace equipoise::verifying
