// The global part of a step: pack documents into sequences, place sequences into slots, and say how level the result
// is. Every rank plans it alone; it is integers from end to end, so all get the same.

#include <algorithm>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/packing.h"
#include "equipoise/placement/placement.h"
#include "equipoise/planner/check_state.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"

namespace equipoise {
namespace {

PackedStep pack(PackingRule rule, const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  switch (rule) {
    case PackingRule::plain: return pack_plain(inputs, corpus, state);
    case PackingRule::fixed: return pack_fixed(inputs, corpus, state);
    case PackingRule::wlb: return pack_wlb(inputs, corpus, state);
    case PackingRule::look_ahead: return pack_look_ahead(inputs, corpus, state, 1);
  }
  return {};
}

/// The speed of a replica is that of its ranks, summed.
std::vector<int64_t> replica_speeds(const PlanInputs& inputs) {
  std::vector<int64_t> speeds;
  for (size_t rank = 0; rank < inputs.speeds_ppt.size(); ++rank) {
    if (rank % static_cast<size_t>(inputs.mesh.cp) == 0) speeds.push_back(0);
    speeds.back() += inputs.speeds_ppt[rank];
  }
  return speeds;
}

Grid grid_of(const PlanInputs& inputs) {
  return {.dp = inputs.mesh.dp,
          .pool = inputs.pool,
          .micro_steps = inputs.micro_steps,
          .dp_sync = inputs.dp_sync,
          .replica_speeds = replica_speeds(inputs)};
}

/// Sequences are placed by their whole predicted time: where all have the same tokens, by attention alone.
std::vector<Slot> place(PlacementRule rule, const PlanInputs& inputs, const std::vector<Sequence>& sequences) {
  const Grid grid = grid_of(inputs);
  std::vector<int64_t> time;
  for (const Sequence& sequence : sequences) time.push_back(sequence_time_ns(inputs, sequence));
  switch (rule) {
    case PlacementRule::as_it_comes: return place_as_it_comes(grid);
    case PlacementRule::longest_first: return place_sequences(time, grid);
  }
  return {};
}

/// Documents held before, then those that arrived, by position. Held ones arrived lately, so the walk backwards is
/// short.
std::vector<Document> listed_documents(const Corpus& corpus, const PackerState& before,
                                       std::pair<int64_t, int64_t> arrived) {
  std::vector<DocId> waiting;
  for (const Held& held : before.held) waiting.push_back(held.document);
  std::sort(waiting.begin(), waiting.end());
  waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());

