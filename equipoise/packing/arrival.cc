// Documents arrive in the input's order or shuffled; those longer than the window go through the over-long policy
// before any packing sees them. Tokens are counted after the policy: a dropped document takes no room in its step.

#include "equipoise/packing/arrival.h"

#include <algorithm>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/base/rng.h"

namespace equipoise {
namespace {

constexpr int64_t most_tokens = int64_t{1} << 40;
constexpr int64_t most_total_tokens = int64_t{1} << 60;
constexpr int64_t most_pieces = int64_t{1} << 20;  ///< of one document

std::string where(const Document& document) { return "document " + std::to_string(document.id.value); }

void check_document(const Document& document) {
  const std::string length = "length " + std::to_string(document.length_tokens);
  if (document.length_tokens < 0)
    throw InputError(length + " is negative", where(document), "give lengths of at least 0 tokens");
  if (document.length_tokens > most_tokens)
    throw InputError(length + " is absurd", where(document),
                     "give lengths of at most " + std::to_string(most_tokens) + " tokens");
  if (document.loss_tokens < 0 || document.loss_tokens > document.length_tokens)
    throw InputError("loss_tokens " + std::to_string(document.loss_tokens) + " is not within its length of " +
                         std::to_string(document.length_tokens),
                     where(document), "give from 0 to length loss tokens");
}

void check_documents(std::span<const Document> documents) {
  int64_t total = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Document& document = documents[i];
    if (document.id.value != static_cast<int64_t>(i))
      throw InputError("id " + std::to_string(document.id.value) + " stands at place " + std::to_string(i), "documents",
                       "number documents from 0 in their order");
    check_document(document);
    total += document.length_tokens;
    if (total > most_total_tokens)
      throw InputError("lengths sum to more than " + std::to_string(most_total_tokens) + " tokens", where(document),
                       "give fewer or shorter documents");
  }
}

std::vector<DocId> arrival_order(int64_t documents, const Arrival& arrival) {
  std::vector<DocId> order(documents);
  for (int64_t i = 0; i < documents; ++i) order[i] = DocId{i};
  if (!arrival.shuffle) return order;
  SplitMix64 random{static_cast<uint64_t>(arrival.seed) + static_cast<uint64_t>(arrival.epoch)};
  for (int64_t i = documents - 1; i > 0; --i)
    std::swap(order[i], order[static_cast<int64_t>(random.next() % static_cast<uint64_t>(i + 1))]);
  return order;
}

[[noreturn]] void refuse_overlong(const Document& document, int64_t window_tokens) {
  throw InputError("length " + std::to_string(document.length_tokens) + " is above the window of " +
                       std::to_string(window_tokens) + " tokens",
                   where(document), "use a larger window, or the over-long policy split, truncate or drop");
}

void check_pieces(const Document& document, int64_t window_tokens) {
  const int64_t pieces = ceil_div(document.length_tokens, window_tokens);
  if (pieces <= most_pieces) return;
  throw InputError("length " + std::to_string(document.length_tokens) + " makes " + std::to_string(pieces) +
                       " pieces of " + std::to_string(window_tokens) + " tokens",
                   where(document), "use a larger window, or the over-long policy truncate or drop");
}

/// Adds the pieces of a document that packing may place, after the over-long policy: pieces of a window (split), its
/// first window (truncate), or none (drop, or length 0); what is cut is counted.
void admit_document(const Document& document, const PlanInputs& inputs, int64_t step, Arrivals& arrivals) {
  const int64_t window = inputs.limits.window_tokens;
  int64_t length = document.length_tokens;
  if (length > window) {
    switch (inputs.arrival.overlong) {
      case Overlong::error: refuse_overlong(document, window);
      case Overlong::drop: arrivals.untrained.dropped.emplace_back(document.id, length); return;
      case Overlong::truncate:
        arrivals.untrained.truncated.emplace_back(document.id, length - window);
        length = window;
        break;
      case Overlong::split: check_pieces(document, window); break;
    }
  }
  for (int64_t begin = 0; begin < length; begin += window)
    arrivals.pieces.push_back({document.id, begin, std::min(window, length - begin), step, -1});
}

int64_t less_held(int64_t room_tokens, const PackerState& state) {
  for (const Held& piece : state.held) room_tokens -= piece.length_tokens;
  return room_tokens;
}

}  // namespace

