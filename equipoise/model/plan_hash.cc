// A plan as one run of words, each list with its length in front, so that no two plans share their words.

#include "equipoise/model/plan_hash.h"

#include "equipoise/base/hash.h"

namespace equipoise {
namespace {

class Words {
 public:
  template <class... Value>
  void add(Value... values) {
    const int64_t words[] = {static_cast<int64_t>(values)...};
    hash_ = hash_words(words, hash_);
  }
  template <class List, class Each>
  void add_list(const List& list, Each add_one) {
    add(list.size());
    for (const auto& item : list) add_one(item);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = hash_start;
};

void add_documents(Words& words, std::span<const Document> documents) {
  words.add_list(documents, [&](const Document& d) { words.add(d.id.value, d.length_tokens, d.loss_tokens); });
}

void add_sequences(Words& words, const std::vector<Sequence>& sequences) {
  words.add_list(sequences, [&](const Sequence& sequence) {
    words.add_list(sequence.segments,
                   [&](const Segment& s) { words.add(s.document.value, s.begin_tokens, s.length_tokens); });
  });
}

void add_tokens(Words& words, const std::vector<std::pair<DocId, int64_t>>& tokens) {
  words.add_list(tokens, [&](const auto& entry) { words.add(entry.first.value, entry.second); });
}

}  // namespace

uint64_t hash_documents(std::span<const Document> documents) {
  Words words;
  add_documents(words, documents);
  return words.hash();
}

uint64_t hash_step(const StepPlan& step) {
  Words words;
  words.add(step.step, step.inputs_hash, step.arrived.first, step.arrived.second, step.loss_tokens);
  add_documents(words, step.documents);
  add_sequences(words, step.sequences);
  words.add_list(step.slots, [&](const Slot& slot) { words.add(slot.micro_step, slot.replica); });
  add_tokens(words, step.untrained.dropped);
  add_tokens(words, step.untrained.truncated);
  words.add(step.state_after.step, step.state_after.position);
  words.add_list(step.state_after.held, [&](const Held& h) {
    words.add(h.document.value, h.begin_tokens, h.length_tokens, h.since_step, h.queue);
  });
  for (const Balance& balance : {step.micro_batches, step.pools})
    words.add(balance.imbalance_ppm, balance.lower_bound_ppm);
  return words.hash();
}

uint64_t hash_bucket(const BucketPlan& bucket) {
  Words words;
  words.add(bucket.bucket.micro_step, bucket.bucket.pool);
  add_sequences(words, bucket.sequences);
  words.add_list(bucket.shardings, [&](const Sharding& sharding) {
    words.add(sharding.rule);
    words.add_list(sharding.pieces,
                   [&](const ShardPiece& p) { words.add(p.segment, p.begin_tokens, p.length_tokens, p.cp_rank); });
  });
  words.add_list(bucket.layers, [&](const LayerPlan& layer) {
    words.add(layer.exchange.rounds);
    words.add_list(layer.tiles, [&](const Tile& t) {
      words.add(t.replica_in_pool, t.segment, t.q_begin, t.q_length, t.head_begin, t.heads, t.member.value, t.round);
    });
  });
  return words.hash();
}

}  // namespace equipoise
