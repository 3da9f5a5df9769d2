// Thresholds are searched by trying them: each trial packs the same sample of the corpus and measures what is lost and
// how long tokens wait. The optimum is flat, so a coarse grid and one threshold at a time find it.
#include "equipoise/packing/tune_queues.h"

#include <algorithm>
#include <map>
#include <utility>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"
#include "equipoise/cost/cost.h"
#include "equipoise/packing/packing.h"

namespace equipoise {
namespace {

__extension__ typedef __int128 Wide;

/// A hundred steps of few sequences, fewer of many: a trial takes about as long. A fifth of them fills the queues.
int64_t sample_steps(int64_t sequences) { return std::clamp<int64_t>(1'600 / sequences, 20, 100); }
int64_t warm_up_steps(int64_t sequences) { return sample_steps(sequences) / 5; }

constexpr int64_t grid_points = 16;
constexpr int64_t most_sweeps = 4;
constexpr int64_t negligible_ppm = 1'000;

struct Search {
  PlanInputs inputs;
  const Corpus& corpus;
  QueueGoal goal;
  std::vector<int64_t> grid;                          ///< thresholds worth trying, rising
  std::map<std::vector<int64_t>, QueueTrial> trials;  ///< by thresholds
  int64_t steps = 0;
};

/// Sums over the measured steps.
struct Tally {
  Wide heaviest_ns = 0;
  Wide total_ns = 0;
  Wide waiting_tokens = 0;
  Wide trained_tokens = 0;
  int64_t steps = 0;
};

void count(const PlanInputs& inputs, const PackedStep& packed, Tally& tally) {
  int64_t heaviest_ns = 0;
  for (const Sequence& sequence : packed.sequences) {
    const int64_t time = sequence_time_ns(inputs, sequence);
    heaviest_ns = std::max(heaviest_ns, time);
    tally.total_ns += time;
    tally.trained_tokens += sequence.tokens();
  }
  tally.heaviest_ns += heaviest_ns;
  for (const Held& piece : packed.after.held) tally.waiting_tokens += piece.length_tokens;
  ++tally.steps;
}

/// Packs the sample. Where it is shorter than the warm-up, all of it is measured.
Tally pack_sample(const PlanInputs& inputs, const Corpus& corpus) {
  Tally warm_up;
  Tally measured;
  PackerState state;
  const auto documents = static_cast<int64_t>(corpus.order.size());
  while (state.step < sample_steps(inputs.sequences()) && state.position < documents) {
    PackedStep packed = pack_wlb(inputs, corpus, state);
    if (!packed.violations.empty())
      throw InputError("the sample cannot be packed: " + packed.violations.front().what,
                       packed.violations.front().where, "raise max_tokens");
    const bool ends = packed.after.position == documents;
    if (!ends) count(inputs, packed, state.step < warm_up_steps(inputs.sequences()) ? warm_up : measured);
    state = std::move(packed.after);
  }
  return measured.steps > 0 ? measured : warm_up;
}

/// The trial with these thresholds, made once.
const QueueTrial& try_queues(Search& search, const std::vector<int64_t>& queue_tokens) {
  const auto known = search.trials.find(queue_tokens);
  if (known != search.trials.end()) return known->second;
  search.inputs.delay.queue_tokens = queue_tokens;
  const Tally tally = pack_sample(search.inputs, search.corpus);
  const Wide sequences = search.inputs.sequences();
  QueueTrial trial{.queue_tokens = queue_tokens, .weighted_imbalance_ppm = ppm_one};
  if (tally.total_ns > 0)
    trial.weighted_imbalance_ppm = static_cast<int64_t>(tally.heaviest_ns * sequences * ppm_one / tally.total_ns);
  if (tally.trained_tokens > 0)
    trial.mean_delay_ppm = static_cast<int64_t>(tally.waiting_tokens * ppm_one / tally.trained_tokens);
  search.steps = tally.steps;
  return search.trials.emplace(queue_tokens, std::move(trial)).first->second;
}

/// Quantiles of length above S / 16, weighted by tokens, of the documents that the sample can reach.
std::vector<int64_t> threshold_grid(const PlanInputs& inputs, const Corpus& corpus) {
  const int64_t window = inputs.limits.window_tokens;
  const int64_t most_tokens = mul_div(sample_steps(inputs.sequences()) * inputs.sequences(), window, 1);
  std::vector<int64_t> lengths;
  int64_t seen_tokens = 0;
  int64_t long_tokens = 0;
  for (const DocId id : corpus.order) {
    if (seen_tokens >= most_tokens) break;
    const int64_t tokens = std::min(corpus.documents[static_cast<size_t>(id.value)].length_tokens, window);
    seen_tokens += tokens;
    if (tokens <= window / 16) continue;
    lengths.push_back(tokens);
    long_tokens += tokens;
  }
  std::sort(lengths.begin(), lengths.end());
  std::vector<int64_t> grid;
  int64_t below_tokens = 0;
  int64_t point = 0;
  for (const int64_t length : lengths) {
    below_tokens += length;
    for (; point < grid_points && below_tokens >= mul_div(long_tokens, point + 1, grid_points + 1); ++point)
      if (grid.empty() || grid.back() < length) grid.push_back(length);
  }
  return grid;
}

/// Within the goal before outside of it; then the least imbalance, or outside the least delay; fewer queues on a tie.
bool better(const QueueTrial& a, const QueueTrial& b, const QueueGoal& goal) {
  const auto rank = [&](const QueueTrial& trial) {
    const bool late = trial.mean_delay_ppm > goal.mean_delay_ppm;
    const int64_t first = late ? trial.mean_delay_ppm : trial.weighted_imbalance_ppm;
    const int64_t second = late ? trial.weighted_imbalance_ppm : trial.mean_delay_ppm;
    return std::tuple(late, first, second, trial.queue_tokens.size());
  };
  return rank(a) < rank(b);
}

/// Moves one threshold at a time to its best place between its neighbours, until none moves.
void descend(Search& search, std::vector<int64_t> queue_tokens) {
  bool moved = true;
  for (int64_t sweep = 0; moved && sweep < most_sweeps; ++sweep) {
    moved = false;
    for (size_t q = 0; q < queue_tokens.size(); ++q) {
      QueueTrial best = try_queues(search, queue_tokens);
      for (const int64_t threshold : search.grid) {
        if (q > 0 && threshold <= queue_tokens[q - 1]) continue;
        if (q + 1 < queue_tokens.size() && threshold >= queue_tokens[q + 1]) break;
        std::vector<int64_t> changed = queue_tokens;
        changed[q] = threshold;
        const QueueTrial& trial = try_queues(search, changed);
        if (better(trial, best, search.goal)) best = trial;
      }
      moved = moved || best.queue_tokens != queue_tokens;
      queue_tokens = best.queue_tokens;
    }
  }
}

/// Thresholds spread over the upper part of the grid that begins at `first`.
std::vector<int64_t> spread(const std::vector<int64_t>& grid, int64_t queues, size_t first) {
  std::vector<int64_t> thresholds;
  for (int64_t q = 0; q < queues; ++q)
    thresholds.push_back(grid[first + static_cast<size_t>(q) * (grid.size() - first) / static_cast<size_t>(queues)]);
  return thresholds;
}

std::vector<QueueTrial> frontier_of(const Search& search) {
  std::vector<QueueTrial> trials;
  for (const auto& [thresholds, trial] : search.trials) trials.push_back(trial);
  std::sort(trials.begin(), trials.end(), [](const QueueTrial& a, const QueueTrial& b) {
    return std::tuple(a.mean_delay_ppm, a.weighted_imbalance_ppm, a.queue_tokens) <
           std::tuple(b.mean_delay_ppm, b.weighted_imbalance_ppm, b.queue_tokens);
  });
  std::vector<QueueTrial> frontier;
  for (QueueTrial& trial : trials)
    if (frontier.empty() || trial.weighted_imbalance_ppm < frontier.back().weighted_imbalance_ppm)
      frontier.push_back(std::move(trial));
  return frontier;
}

}  // namespace

TunedQueues tune_queues(const PlanInputs& inputs, const Corpus& corpus, const QueueGoal& goal) {
  Search search{inputs, corpus, goal, threshold_grid(inputs, corpus), {}, 0};
  TunedQueues tuned{.best = try_queues(search, {}), .frontier = {}};
  const auto points = static_cast<int64_t>(search.grid.size());
  for (int64_t queues = 1; queues <= std::min(goal.most_queues, points); ++queues) {
    descend(search, spread(search.grid, queues, 0));
    descend(search, spread(search.grid, queues, static_cast<size_t>((points - queues) / 2)));
  }
  for (const auto& [thresholds, trial] : search.trials)
    if (better(trial, tuned.best, goal)) tuned.best = trial;
  tuned.frontier = frontier_of(search);
  tuned.meets_goal = tuned.best.mean_delay_ppm <= goal.mean_delay_ppm;
  const int64_t good_enough = tuned.best.weighted_imbalance_ppm + negligible_ppm;
  for (const QueueTrial& trial : tuned.frontier)  // by rising delay: waiting that buys nothing is not worth it
    if (trial.weighted_imbalance_ppm <= good_enough) {
      tuned.best = trial;
      break;
    }
  tuned.steps = search.steps;
  tuned.trials = static_cast<int64_t>(search.trials.size());
  return tuned;
}

}  // namespace equipoise
