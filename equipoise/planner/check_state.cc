// A saved state comes from a file, which can be damaged or belong to another run. What packing left is checked here
// once, against the documents and the inputs, so that every step can trust it.
#include "equipoise/planner/check_state.h"

#include <algorithm>
#include <map>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"

namespace equipoise {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw InputError(what, "sampler state", "use the documents, seed and options with which the state was saved");
}

std::string document(const Held& held) { return "held document " + std::to_string(held.document.value); }

void check_progress(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  int64_t tokens = 0;
  std::vector<bool> has_arrived(corpus.documents.size(), false);
  for (int64_t position = 0; position < state.position; ++position) {
    const DocId id = corpus.order[static_cast<size_t>(position)];
    const Document& arrived = corpus.documents[static_cast<size_t>(id.value)];
    has_arrived[static_cast<size_t>(id.value)] = true;
    tokens += admitted_tokens(arrived, inputs.limits.window_tokens, inputs.arrival.overlong);
  }
  if (tokens != state.arrived_tokens)
    refuse("arrived_tokens " + std::to_string(state.arrived_tokens) + " are not the " + std::to_string(tokens) +
           " of the first " + std::to_string(state.position) + " documents");
  for (const Held& held : state.held)
    if (!has_arrived[static_cast<size_t>(held.document.value)]) refuse(document(held) + " has not arrived yet");
}

void check_overlaps(const PackerState& state) {
  std::vector<Held> sorted = state.held;
  std::sort(sorted.begin(), sorted.end(), [](const Held& a, const Held& b) {
    return std::pair(a.document, a.begin_tokens) < std::pair(b.document, b.begin_tokens);
  });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].document == sorted[i - 1].document &&
        sorted[i].begin_tokens < sorted[i - 1].begin_tokens + sorted[i - 1].length_tokens)
      refuse(document(sorted[i]) + " is held twice");
}

/// What a queue number means depends on the packing: an outlier queue, or a sequence that is planned already.
void check_queues(const PlanInputs& inputs, const PackerState& state) {
  const PackingRule packing = stages_of(inputs).packing;
  int64_t queues = 0;
  if (packing == PackingRule::wlb) queues = static_cast<int64_t>(inputs.delay.queue_tokens.size());
  if (packing == PackingRule::fixed) queues = inputs.sequences() * inputs.delay.repack_window_steps;
  std::map<int64_t, std::pair<int64_t, int64_t>> planned;  // by queue: tokens, segments
  for (const Held& held : state.held) {
    if (held.queue < -1 || held.queue >= queues)
      refuse(document(held) + " is in queue " + std::to_string(held.queue) + " of " + std::to_string(queues));
    planned[held.queue].first += held.length_tokens;
    ++planned[held.queue].second;
  }
  if (packing != PackingRule::fixed) return;
  for (const auto& [queue, load] : planned)
    if (queue >= 0 && (load.first > inputs.limits.window_tokens || load.second > inputs.limits.max_documents))
      refuse("the sequence planned in queue " + std::to_string(queue) + " has " + std::to_string(load.first) +
             " tokens in " + std::to_string(load.second) + " pieces");
}

void check_ages(const PlanInputs& inputs, const PackerState& state) {
  if (stages_of(inputs).packing != PackingRule::look_ahead) return;
  for (const Held& held : state.held)
    if (state.step - held.since_step > inputs.delay.max_delay_steps)
      refuse(document(held) + " has waited since step " + std::to_string(held.since_step) + " at step " +
             std::to_string(state.step));
}

}  // namespace

void check_inside(const Corpus& corpus, const PackerState& state) {
  const auto documents = static_cast<int64_t>(corpus.documents.size());
  if (state.step < 0 || state.position < 0 || state.position > documents)
    refuse("position " + std::to_string(state.position) + " at step " + std::to_string(state.step) + " does not fit " +
           std::to_string(documents) + " documents");
  for (const Held& held : state.held) {
    const int64_t id = held.document.value;
    const bool known = id >= 0 && id < documents;
    const bool inside =
        known && held.begin_tokens >= 0 && held.length_tokens > 0 &&
        held.length_tokens <= corpus.documents[static_cast<size_t>(id)].length_tokens - held.begin_tokens;
    if (!inside || held.since_step < 0 || held.since_step > state.step)
      refuse(document(held) + " does not fit the documents");
  }
}

void check_state(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  check_inside(corpus, state);
  check_overlaps(state);
  check_progress(inputs, corpus, state);
  check_queues(inputs, state);
  check_ages(inputs, state);
}

}  // namespace equipoise