  std::vector<Document> documents;
  for (int64_t position = before.position - 1; position >= 0 && documents.size() < waiting.size(); --position)
    if (std::binary_search(waiting.begin(), waiting.end(), corpus.order[position]))
      documents.push_back(corpus.documents[corpus.order[position].value]);
  std::reverse(documents.begin(), documents.end());
  for (int64_t position = arrived.first; position < arrived.second; ++position)
    documents.push_back(corpus.documents[corpus.order[position].value]);
  return documents;
}

/// Targets of one segment. By default each row has one whose next token is trained too, in this segment or another. A
/// document's own count belongs to the segment with its last trained token.
int64_t loss_tokens_of(const PlanInputs& inputs, const Document& document, const Segment& segment) {
  const int64_t extent = admitted_tokens(document, inputs.limits.window_tokens, inputs.arrival.overlong);
  const bool last = segment.begin_tokens + segment.length_tokens == extent;
  if (document.loss_tokens == document.length_tokens - 1) return segment.length_tokens - (last ? 1 : 0);
  return last ? std::min(document.loss_tokens, extent) : 0;
}

int64_t planned_loss_tokens(const PlanInputs& inputs, const Corpus& corpus, const std::vector<Sequence>& sequences) {
  int64_t total = 0;
  for (const Sequence& sequence : sequences)
    for (const Segment& segment : sequence.segments)
      total += loss_tokens_of(inputs, corpus.documents[segment.document.value], segment);
  return total;
}

/// Heaviest over mean, and the bound over mean, of `count` loads that sum to `total`; 1 where there is no work.
Balance balance_of(int64_t heaviest, int64_t bound, int64_t total, int64_t count) {
  if (total == 0) return {ppm_one, ppm_one};
  const auto ppm = [&](int64_t load) { return std::max(ppm_one, mul_div(load, count * ppm_one, total)); };
  return {ppm(heaviest), ppm(bound)};
}

/// The heaviest segment alone: a sequence that holds it is at least as heavy.
int64_t heaviest_segment(const PlanInputs& inputs, const std::vector<Sequence>& sequences) {
  int64_t heaviest = 0;
  for (const Sequence& sequence : sequences)
    for (const Segment& segment : sequence.segments)
      heaviest = std::max(heaviest, sequence_work_ns(inputs, Sequence{{segment}}));
  return heaviest;
}

/// How level attention is between the sequences, and between what pools wait for.
void weigh(const PlanInputs& inputs, const std::vector<Sequence>& sequences, StepPlan& step) {
  std::vector<int64_t> work;
  for (const Sequence& sequence : sequences) work.push_back(sequence_work_ns(inputs, sequence));
  const Waited pools = measure_waiting(work, step.slots, grid_of(inputs));
  int64_t total = 0;
  for (const int64_t load : work) total += load;
  step.micro_batches = balance_of(*std::max_element(work.begin(), work.end()), heaviest_segment(inputs, sequences),
                                  total, inputs.sequences());
  step.pools = balance_of(pools.work, pools.lower_bound, total, inputs.mesh.dp / inputs.pool);
}

/// The step that a packing and a placement make.
StepPlan assemble(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state, PackedStep packed,
                  PlacementRule placement) {
  if (!packed.violations.empty()) {
    const Violation& first = packed.violations.front();
    throw InputError("the step cannot be packed: " + first.what, first.where,
                     "raise max_tokens, or relax the rule '" + first.rule + "'");
  }
  StepPlan step;
  step.slots = place(placement, inputs, packed.sequences);
  step.step = state.step;
  step.inputs_hash = hash_inputs(inputs);
  step.arrived = packed.arrived;
  step.documents = listed_documents(corpus, state, packed.arrived);
  step.loss_tokens = planned_loss_tokens(inputs, corpus, packed.sequences);
  step.buckets = make_buckets(step.slots, inputs.mesh.dp, inputs.pool);
  weigh(inputs, packed.sequences, step);
  step.sequences = std::move(packed.sequences);
  step.untrained = std::move(packed.untrained);
  step.state_after = std::move(packed.after);
  return step;
}

/// What the step is predicted to last over what its documents take on level ranks, parts per million: by its pool with
/// the most work alone, so that the price of asking does not grow with the cluster.
int64_t lost_ppm(const PlanInputs& inputs, const StepPlan& step) {
  const int64_t pools = inputs.mesh.dp / inputs.pool;
  std::vector<int64_t> work(pools, 0);
  int64_t total = 0;
  for (const Bucket& bucket : step.buckets)
    for (const SeqId id : bucket.sequences) {
      const int64_t time = sequence_time_ns(inputs, step.sequences[static_cast<size_t>(id.value)]);
      work[bucket.pool] += time;
      total += time;
    }
  if (total == 0) return ppm_one;
  const auto heaviest = std::max_element(work.begin(), work.end()) - work.begin();
  std::vector<std::vector<PassTime>> times;
  for (const BucketPlan& bucket : plan_pool(inputs, step, heaviest)) times.push_back(replica_times(inputs, bucket));
  return mul_div(step_time_ns(inputs.dp_sync, times, 1), inputs.mesh.dp * ppm_one, total);
}

/// Look-ahead for a pool: buckets are levelled where sharing attention pays, else sequences.
StepPlan look_ahead_for_pool(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  StepPlan shared =
      assemble(inputs, corpus, state, pack_look_ahead(inputs, corpus, state, inputs.pool), PlacementRule::as_it_comes);
  StepPlan alone =
      assemble(inputs, corpus, state, pack_look_ahead(inputs, corpus, state, 1), PlacementRule::longest_first);
  return lost_ppm(inputs, alone) < lost_ppm(inputs, shared) ? alone : shared;
}

}  // namespace

StepPlan plan_step(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state) {
  const Stages stages = stages_of(inputs);
  check_inside(corpus, state);
  if (is_finished(corpus, state))
    throw InputError("no document is left to plan", "step " + std::to_string(state.step),
                     "begin another epoch, or give more documents");
  if (stages.packing == PackingRule::look_ahead && inputs.pool > 1) return look_ahead_for_pool(inputs, corpus, state);
  return assemble(inputs, corpus, state, pack(stages.packing, inputs, corpus, state), stages.placement);
}

void check_corpus(const PlanInputs& inputs, const Corpus& corpus) {
  check_lengths(corpus, inputs.limits.window_tokens, inputs.arrival.overlong);
  if (stages_of(inputs).packing == PackingRule::look_ahead) check_promise(inputs, corpus);
}

}  // namespace equipoise
