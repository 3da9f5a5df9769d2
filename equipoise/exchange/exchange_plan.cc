#include "equipoise/exchange/exchange_plan.h"

#include <algorithm>
#include <tuple>

#include "equipoise/exchange/key_needs.h"
#include "equipoise/model/limits.h"

// Work says who computes what; the exchange is what follows from it. Each foreign item takes its queries along; each
// member's key needs are cut at the pieces of their owners, and what is not the member's own travels once.

namespace equipoise {
namespace {

int64_t count_rounds(std::span<const WorkItem> work) {
  int64_t last = 0;
  for (const WorkItem& item : work) last = std::max(last, item.round);
  return last + 1;
}

std::vector<Message> query_messages(std::span<const WorkItem> work) {
  std::vector<Message> messages;
  for (const WorkItem& item : work) {
    if (item.owner == item.member) continue;
    messages.push_back({item.round,
                        item.owner,
                        item.member,
                        {item.replica_in_pool, item.segment, item.q_begin, item.q_length, item.head_begin, item.heads},
                        item.round});
  }
  return messages;
}

/// The first piece of the sequence that ends behind a token of a segment.
auto piece_of(const std::vector<ShardPiece>& pieces, int64_t segment, int64_t token) {
  return std::upper_bound(pieces.begin(), pieces.end(), std::tuple(segment, token),
                          [](const auto& place, const ShardPiece& piece) {
                            return place < std::tuple(piece.segment, piece.begin_tokens + piece.length_tokens);
                          });
}

void append_key_messages(std::vector<Message>& messages, const KeyNeed& need, const std::vector<ShardPiece>& pieces,
                         int64_t cp) {
  for (const KeyRange& range : need.ranges) {
    for (auto piece = piece_of(pieces, need.segment, range.begin);
         piece != pieces.end() && piece->segment == need.segment && piece->begin_tokens < range.end(); ++piece) {
      const MemberId owner{need.replica_in_pool * cp + piece->cp_rank};
      if (owner == need.member) continue;
      const int64_t begin = std::max(range.begin, piece->begin_tokens);
      const int64_t end = std::min(range.end(), piece->begin_tokens + piece->length_tokens);
      messages.push_back({range.first_round,
                          owner,
                          need.member,
                          {need.replica_in_pool, need.segment, begin, end - begin, need.head_begin, need.heads},
                          range.last_round});
    }
  }
}

}  // namespace

// Six nouns that every caller holds apart. NOLINTNEXTLINE(readability-function-size)
Exchange plan_exchange(std::span<const Sequence> sequences, std::span<const Sharding> shardings,
                       std::span<const WorkItem> work, const Mask& mask, const Heads& heads, int64_t cp) {
  Exchange exchange;
  exchange.rounds = count_rounds(work);
  exchange.queries = query_messages(work);
  for (const KeyNeed& need : key_needs(sequences, work, mask, heads))
    append_key_messages(exchange.keys, need, shardings[need.replica_in_pool].pieces, cp);
  std::sort(exchange.queries.begin(), exchange.queries.end());
  std::sort(exchange.keys.begin(), exchange.keys.end());
  return exchange;
}

void cut_messages(Exchange& exchange, int64_t most_rows, int64_t grid_rows) {
  const auto cut = [](std::vector<Message>& messages, int64_t rows) {
    std::vector<Message> parts;
    for (Message part : messages) {
      const int64_t end = part.block.begin_tokens + part.block.length_tokens;
      for (int64_t begin = part.block.begin_tokens, next = 0; begin < end; begin = next) {
        next = std::min(end, (begin / rows + 1) * rows);
        part.block.begin_tokens = begin;
        part.block.length_tokens = next - begin;
        parts.push_back(part);
      }
    }
    std::sort(parts.begin(), parts.end());
    messages = std::move(parts);
  };
  if (most_rows == no_limit) return;
  cut(exchange.keys, most_rows);
  cut(exchange.queries, grid_rows == 0 ? most_rows : std::max(most_rows / grid_rows, int64_t{1}) * grid_rows);
}

}  // namespace equipoise
