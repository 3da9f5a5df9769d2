// Packing that looks ahead: long documents wait for steps in which others match them, never longer than the bound. The
// beam search proposes how full the sequences become; a schedule that surely keeps every deadline stands behind it, and
// takes over in the rare step where the proposal would endanger one.
#include <algorithm>
#include <optional>
#include <string>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/deadlines.h"
#include "equipoise/packing/longest_first.h"
#include "equipoise/packing/look_ahead.h"
#include "equipoise/packing/packing.h"
#include "equipoise/packing/refine.h"
#include "equipoise/packing/spread.h"

namespace equipoise {
namespace {

constexpr int64_t steps_ahead = 3;
constexpr int64_t moves_of_a_sequence = 16;

/// With small memory a backlog cannot be worked off later, so leaving tokens costs twice as much, an uneven step five
/// times.
LookAhead effort_for(const Limits& limits) {
  LookAhead effort;
  if (has_small_memory(limits)) effort.backlog_ppm = effort.tokens_ppm = 100'000;
  return effort;
}

std::vector<Waiting> with_times(const PlanInputs& inputs, const std::vector<Held>& pieces) {
  std::vector<Waiting> waiting;
  waiting.reserve(pieces.size());
  for (const Held& piece : pieces) waiting.push_back({piece, document_time_ns(inputs, piece.length_tokens)});
  return waiting;
}

bool is_safe(const PlanInputs& inputs, const Arrivals& arrivals, const Caps& caps, int64_t step) {
  return schedule_safely(with_times(inputs, arrivals.pieces), inputs.sequences(), caps, step).keeps_deadlines;
}

/// Lets documents arrive by tokens, and only as many as can surely be trained in time.
Arrivals let_arrive(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state, const Caps& caps) {
  int64_t most = room_for_arrivals(inputs, state);
  Arrivals arrivals = take_arrivals(inputs, corpus, state, most);
  if (is_safe(inputs, arrivals, caps, state.step)) return arrivals;
  int64_t least = 0;  // what is held alone is safe: that is the invariant
  arrivals = take_arrivals(inputs, corpus, state, 0);
  while (most - least > 1) {
    const int64_t middle = least + (most - least) / 2;
    Arrivals tried = take_arrivals(inputs, corpus, state, middle);
    if (is_safe(inputs, tried, caps, state.step)) {
      least = middle;
      arrivals = std::move(tried);
    } else {
      most = middle;
    }
  }
  return arrivals;
}

/// Arrivals of the next steps as they will be if nothing holds them back.
std::vector<std::vector<Waiting>> known_future(const PlanInputs& inputs, const Corpus& corpus, PackerState state) {
  std::vector<std::vector<Waiting>> future;
  for (int64_t ahead = 0; ahead < steps_ahead && state.position < static_cast<int64_t>(corpus.order.size()); ++ahead) {
    const int64_t room = room_for_arrivals(inputs, state);
    const Arrivals arrivals = take_arrivals(inputs, corpus, state, room);
    future.push_back(with_times(inputs, arrivals.pieces));
    state = state_after(state, arrivals);
  }
  return future;
}

using Chosen = std::vector<std::vector<Waiting>>;  ///< by sequence

struct Proposal {
  Chosen packed;
  std::vector<Waiting> left;
  bool complete = true;  ///< all that is due was placed
};

/// Fills the sequences up to a level: long documents first, then short ones in order, lightest sequence first, due ones
/// always.
Proposal pack_to_level(const Outlook& outlook, const std::vector<Waiting>& bigs, const std::vector<Waiting>& shorts,
                       int64_t level_ns) {
  Proposal proposal{.packed = Chosen(static_cast<size_t>(outlook.sequences)), .left = {}};
  std::vector<Load> loads;
  std::vector<int64_t> place;
  proposal.complete = place_bigs(outlook, bigs, level_ns, loads, place);
  for (size_t b = 0; b < bigs.size(); ++b) {
    if (place[b] < 0)
      proposal.left.push_back(bigs[b]);
    else
      proposal.packed[static_cast<size_t>(place[b])].push_back(bigs[b]);
  }
  const int64_t level = std::max(level_ns, slowest(loads));
  for (const Waiting& piece : shorts) {
    const int64_t lightest = lightest_with_room(loads, outlook.caps, piece.held.length_tokens);
    const bool due = outlook.caps.is_due(piece, outlook.step);
    const bool fits = lightest >= 0 && (due || loads[static_cast<size_t>(lightest)].time_ns + piece.time_ns <= level);
    if (fits) {
      loads[static_cast<size_t>(lightest)].add(piece);
      proposal.packed[static_cast<size_t>(lightest)].push_back(piece);
    } else {
      proposal.left.push_back(piece);
      if (due) proposal.complete = false;
    }
  }
  return proposal;
}

Proposal pack_safely(const Outlook& outlook, const std::vector<Waiting>& pieces) {
  const SafeSchedule schedule = schedule_safely(pieces, outlook.sequences, outlook.caps, outlook.step);
  EQ_ASSERT(schedule.keeps_deadlines);
  Proposal proposal{.packed = Chosen(static_cast<size_t>(outlook.sequences)), .left = {}};
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (schedule.steps_ahead[i] > 0)
      proposal.left.push_back(pieces[i]);
    else
      proposal.packed[static_cast<size_t>(schedule.sequence[i])].push_back(pieces[i]);
  }
  return proposal;
}

int64_t slowest_of(const Packed& packed) {
  int64_t most = 0;
  for (const auto& list : packed) {
    Load load;
    for (const Item& item : list) load.add(item);
    most = std::max(most, load.time_ns);
  }
  return most;
}

/// Levels the chosen pieces: from where they were placed, and once more from nothing, longest first; whichever is
/// faster.
Chosen level_pieces(const Outlook& outlook, const Chosen& chosen) {
  std::vector<Waiting> pieces;
  Packed placed;
  for (const auto& list : chosen) {
    placed.emplace_back();
    for (const Waiting& piece : list) {
      placed.back().push_back(item_of(piece, pieces.size()));
      pieces.push_back(piece);
    }
    std::sort(placed.back().begin(), placed.back().end(), goes_before);
  }
  const int64_t moves = moves_of_a_sequence * outlook.sequences;
  refine_packing(placed, outlook.caps, moves);
  const SpreadItems anew = spread_items(items_of(pieces), outlook.sequences, outlook.caps, moves);
  const bool faster = anew.left.empty() && slowest_of(anew.packed) < slowest_of(placed);
  Chosen levelled;
  for (const auto& list : faster ? anew.packed : placed) {
    levelled.emplace_back();
    for (const Item& item : list) levelled.back().push_back(pieces[item.index]);
  }
  return levelled;
}

/// Deals the pieces of each bucket to its sequences, all about the same tokens. Null where they do not fit, or are too
/// few.
std::optional<Chosen> deal_buckets(const Chosen& buckets, int64_t sequences, const Caps& caps) {
  Chosen dealt;
  for (const auto& bucket : buckets) {
    std::vector<Item> items = items_of(bucket);
    for (Item& item : items) item.time_ns = item.tokens;
    const SpreadItems spread = spread_items(std::move(items), sequences, caps, moves_of_a_sequence * sequences);
    if (!spread.left.empty()) return std::nullopt;
    for (const auto& list : spread.packed) {
      if (list.empty()) return std::nullopt;
      dealt.emplace_back();
      for (const Item& item : list) dealt.back().push_back(bucket[item.index]);
    }
  }
  return dealt;
}

bool trains_something(const Chosen& packed) {
  return std::any_of(packed.begin(), packed.end(), [](const auto& pieces) { return !pieces.empty(); });
}

/// What the search proposes, if it places all that is due.
std::optional<Proposal> propose(const Outlook& outlook, const LookAhead& effort, const std::vector<Waiting>& pieces,
                                const std::vector<std::vector<Waiting>>& future) {
  std::vector<Waiting> bigs;
  std::vector<Waiting> shorts;
  for (const Waiting& piece : pieces) (outlook.is_big(piece) ? bigs : shorts).push_back(piece);
  std::sort(bigs.begin(), bigs.end(), longer);
  const int64_t level = choose_level(outlook, effort, bigs, shorts, future);
  if (level < 0) return std::nullopt;
  Proposal proposal = pack_to_level(outlook, bigs, shorts, level);
  // A step trains something as long as anything waits, also where waiting looks better.
  if (!trains_something(proposal.packed) && !pieces.empty())
    proposal = pack_to_level(outlook, bigs, shorts,
                             std::max_element(pieces.begin(), pieces.end(), [](const Waiting& a, const Waiting& b) {
                               return a.time_ns < b.time_ns;
                             })->time_ns);
  if (!proposal.complete) return std::nullopt;
  return proposal;
}

/// M sequences, where `together` consecutive ones are levelled as one bucket.
Outlook outlook_of(const PlanInputs& inputs, const PackerState& state, int64_t together) {
  const Limits& limits = inputs.limits;
  const int64_t window_tokens = together * limits.window_tokens;
  return {
      .sequences = inputs.sequences() / together,
      .window_tokens = window_tokens,
      .window_ns = std::max<int64_t>(1, tokens_time_ns(inputs, window_tokens)),
      .big_tokens = ceil_div(limits.window_tokens, 8),
      .step = state.step,
      .caps = {together * limits.max_tokens, mul_div(together, limits.max_documents, 1), inputs.delay.max_delay_steps}};
}

/// The sequences of the step by search, or null where it would endanger a deadline or its buckets cannot be dealt.
std::optional<Proposal> search(const PlanInputs& inputs, const PackerState& state, int64_t together,
                               const std::vector<Waiting>& pieces, const std::vector<std::vector<Waiting>>& future) {
  const Outlook outlook = outlook_of(inputs, state, together);
  const Outlook alone = outlook_of(inputs, state, 1);
  std::optional<Proposal> proposal = propose(outlook, effort_for(inputs.limits), pieces, future);
  if (!proposal || !schedule_safely(proposal->left, alone.sequences, alone.caps, alone.step + 1).keeps_deadlines)
    return std::nullopt;
  proposal->packed = level_pieces(outlook, proposal->packed);
  if (together == 1) return proposal;
  std::optional<Chosen> dealt = deal_buckets(proposal->packed, together, alone.caps);
  if (!dealt) return std::nullopt;
  proposal->packed = std::move(*dealt);
  return proposal;
}

std::vector<Held> held_of(const std::vector<Waiting>& pieces) {
  std::vector<Held> held;
  for (const Waiting& piece : pieces) held.push_back(piece.held);
  return held;
}

/// One document can be longer than all steps within the bound together.
Violation impossible(const std::vector<Held>& pieces, const PlanInputs& inputs) {
  return {"delay within bound", "document " + std::to_string(pieces.front().document.value),
          std::to_string(pieces.size()) + " pieces of " + std::to_string(inputs.limits.window_tokens) +
              " tokens cannot be trained within max_delay " + std::to_string(inputs.delay.max_delay_steps) + ", in " +
              std::to_string(inputs.delay.max_delay_steps + 1) + " steps of " + std::to_string(inputs.sequences()) +
              " sequences"};
}

}  // namespace

