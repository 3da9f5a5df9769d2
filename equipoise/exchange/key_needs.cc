#include "equipoise/exchange/key_needs.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "equipoise/model/workload.h"

// Work items are grouped by (member, segment), their KV heads cut wherever an item begins or ends, and for each run of
// heads the visible keys are swept from the left, holding the rounds of the items that see the current key.

namespace equipoise {
namespace {

/// What one work item needs.
struct ItemNeed {
  MemberId member;
  int64_t replica = 0;
  int64_t segment = 0;
  int64_t round = 0;
  int64_t head_begin = 0;  // KV heads
  int64_t head_end = 0;
  Range keys;
};

/// The item's keys begin (or end) to be used here.
struct Edge {
  int64_t key = 0;
  bool begins = false;
  int64_t round = 0;
  auto operator<=>(const Edge&) const = default;
};

auto segment_key(const ItemNeed& need) { return std::tuple(need.member, need.replica, need.segment); }

std::vector<ItemNeed> item_needs(std::span<const Sequence> sequences, std::span<const WorkItem> work, const Mask& mask,
                                 const Heads& heads) {
  std::vector<ItemNeed> needs;
  needs.reserve(work.size());
  for (const WorkItem& item : work) {
    const int64_t length = sequences[item.replica_in_pool].segments[item.segment].length_tokens;
    needs.push_back({item.member, item.replica_in_pool, item.segment, item.round, first_kv_head(heads, item.head_begin),
                     end_kv_head(heads, item.head_begin + item.heads),
                     visible_keys(mask, {item.q_begin, item.q_length}, length)});
  }
  std::sort(needs.begin(), needs.end(),
            [](const ItemNeed& a, const ItemNeed& b) { return segment_key(a) < segment_key(b); });
  return needs;
}

std::vector<int64_t> head_cuts(std::span<const ItemNeed> needs) {
  std::vector<int64_t> cuts;
  for (const ItemNeed& need : needs) cuts.insert(cuts.end(), {need.head_begin, need.head_end});
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// Appends [begin, end), or lengthens the last range where it goes on in the same rounds.
void append_range(std::vector<KeyRange>& ranges, int64_t begin, int64_t end, const std::multiset<int64_t>& rounds) {
  const KeyRange next{begin, end - begin, *rounds.begin(), *rounds.rbegin()};
  if (!ranges.empty()) {
    KeyRange& last = ranges.back();
    if (last.end() == begin && last.first_round == next.first_round && last.last_round == next.last_round) {
      last.length += next.length;
      return;
    }
  }
  ranges.push_back(next);
}

/// The keys that the items of one segment need for one KV head.
std::vector<KeyRange> needed_ranges(std::span<const ItemNeed> needs, int64_t head) {
  std::vector<Edge> edges;
  for (const ItemNeed& need : needs) {
    if (head < need.head_begin || head >= need.head_end) continue;
    edges.push_back({need.keys.begin, true, need.round});
    edges.push_back({need.keys.end(), false, need.round});
  }
  std::sort(edges.begin(), edges.end());
  std::vector<KeyRange> ranges;
  std::multiset<int64_t> rounds;
  int64_t from = 0;
  for (const Edge& edge : edges) {
    if (!rounds.empty() && edge.key > from) append_range(ranges, from, edge.key, rounds);
    from = edge.key;
    if (edge.begins)
      rounds.insert(edge.round);
    else
      rounds.erase(rounds.find(edge.round));
  }
  return ranges;
}

/// Appends the needs of one (member, segment).
void append_needs(std::vector<KeyNeed>& result, std::span<const ItemNeed> needs) {
  const ItemNeed& any = needs.front();
  if (needs.size() == 1) {  // most segments
    if (any.keys.length > 0)
      result.push_back({any.member,
                        any.replica,
                        any.segment,
                        any.head_begin,
                        any.head_end - any.head_begin,
                        {{any.keys.begin, any.keys.length, any.round, any.round}}});
    return;
  }
  const std::size_t first = result.size();
  const std::vector<int64_t> cuts = head_cuts(needs);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<KeyRange> ranges = needed_ranges(needs, cuts[i]);
    const int64_t heads = cuts[i + 1] - cuts[i];
    if (ranges.empty()) continue;
    if (result.size() > first && result.back().head_begin + result.back().heads == cuts[i] &&
        result.back().ranges == ranges)
      result.back().heads += heads;
    else
      result.push_back({any.member, any.replica, any.segment, cuts[i], heads, std::move(ranges)});
  }
}

}  // namespace

std::vector<KeyNeed> key_needs(std::span<const Sequence> sequences, std::span<const WorkItem> work, const Mask& mask,
                               const Heads& heads) {
  const std::vector<ItemNeed> needs = item_needs(sequences, work, mask, heads);
  std::vector<KeyNeed> result;
  for (auto begin = needs.begin(); begin != needs.end();) {
    const auto end = std::find_if(begin, needs.end(),
                                  [&](const ItemNeed& need) { return segment_key(need) != segment_key(*begin); });
    append_needs(result, std::span(begin, end));
    begin = end;
  }
  return result;
}

}  // namespace equipoise
