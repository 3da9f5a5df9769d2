// The greedy of WLB-LLM: documents above the first threshold wait in queues until there is one for each sequence;
// everything else is packed at once, longest first, by predicted time.
#include <algorithm>

#include "equipoise/cost/cost.h"
#include "equipoise/packing/loads.h"
#include "equipoise/packing/longest_first.h"
#include "equipoise/packing/packing.h"

namespace equipoise {
namespace {

/// What a step packs, in order, and what stays in queues.
struct Release {
  std::vector<Waiting> packed_first;  ///< due ones and leftovers of the last step, in the order they were left
  std::vector<Waiting> packed_next;   ///< released outliers and new documents
  std::vector<Held> queued;           ///< by queue, first in first out
};

/// The queue of a document: the last threshold that it reaches, or -1.
int64_t queue_of(const Delay& delay, int64_t length_tokens) {
  const auto above = std::upper_bound(delay.queue_tokens.begin(), delay.queue_tokens.end(), length_tokens);
  return above - delay.queue_tokens.begin() - 1;
}

/// What waits, sorted by why it does.
struct Waiters {
  std::vector<Waiting> due;        ///< oldest first, then longest
  std::vector<Waiting> leftovers;  ///< in the order they were left
  std::vector<Waiting> arrived;
  std::vector<std::vector<Held>> queues;  ///< first in first out
};

/// `pieces` are `held` ones of earlier steps, then those that arrived.
Waiters sort_waiters(const PlanInputs& inputs, const std::vector<Held>& pieces, size_t held, const Caps& caps,
                     int64_t step) {
  Waiters waiters;
  waiters.queues.resize(inputs.delay.queue_tokens.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    Held piece = pieces[i];
    const int64_t queue = i < held ? piece.queue : queue_of(inputs.delay, piece.length_tokens);
    piece.queue = -1;
    const Waiting timed{piece, document_time_ns(inputs, piece.length_tokens)};
    if (caps.is_due(timed, step)) {
      waiters.due.push_back(timed);
    } else if (queue >= 0) {
      piece.queue = queue;
      waiters.queues[static_cast<size_t>(queue)].push_back(piece);
    } else {
      (i < held ? waiters.leftovers : waiters.arrived).push_back(timed);
    }
  }
  std::sort(waiters.due.begin(), waiters.due.end(), [](const Waiting& a, const Waiting& b) {
    return a.held.since_step != b.held.since_step ? a.held.since_step < b.held.since_step : longer(a, b);
  });
  return waiters;
}

std::vector<Waiting> longest_first(const std::vector<Waiting>& pieces) {
  std::vector<Item> items = items_of(pieces);
  sort_longest_first(items);
  std::vector<Waiting> sorted;
  sorted.reserve(pieces.size());
  for (const Item& item : items) sorted.push_back(pieces[item.index]);
  return sorted;
}

/// Queues that hold one piece for each sequence release them, and all do when nothing more arrives.
Release release(const PlanInputs& inputs, Waiters waiters, bool draining) {
  const bool idle = waiters.due.empty() && waiters.leftovers.empty() && waiters.arrived.empty();
  const auto fullest = std::max_element(waiters.queues.begin(), waiters.queues.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const auto sequences = static_cast<size_t>(inputs.sequences());
  Release result{std::move(waiters.due), std::move(waiters.arrived), {}};
  result.packed_first.insert(result.packed_first.end(), waiters.leftovers.begin(), waiters.leftovers.end());
  for (auto queue = waiters.queues.begin(); queue != waiters.queues.end(); ++queue) {
    // A step trains something: where all that arrived is an outlier, the fullest queue gives what it has.
    const bool gives = queue->size() >= sequences || draining || (idle && queue == fullest);
    const size_t given = gives ? std::min(queue->size(), sequences) : 0;
    for (size_t i = 0; i < queue->size(); ++i) {
      Held piece = (*queue)[i];
      if (i >= given) {
        result.queued.push_back(piece);
        continue;
      }
      piece.queue = -1;
      result.packed_next.push_back({piece, document_time_ns(inputs, piece.length_tokens)});
    }
  }
  result.packed_next = longest_first(result.packed_next);
  return result;
}

/// The lightest sequence if the piece fits there, else the one with the fewest tokens if it fits there, else none.
int64_t choose_sequence(const Loads& loads, const Caps& caps, int64_t tokens) {
  const auto& all = loads.by_sequence();
  if (caps.admits(all[static_cast<size_t>(loads.lightest())], tokens)) return loads.lightest();
  const auto shortest =
      std::min_element(all.begin(), all.end(), [](const Load& a, const Load& b) { return a.tokens < b.tokens; });
  return caps.admits(*shortest, tokens) ? shortest - all.begin() : -1;
}

}  // namespace

PackedStep pack_wlb(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  const Caps caps{inputs.limits.max_tokens, inputs.limits.max_documents, inputs.delay.max_delay_steps};
  Arrivals arrivals = take_arrivals(inputs, corpus, state, room_for_arrivals(inputs, state));
  PackedStep step{.arrived = arrivals.positions,
                  .sequences = {},
                  .untrained = std::move(arrivals.untrained),
                  .after = state_after(state, arrivals),
                  .violations = {}};
  const bool draining = step.after.position == static_cast<int64_t>(corpus.order.size());
  Release order = release(inputs, sort_waiters(inputs, arrivals.pieces, state.held.size(), caps, state.step), draining);
  std::vector<std::vector<Held>> packed(static_cast<size_t>(inputs.sequences()));
  Loads loads(inputs.sequences());
  int64_t admitted_until = state.step;  // nothing younger may overtake a due piece that finds no room
  for (const auto* pieces : {&order.packed_first, &order.packed_next}) {
    for (const Waiting& piece : *pieces) {
      const int64_t since = piece.held.since_step;
      const int64_t sequence = since <= admitted_until ? choose_sequence(loads, caps, piece.held.length_tokens) : -1;
      if (sequence < 0) {
        step.after.held.push_back(piece.held);
        if (caps.is_due(piece, state.step)) admitted_until = std::min(admitted_until, since);
        continue;
      }
      loads.add(sequence, item_of(piece, 0));
      packed[static_cast<size_t>(sequence)].push_back(piece.held);
    }
  }
  for (auto& pieces : packed) step.sequences.push_back(sequence_of(std::move(pieces)));
  step.after.held.insert(step.after.held.end(), order.queued.begin(), order.queued.end());
  return step;
}

}  // namespace equipoise