PackedStep pack_look_ahead(const PlanInputs& inputs, const Corpus& corpus, const PackerState& state, int64_t together) {
  EQ_ASSERT(together > 0 && inputs.mesh.dp % together == 0);
  const Outlook alone = outlook_of(inputs, state, 1);
  Arrivals arrivals = let_arrive(inputs, corpus, state, alone.caps);
  PackedStep step{.arrived = arrivals.positions,
                  .sequences = {},
                  .untrained = std::move(arrivals.untrained),
                  .after = state_after(state, arrivals),
                  .violations = {}};
  if (!is_safe(inputs, arrivals, alone.caps, state.step)) {
    step.violations.push_back(impossible(arrivals.pieces, inputs));
    return step;
  }
  const std::vector<Waiting> pieces = with_times(inputs, arrivals.pieces);
  const auto future = known_future(inputs, corpus, step.after);
  std::optional<Proposal> proposal = search(inputs, state, together, pieces, future);
  if (!proposal && together > 1) proposal = search(inputs, state, 1, pieces, future);
  if (!proposal) {
    proposal = pack_safely(alone, pieces);
    proposal->packed = level_pieces(alone, proposal->packed);
  }
  for (const auto& list : proposal->packed) step.sequences.push_back(sequence_of(held_of(list)));
  step.after.held = held_of(proposal->left);
  std::sort(step.after.held.begin(), step.after.held.end(), arrived_before);
  return step;
}

void check_promise(const PlanInputs& inputs, const Corpus& corpus) {
  const int64_t window = inputs.limits.window_tokens;
  const auto longest =
      std::max_element(corpus.documents.begin(), corpus.documents.end(),
                       [](const Document& a, const Document& b) { return a.length_tokens < b.length_tokens; });
  if (longest == corpus.documents.end() || inputs.arrival.overlong != Overlong::split) return;
  std::vector<Held> pieces;
  for (int64_t begin = 0; begin < longest->length_tokens; begin += window)
    pieces.push_back({longest->id, begin, std::min(window, longest->length_tokens - begin), 0, -1});
  const Outlook alone = outlook_of(inputs, {}, 1);
  if (schedule_safely(with_times(inputs, pieces), alone.sequences, alone.caps, 0).keeps_deadlines) return;
  const Violation found = impossible(pieces, inputs);
  throw InputError(found.what, found.where, "raise max_delay or max_tokens, or truncate or drop over-long documents");
}

}  // namespace equipoise
