// The global part of a step: documents in, sequences and slots out. Held documents are rows [id, begin, length, since
// step, queue] in Python.

#include "bindings/bindings.h"
#include "equipoise/base/hash.h"
#include "equipoise/model/plan_hash.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"

namespace equipoise::bindings {
namespace {

using Row = std::vector<int64_t>;
using HeldRow = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;

std::vector<HeldRow> held_rows(const PackerState& state) {
  std::vector<HeldRow> rows;
  for (const Held& held : state.held)
    rows.emplace_back(held.document.value, held.begin_tokens, held.length_tokens, held.since_step, held.queue);
  return rows;
}

PackerState make_state(int64_t step, int64_t position, int64_t arrived_tokens, const std::vector<HeldRow>& rows) {
  PackerState state{.step = step, .position = position, .arrived_tokens = arrived_tokens, .held = {}};
  for (const auto& [document, begin, length, since, queue] : rows)
    state.held.push_back({DocId{document}, begin, length, since, queue});
  return state;
}

/// By document: its length, and its loss tokens where they are given (an empty array: the default).
Corpus make_documents(IntArray lengths, IntArray loss_tokens, const Arrival& arrival) {
  const std::span<const int64_t> tokens(lengths.data(), lengths.size());
  if (loss_tokens.size() == 0) return make_corpus(tokens, arrival);
  std::vector<Document> documents;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    documents.push_back({DocId{static_cast<int64_t>(i)}, tokens[i], loss_tokens.data()[i]});
  return make_corpus(std::move(documents), arrival);
}

std::vector<Row> token_rows(const std::vector<std::pair<DocId, int64_t>>& tokens) {
  std::vector<Row> rows;
  for (const auto& [document, count] : tokens) rows.push_back({document.value, count});
  return rows;
}

/// [segments, 3]: document, begin, length, sequence after sequence.
nb::object segment_rows(const StepPlan& step) {
  Row words;
  for (const Sequence& sequence : step.sequences)
    for (const Segment& segment : sequence.segments)
      words.insert(words.end(), {segment.document.value, segment.begin_tokens, segment.length_tokens});
  return to_numpy(std::move(words), 3);
}

std::vector<std::vector<Row>> bucket_rows(const StepPlan& step) {
  std::vector<std::vector<Row>> rows;
  for (const Bucket& bucket : step.buckets) {
    Row sequences;
    for (const SeqId sequence : bucket.sequences) sequences.push_back(sequence.value);
    rows.push_back({{bucket.micro_step, bucket.pool}, sequences});
  }
  return rows;
}

std::pair<int64_t, int64_t> ppm(const Balance& balance) { return {balance.imbalance_ppm, balance.lower_bound_ppm}; }

}  // namespace

void init_steps(nb::module_& module) {
  nb::class_<Corpus>(module, "Corpus")
      .def_prop_ro("documents", [](const Corpus& corpus) { return corpus.documents.size(); })
      .def("hash", [](const Corpus& corpus) { return hash_documents(corpus.documents); })
      .def("length",
           [](const Corpus& corpus, int64_t document) { return corpus.documents.at(document).length_tokens; });
  nb::class_<PackerState>(module, "PackerState")
      .def_ro("step", &PackerState::step)
      .def_ro("position", &PackerState::position)
      .def_ro("arrived_tokens", &PackerState::arrived_tokens)
      .def_prop_ro("held", &held_rows);
  nb::class_<StepPlan>(module, "StepPlan")
      .def_ro("step", &StepPlan::step)
      .def_ro("loss_tokens", &StepPlan::loss_tokens)
      .def_ro("state_after", &StepPlan::state_after)
      .def_prop_ro("dropped", [](const StepPlan& step) { return token_rows(step.untrained.dropped); })
      .def_prop_ro("truncated", [](const StepPlan& step) { return token_rows(step.untrained.truncated); })
      .def_prop_ro("micro_batches", [](const StepPlan& step) { return ppm(step.micro_batches); })
      .def_prop_ro("pools", [](const StepPlan& step) { return ppm(step.pools); })
      .def_prop_ro("buckets", &bucket_rows)
      .def_prop_ro("segments", &segment_rows)
      .def("hash", &hash_step);
  module.def("make_corpus", &make_documents, Unlocked());
  module.def("make_state", &make_state);
  module.def("check_corpus", [](const Corpus& corpus, const PlanInputs& inputs) { check_corpus(inputs, corpus); });
  module.def("check_state", [](const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
    check_state(inputs, corpus, state);
  });
  module.def("default_max_delay",
             [](const std::string& strategy) { return default_max_delay(parse_strategy(strategy)); });
  module.def("check_strategy", [](const PlanInputs& inputs) { stages_of(inputs); });
  module.def("admitted_tokens", [](const Corpus& corpus, const PlanInputs& inputs, int64_t document) {
    return admitted_tokens(corpus.documents.at(document), inputs.limits.window_tokens, inputs.arrival.overlong);
  });
  module.def("is_finished", &is_finished);
  module.def("plan_step", &plan_step, Unlocked());
  module.def("hash_text", [](const std::string& text) { return hash_bytes(text); });
}

}  // namespace equipoise::bindings
