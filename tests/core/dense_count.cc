#include "tests/core/dense_count.h"

#include <algorithm>
#include <map>
#include <vector>

namespace equipoise {
namespace {

/// One segment of a bucket in full: [row], [row, query head] and [member, row, head].
struct DenseSegment {
  int64_t length = 0;
  std::vector<int64_t> owner;
  std::vector<int64_t> executor, round;
  std::vector<int64_t> query_round;          // of the arrival at a member; -1: did not arrive
  std::vector<int64_t> key_round, key_last;  // the same for keys, with the last round in which they are there
  std::vector<bool> key_used;
};

struct DenseBucket {
  const PlanInputs& inputs;
  const BucketPlan& bucket;
  int64_t mask_index;
  std::map<std::pair<int64_t, int64_t>, DenseSegment> segments;  // (replica, segment)

  const Mask& mask() const { return inputs.masks[mask_index]; }
  const LayerPlan& layer() const { return bucket.layers[mask_index]; }
  size_t query(int64_t row, int64_t head) const { return row * inputs.heads.query + head; }
  size_t query(const DenseSegment& s, int64_t member, int64_t row, int64_t head) const {
    return (member * s.length + row) * inputs.heads.query + head;
  }
  size_t key(const DenseSegment& s, int64_t member, int64_t row, int64_t head) const {
    return (member * s.length + row) * inputs.heads.kv + head;
  }
};

bool allowed(const Mask& mask, int64_t row, int64_t key) {
  if (mask.kind == MaskKind::full) return true;
  if (mask.kind == MaskKind::causal) return key <= row;
  return key <= row && row - key < mask.window_tokens;
}

std::string own_rows(DenseBucket& dense) {
  const int64_t members = dense.inputs.members();
  for (int64_t replica = 0; replica < dense.inputs.pool; ++replica) {
    const auto& segments = dense.bucket.sequences[replica].segments;
    for (size_t i = 0; i < segments.size(); ++i) {
      const int64_t length = segments[i].length_tokens;
      const size_t queries = length * dense.inputs.heads.query, keys = members * length * dense.inputs.heads.kv;
      dense.segments[{replica, static_cast<int64_t>(i)}] = {length,
                                                            std::vector<int64_t>(length, -1),
                                                            std::vector<int64_t>(queries),
                                                            std::vector<int64_t>(queries),
                                                            std::vector<int64_t>(members * queries, -1),
                                                            std::vector<int64_t>(keys, -1),
                                                            std::vector<int64_t>(keys, -1),
                                                            std::vector<bool>(keys)};
    }
    for (const ShardPiece& piece : dense.bucket.shardings[replica].pieces)
      for (int64_t i = 0; i < piece.length_tokens; ++i)
        dense.segments.at({replica, piece.segment}).owner.at(piece.begin_tokens + i) =
            replica * dense.inputs.mesh.cp + piece.cp_rank;
  }
  for (auto& [place, segment] : dense.segments)
    for (int64_t row = 0; row < segment.length; ++row)
      for (int64_t head = 0; head < dense.inputs.heads.query; ++head) {
        if (segment.owner[row] < 0) return "a row has no owner";
        segment.executor[dense.query(row, head)] = segment.owner[row];
      }
  return "";
}

std::string give_tiles(DenseBucket& dense) {
  std::map<std::pair<int64_t, int64_t>, std::vector<bool>> given;
  for (const Tile& tile : dense.layer().tiles) {
    const std::pair place(tile.replica_in_pool, tile.segment);
    DenseSegment& segment = dense.segments.at(place);
    given[place].resize(segment.executor.size());
    for (int64_t row = tile.q_begin; row < tile.q_begin + tile.q_length; ++row)
      for (int64_t head = tile.head_begin; head < tile.head_begin + tile.heads; ++head) {
        if (row < 0 || row >= segment.length || head < 0 || head >= dense.inputs.heads.query)
          return "a tile is outside";
        const size_t cell = dense.query(row, head);
        if (given[place][cell]) return "two tiles name the same row and head";
        if (tile.member.value == segment.owner[row]) return "a tile goes to the owner";
        given[place][cell] = true;
        segment.executor[cell] = tile.member.value;
        segment.round[cell] = tile.round;
      }
  }
  return "";
}

std::string deliver(DenseBucket& dense, const std::vector<Message>& messages, bool keys) {
  for (const Message& message : messages) {
    const RowBlock& block = message.block;
    DenseSegment& segment = dense.segments.at({block.replica_in_pool, block.segment});
    const int64_t heads = keys ? dense.inputs.heads.kv : dense.inputs.heads.query;
    if (message.round < 0 || message.last_round >= dense.layer().exchange.rounds) return "a message is in no round";
    for (int64_t row = block.begin_tokens; row < block.begin_tokens + block.length_tokens; ++row)
      for (int64_t head = block.head_begin; head < block.head_begin + block.heads; ++head) {
        if (row < 0 || row >= segment.length || head < 0 || head >= heads) return "a message is outside";
        if (segment.owner[row] != message.from.value || message.from == message.to) return "a sender does not own";
        const int64_t to = message.to.value;
        int64_t& arrived = keys ? segment.key_round.at(dense.key(segment, to, row, head))
                                : segment.query_round.at(dense.query(segment, to, row, head));
        if (arrived >= 0) return "a cell arrives twice";
        arrived = message.round;
        if (keys) segment.key_last[dense.key(segment, to, row, head)] = message.last_round;
      }
  }
  return "";
}

/// All pairs of one query row and head.
std::string compute_row(DenseBucket& dense, DenseSegment& segment, int64_t row, int64_t head) {
  const int64_t member = segment.executor[dense.query(row, head)];
  const int64_t round = segment.round[dense.query(row, head)];
  for (int64_t any = 0; any < dense.inputs.members(); ++any) {
    const int64_t expected = any == member && member != segment.owner[row] ? round : -1;
    if (segment.query_round[dense.query(segment, any, row, head)] != expected)
      return "a query is not where it is computed";
  }
  if (round >= dense.layer().exchange.rounds) return "a round does not exist";
  for (int64_t key = 0; key < segment.length; ++key) {
    if (!allowed(dense.mask(), row, key) || segment.owner[key] == member) continue;
    const size_t cell = dense.key(segment, member, key, head / dense.inputs.heads.group());
    if (segment.key_round[cell] < 0 || segment.key_round[cell] > round || segment.key_last[cell] < round)
      return "a key is not there";
    segment.key_used[cell] = true;
  }
  return "";
}

}  // namespace

std::string dense_attention_fault(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index) {
  DenseBucket dense{inputs, bucket, mask_index, {}};
  std::string fault = own_rows(dense);
  if (fault.empty()) fault = give_tiles(dense);
  if (fault.empty()) fault = deliver(dense, dense.layer().exchange.queries, false);
  if (fault.empty()) fault = deliver(dense, dense.layer().exchange.keys, true);
  for (auto& [place, segment] : dense.segments) {
    for (int64_t row = 0; row < segment.length; ++row)
      for (int64_t head = 0; head < inputs.heads.query && fault.empty(); ++head)
        fault = compute_row(dense, segment, row, head);
    for (size_t cell = 0; cell < segment.key_round.size() && fault.empty(); ++cell)
      if (segment.key_round[cell] >= 0 && !segment.key_used[cell]) fault = "a key travels for nothing";
  }
  return fault;
}

std::string dense_sharding_fault(const Sequence& sequence, const Sharding& sharding, const PlanInputs& inputs) {
  const int64_t cp = inputs.mesh.cp;
  const Limits& limits = inputs.limits;
  std::vector<std::vector<int64_t>> owners;
  for (const Segment& segment : sequence.segments) owners.emplace_back(segment.length_tokens, 0);
  std::vector<int64_t> owned(cp);
  for (const ShardPiece& piece : sharding.pieces)
    for (int64_t i = 0; i < piece.length_tokens; ++i) {
      ++owners.at(piece.segment).at(piece.begin_tokens + i);
      ++owned.at(piece.cp_rank);
    }
  for (const auto& segment : owners)
    for (const int64_t count : segment)
      if (count != 1) return "a token has " + std::to_string(count) + " owners";
  const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
  if (*most - *least > limits.align_tokens) return "ranks are not level";
  const bool even = sharding.rule == ShardingRule::sequence_zigzag && inputs.mesh.tp > 1 && limits.align_tokens > 1;
  int64_t rows = *most;  // of the fullest rank
  while (rows % limits.align_tokens != 0 || (even && rows % 2 != 0)) ++rows;
  return rows > (limits.max_tokens + cp - 1) / cp ? "a rank has too many rows" : "";
}

std::string dense_placement_fault(const PlanInputs& inputs, const StepPlan& step) {
  std::vector<int64_t> sequence_of(inputs.sequences(), -1);
  if (step.slots.size() != sequence_of.size()) return "another number of slots";
  for (size_t s = 0; s < step.slots.size(); ++s) {
    int64_t& place = sequence_of.at(step.slots[s].micro_step * inputs.mesh.dp + step.slots[s].replica);
    if (place >= 0) return "a slot holds two sequences";
    place = static_cast<int64_t>(s);
  }
  size_t next = 0;
  for (const Bucket& bucket : step.buckets)
    for (int64_t r = 0; r < inputs.pool; ++r, ++next) {
      const int64_t slot = bucket.micro_step * inputs.mesh.dp + bucket.pool * inputs.pool + r;
      if (slot != static_cast<int64_t>(next) || sequence_of.at(next) != bucket.sequences.at(r).value)
        return "a bucket holds another sequence than its slot";
    }
  return next == sequence_of.size() ? "" : "a bucket is missing";
}

std::string dense_packing_fault(const PlanInputs& inputs, const PackerState& before, const StepPlan& step) {
  const int64_t window = inputs.limits.window_tokens;
  std::map<DocId, std::vector<int64_t>> balance;  // in minus out, by token
  std::map<DocId, int64_t> extent;                // tokens that the over-long policy leaves
  std::map<DocId, Document> documents;
  for (const Document& document : step.documents) {
    const bool cut = document.length_tokens > window && inputs.arrival.overlong != Overlong::split;
    extent[document.id] = !cut ? document.length_tokens : inputs.arrival.overlong == Overlong::drop ? 0 : window;
    balance[document.id].assign(extent[document.id], 1);
    documents[document.id] = document;
  }
  for (const Held& held : before.held) std::fill(balance.at(held.document).begin(), balance.at(held.document).end(), 0);
  for (const Held& held : before.held)
    for (int64_t i = 0; i < held.length_tokens; ++i) ++balance.at(held.document).at(held.begin_tokens + i);
  int64_t targets = 0;
  for (const Sequence& sequence : step.sequences) {
    if (sequence.tokens() > inputs.limits.max_tokens) return "a sequence is too long";
    if (std::ssize(sequence.segments) > inputs.limits.max_documents) return "a sequence has too many segments";
    for (const Segment& segment : sequence.segments)
      for (int64_t i = segment.begin_tokens; i < segment.begin_tokens + segment.length_tokens; ++i) {
        const Document& document = documents.at(segment.document);
        const bool last = i + 1 == extent.at(segment.document);
        --balance.at(segment.document).at(i);
        if (document.loss_tokens == document.length_tokens - 1)
          targets += last ? 0 : 1;
        else if (last)
          targets += std::min(document.loss_tokens, i + 1);
      }
  }
  for (const Held& held : step.state_after.held)
    for (int64_t i = 0; i < held.length_tokens; ++i) --balance.at(held.document).at(held.begin_tokens + i);
  for (const auto& [document, tokens] : balance)
    if (std::any_of(tokens.begin(), tokens.end(), [](int64_t count) { return count != 0; }))
      return "a token is lost or twice";
  return targets == step.loss_tokens ? "" : "targets are not counted right";
}

}  // namespace equipoise