Corpus make_corpus(std::span<const int64_t> lengths_tokens, const Arrival& arrival) {
  std::vector<Document> documents;
  documents.reserve(lengths_tokens.size());
  for (const int64_t length : lengths_tokens)
    documents.push_back({DocId{static_cast<int64_t>(documents.size())}, length, length > 0 ? length - 1 : 0});
  return make_corpus(std::move(documents), arrival);
}

Corpus make_corpus(std::vector<Document> documents, const Arrival& arrival) {
  check_documents(documents);
  std::vector<DocId> order = arrival_order(static_cast<int64_t>(documents.size()), arrival);
  return {std::move(documents), std::move(order)};
}

void check_lengths(const Corpus& corpus, int64_t window_tokens, Overlong policy) {
  if (policy != Overlong::error) return;
  for (const Document& document : corpus.documents)
    if (document.length_tokens > window_tokens) refuse_overlong(document, window_tokens);
}

int64_t admitted_tokens(const Document& document, int64_t window_tokens, Overlong policy) {
  if (document.length_tokens <= window_tokens) return document.length_tokens;
  if (policy == Overlong::drop) return 0;
  return policy == Overlong::truncate ? window_tokens : document.length_tokens;
}

Arrivals take_arrivals(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state, int64_t room_tokens) {
  Arrivals arrivals{.positions = {state.position, state.position}, .pieces = state.held, .untrained = {}};
  for (const auto end = static_cast<int64_t>(corpus.order.size()); arrivals.positions.second < end;
       ++arrivals.positions.second) {
    const Document& document = corpus.documents[corpus.order[arrivals.positions.second].value];
    const int64_t tokens = admitted_tokens(document, inputs.limits.window_tokens, inputs.arrival.overlong);
    const bool forced = arrivals.pieces.empty() && tokens > 0;
    if (tokens > room_tokens && !forced) break;
    room_tokens = std::max<int64_t>(0, room_tokens - tokens);
    admit_document(document, inputs, state.step, arrivals);
  }
  return arrivals;
}

bool has_small_memory(const Limits& limits) { return limits.max_tokens <= mul_div(limits.window_tokens, 11, 10); }

int64_t room_for_arrivals(const PlanInputs& inputs, const PackerState& state) {
  const int64_t step_tokens = inputs.sequences() * inputs.limits.window_tokens;
  const int64_t room = mul_div(state.step + 1, step_tokens, 1) - state.arrived_tokens;
  if (!has_small_memory(inputs.limits)) return std::max<int64_t>(0, room);
  const int64_t sixteenths = 8 + std::clamp<int64_t>(inputs.delay.max_delay_steps, 0, 8);
  const int64_t backlog_tokens = mul_div(step_tokens, sixteenths, 16);
  return std::max<int64_t>(0, std::min(room, less_held(step_tokens + backlog_tokens, state)));
}

int64_t room_for_window(const PlanInputs& inputs, const PackerState& state) {
  const int64_t step_tokens = inputs.sequences() * inputs.limits.window_tokens;
  return std::max<int64_t>(0, less_held(inputs.delay.repack_window_steps * step_tokens, state));
}

bool arrived_before(const Held& a, const Held& b) {
  if (a.since_step != b.since_step) return a.since_step < b.since_step;
  if (a.document != b.document) return a.document < b.document;
  return a.begin_tokens < b.begin_tokens;
}

Sequence sequence_of(std::vector<Held> pieces) {
  std::sort(pieces.begin(), pieces.end(), arrived_before);
  Sequence sequence;
  sequence.segments.reserve(pieces.size());
  for (const Held& piece : pieces)
    sequence.segments.push_back({piece.document, piece.begin_tokens, piece.length_tokens});
  return sequence;
}

PackerState state_after(const PackerState& before, const Arrivals& arrivals) {
  PackerState after{.step = before.step + 1,
                    .position = arrivals.positions.second,
                    .arrived_tokens = before.arrived_tokens,
                    .held = {}};
  for (std::size_t i = before.held.size(); i < arrivals.pieces.size(); ++i)
    after.arrived_tokens += arrivals.pieces[i].length_tokens;
  return after;
}

bool is_finished(const Corpus& corpus, const PackerState& state) {
  return state.held.empty() && state.position == static_cast<int64_t>(corpus.order.size());
}

}  // namespace equipoise
