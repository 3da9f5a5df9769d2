#include <algorithm>
#include <tuple>

#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/verify/verify.h"
#include "tests/core/dense_count.h"
#include "tests/core/mutations.h"

namespace equipoise {
namespace {

struct PackedPlan {
  PlanInputs inputs;
  PackerState before;
  StepPlan step;
  bool operator==(const PackedPlan&) const = default;
};

/// Documents of several steps, some with their own targets, some longer than a whole step.
Corpus random_corpus(SplitMix64& rng, const PlanInputs& inputs) {
  std::vector<Document> documents;
  for (int64_t part = random_between(rng, 1, 3); part > 0; --part)
    for (int64_t length : random_lengths(rng, inputs)) {
      if (random_between(rng, 0, 39) == 0) length += inputs.sequences() * inputs.limits.window_tokens;
      const int64_t targets =
          random_between(rng, 0, 3) == 0 ? random_between(rng, 0, length) : std::max<int64_t>(0, length - 1);
      documents.push_back({DocId{static_cast<int64_t>(documents.size())}, length, targets});
    }
  return make_corpus(std::move(documents), inputs.arrival);
}

/// One of the first steps of a run.
PackedPlan make_plan(uint64_t seed) {
  SplitMix64 rng{seed};
  PackedPlan plan;
  plan.inputs = random_inputs(rng);
  if (random_between(rng, 0, 2) == 0) plan.inputs.strategy = Strategy::fixed;
  if (random_between(rng, 0, 3) == 0) plan.inputs.limits.max_documents = random_between(rng, 2, 8);
  const Corpus corpus = random_corpus(rng, plan.inputs);
  plan.step = plan_step(plan.inputs, corpus, plan.before);
  for (int64_t steps = random_between(rng, 0, 3); steps > 0 && !is_finished(corpus, plan.step.state_after); --steps) {
    plan.before = plan.step.state_after;
    plan.step = plan_step(plan.inputs, corpus, plan.before);
  }
  return plan;
}

/// Equal but for the order of lists.
bool same(const PackedPlan& a, const PackedPlan& b) {
  const auto normal = [](PackedPlan plan) {
    const auto segment_key = [](const Segment& x) { return std::tuple(x.document, x.begin_tokens, x.length_tokens); };
    const auto by_segment = [=](const Segment& x, const Segment& y) { return segment_key(x) < segment_key(y); };
    const auto by_first = [=](const Sequence& x, const Sequence& y) {
      return std::lexicographical_compare(x.segments.begin(), x.segments.end(), y.segments.begin(), y.segments.end(),
                                          by_segment);
    };
    for (Sequence& sequence : plan.step.sequences)
      std::sort(sequence.segments.begin(), sequence.segments.end(), by_segment);
    std::sort(plan.step.sequences.begin(), plan.step.sequences.end(), by_first);
    const auto by_id = [](const Document& x, const Document& y) { return x.id < y.id; };
    const auto by_place = [](const Held& x, const Held& y) {
      return std::pair(x.document, x.begin_tokens) < std::pair(y.document, y.begin_tokens);
    };
    std::sort(plan.step.documents.begin(), plan.step.documents.end(), by_id);
    std::sort(plan.step.state_after.held.begin(), plan.step.state_after.held.end(), by_place);
    return plan;
  };
  return normal(a) == normal(b);
}

/// A random sequence that has a segment.
Sequence* pick_sequence(PackedPlan& plan, SplitMix64& rng) {
  std::vector<Sequence*> filled;
  for (Sequence& sequence : plan.step.sequences)
    if (!sequence.segments.empty()) filled.push_back(&sequence);
  return filled.empty() ? nullptr : *pick(filled, rng);
}

Segment* pick_segment(PackedPlan& plan, SplitMix64& rng) {
  Sequence* sequence = pick_sequence(plan, rng);
  return sequence ? pick(sequence->segments, rng) : nullptr;
}

using PackingFault = Fault<PackedPlan>;
using Rng = SplitMix64;
const std::set<std::string> token_rules = {"token trained once", "segment in document"};

bool cut_segment(PackedPlan& plan, Rng& rng) {
  Sequence* sequence = pick_sequence(plan, rng);
  if (!sequence) return false;
  Segment& segment = *pick(sequence->segments, rng);
  if (segment.length_tokens < 2) return false;
  Segment rest = segment;
  segment.length_tokens = random_between(rng, 1, segment.length_tokens - 1);
  rest.begin_tokens += segment.length_tokens, rest.length_tokens -= segment.length_tokens;
  sequence->segments.insert(sequence->segments.begin() + (&segment - sequence->segments.data()) + 1, rest);
  return true;
}

bool move_segment(PackedPlan& plan, Rng& rng) {
  Sequence* from = pick_sequence(plan, rng);
  Sequence* to = pick(plan.step.sequences, rng);
  if (!from || from == to) return false;
  to->segments.push_back(from->segments.back());
  from->segments.pop_back();
  return true;
}

std::vector<PackingFault> segment_faults() {
  const auto on_sequence = [](auto action) {
    return [action](PackedPlan& plan, Rng& rng) {
      Sequence* sequence = pick_sequence(plan, rng);
      return sequence && action(sequence->segments, rng);
    };
  };
  const auto on_segment = [](auto action) {
    return [action](PackedPlan& plan, Rng& rng) {
      Segment* segment = pick_segment(plan, rng);
      return segment && action(plan, *segment, rng);
    };
  };
  return {
      {"segment dropped", on_sequence([](auto& list, Rng& rng) { return drop_one(list, rng); }), token_rules},
      {"segment repeated", on_sequence([](auto& list, Rng& rng) { return repeat_one(list, rng); }), token_rules},
      {"segment shifted",
       on_segment([](PackedPlan&, Segment& segment, Rng& rng) { return nudge(segment.begin_tokens, rng); }),
       token_rules},
      {"segment off by one",
       on_segment([](PackedPlan&, Segment& segment, Rng& rng) { return nudge(segment.length_tokens, rng); }),
       token_rules},
      {"segment of another document", on_segment([](PackedPlan& plan, Segment& segment, Rng& rng) {
         return change(segment.document.value, -1, plan.step.documents.back().id.value + 2, rng);
       }),
       token_rules},
      {"segment negative or huge", on_segment([](PackedPlan&, Segment& segment, Rng& rng) {
         constexpr int64_t values[] = {0, -1, INT64_MIN, INT64_MAX};
         (random_between(rng, 0, 1) ? segment.length_tokens : segment.begin_tokens) = values[random_between(rng, 0, 3)];
         return true;
       }),
       token_rules},
      {"segment cut in two", cut_segment, {"document kept whole", "segments within cap"}},
      {"segment in another sequence",
       move_segment,
       {"documents in order", "tokens within cap", "segments within cap", "sequence empty"}},
      {"segments swapped",
       [](PackedPlan& plan, Rng& rng) {
         Segment* a = pick_segment(plan, rng);
         Segment* b = pick_segment(plan, rng);
         if (a) std::swap(*a, *b);
         return a != nullptr;
       },
       {"documents in order", "tokens within cap"}},
  };
}

std::vector<PackingFault> step_faults() {
  const auto on_step = [](auto action) {
    return [action](PackedPlan& plan, Rng& rng) { return action(plan.step, rng); };
  };
  const std::set<std::string> arrivals = {"arrivals in order"};
  return {
      {"sequence dropped",
       on_step([](StepPlan& step, Rng& rng) { return drop_one(step.sequences, rng); }),
       {"sequence count"}},
      {"sequence repeated",
       on_step([](StepPlan& step, Rng& rng) { return repeat_one(step.sequences, rng); }),
       {"sequence count"}},
      {"sequences swapped",
       on_step([](StepPlan& step, Rng& rng) { return swap_two(step.sequences, rng); }),
       {"documents in order"}},
      {"wrong step", on_step([](StepPlan& step, Rng& rng) { return nudge(step.step, rng); }), arrivals},
      {"wrong next step", on_step([](StepPlan& step, Rng& rng) { return nudge(step.state_after.step, rng); }),
       arrivals},
      {"wrong next position", on_step([](StepPlan& step, Rng& rng) { return nudge(step.state_after.position, rng); }),
       arrivals},
      {"wrong first arrival", on_step([](StepPlan& step, Rng& rng) { return nudge(step.arrived.first, rng); }),
       arrivals},
      {"wrong last arrival", on_step([](StepPlan& step, Rng& rng) { return nudge(step.arrived.second, rng); }),
       arrivals},
      {"wrong targets",
       on_step([](StepPlan& step, Rng& rng) { return nudge(step.loss_tokens, rng); }),
       {"loss tokens counted"}},
      {"document dropped",
       on_step([](StepPlan& step, Rng& rng) { return drop_one(step.documents, rng); }),
       {"documents listed"}},
      {"document repeated",
       on_step([](StepPlan& step, Rng& rng) { return repeat_one(step.documents, rng); }),
       {"documents listed"}},
      {"documents swapped",
       on_step([](StepPlan& step, Rng& rng) { return swap_two(step.documents, rng); }),
       {"documents listed", "documents in order"}},
      {"document of another length",
       on_step([](StepPlan& step, Rng& rng) {
         Document* document = pick(step.documents, rng);
         return document && nudge(document->length_tokens, rng);
       }),
       {"token trained once", "documents listed", "untrained counted", "segment in document", "loss tokens counted",
        "document kept whole"}},
      {"document of other targets",
       on_step([](StepPlan& step, Rng& rng) {
         Document* document = pick(step.documents, rng);
         return document && nudge(document->loss_tokens, rng);
       }),
       {"loss tokens counted", "documents listed"}},
  };
}

/// A document that waited already waits again, while one that has just arrived is trained.
bool put_back_old(PackedPlan& plan, Rng& rng) {
  std::vector<std::pair<Sequence*, int64_t>> old;
  bool trains_new = false;
  for (Sequence& sequence : plan.step.sequences)
    for (size_t i = 0; i < sequence.segments.size(); ++i) {
      const DocId document = sequence.segments[i].document;
      const bool waited = std::any_of(plan.before.held.begin(), plan.before.held.end(),
                                      [&](const Held& held) { return held.document == document; });
      if (waited) old.push_back({&sequence, static_cast<int64_t>(i)});
      trains_new = trains_new || !waited;
    }
  if (old.empty() || !trains_new) return false;
  const auto [sequence, index] = *pick(old, rng);
  const Segment back = sequence->segments[index];
  sequence->segments.erase(sequence->segments.begin() + index);
  int64_t since = 0;
  for (const Held& held : plan.before.held) since = held.document == back.document ? held.since_step : since;
  plan.step.state_after.held.push_back({back.document, back.begin_tokens, back.length_tokens, since, -1});
  return true;
}

std::vector<PackingFault> held_faults() {
  const auto on_held = [](auto action) {
    return [action](PackedPlan& plan, Rng& rng) {
      std::vector<Held>& held = plan.step.state_after.held;
      return !held.empty() && action(held, *pick(held, rng), rng);
    };
  };
  const auto on_untrained = [](auto action) {
    return [action](PackedPlan& plan, Rng& rng) {
      auto& lists = plan.step.untrained;
      auto& list = lists.dropped.empty() ? lists.truncated : lists.dropped;
      return !list.empty() && action(lists, list, rng);
    };
  };
  using List = std::vector<Held>;
  const std::set<std::string> untrained = {"untrained counted"};
  return {
      {"held dropped", on_held([](List& list, Held&, Rng& rng) { return drop_one(list, rng); }), token_rules},
      {"held repeated", on_held([](List& list, Held&, Rng& rng) { return repeat_one(list, rng); }), token_rules},
      {"held swapped",
       on_held([](List& list, Held&, Rng& rng) { return swap_two(list, rng); }),
       {"documents in order"}},
      {"held shifted", on_held([](List&, Held& held, Rng& rng) { return nudge(held.begin_tokens, rng); }), token_rules},
      {"held off by one", on_held([](List&, Held& held, Rng& rng) { return nudge(held.length_tokens, rng); }),
       token_rules},
      {"held since another step",
       on_held([](List&, Held& held, Rng& rng) { return nudge(held.since_step, rng); }),
       {"held since"}},
      {"held in no queue",
       on_held([](List&, Held& held, Rng& rng) { return change(held.queue, -3, 3, rng); }),
       {"held since"}},
      {"trained put back",
       [](PackedPlan& plan, Rng& rng) {
         Sequence* sequence = pick_sequence(plan, rng);
         if (!sequence) return false;
         const Segment back = sequence->segments.back();
         sequence->segments.pop_back();
         plan.step.state_after.held.push_back(
             {back.document, back.begin_tokens, back.length_tokens, plan.step.step, -1});
         return true;
       },
       {"loss tokens counted", "documents in order", "held since", "sequence empty", "document kept whole"}},
      {"old document put back", put_back_old, {"delay within bound", "documents in order"}},
      {"untrained off by one",
       on_untrained([](Untrained&, auto& list, Rng& rng) { return nudge(pick(list, rng)->second, rng); }), untrained},
      {"untrained dropped", on_untrained([](Untrained&, auto& list, Rng& rng) { return drop_one(list, rng); }),
       untrained},
      {"untrained repeated", on_untrained([](Untrained&, auto& list, Rng& rng) { return repeat_one(list, rng); }),
       untrained},
      {"untrained for another reason",
       on_untrained([](Untrained& lists, auto&, Rng&) { return std::swap(lists.dropped, lists.truncated), true; }),
       untrained},
      {"other document untrained",
       on_untrained([](Untrained&, auto& list, Rng& rng) { return nudge(pick(list, rng)->first.value, rng); }),
       untrained},
  };
}

MutationTrial<PackedPlan> trial() {
  return {make_plan, [](const PackedPlan& plan) { return check_packing(plan.inputs, plan.before, plan.step); }, same,
          [](const PackedPlan& plan) { return dense_packing_fault(plan.inputs, plan.before, plan.step); }};
}

TEST(PackingMutations, ABrokenSegmentIsFound) { run_mutations(trial(), segment_faults()); }
TEST(PackingMutations, ABrokenStepIsFound) { run_mutations(trial(), step_faults()); }
TEST(PackingMutations, BrokenHeldAndUntrainedDocumentsAreFound) { run_mutations(trial(), held_faults()); }

TEST(PackingMutations, ThePlansAreValidBeforeTheyAreBroken) {
  int64_t held = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const PackedPlan plan = make_plan(seed);
    const Violations found = check_packing(plan.inputs, plan.before, plan.step);
    ASSERT_TRUE(found.empty()) << "seed " << seed << ": " << found[0].rule << ", " << found[0].where << ": "
                               << found[0].what;
    held += std::ssize(plan.before.held);
  }
  EXPECT_GT(held, 100);
}

}  // namespace
}  // namespace equipoise
