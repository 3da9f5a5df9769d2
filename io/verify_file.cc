// A plan file against the rules. Each line goes through the checkers of verify/ in the order of the stages; a ledger of
// documents goes along from line to line and is closed at the end, so that a document that two lines train, or none, is
// found although each line is right by itself.
#include "io/verify_file.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "equipoise/cost/cost.h"
#include "equipoise/exchange/exchange_plan.h"
#include "equipoise/exchange/program.h"
#include "equipoise/model/work.h"
#include "equipoise/planner/planner.h"
#include "equipoise/verify/verify.h"
#include "io/plan_file.h"

namespace equipoise {
namespace {

constexpr size_t most_violations = 1000;
constexpr int64_t most_idle_rounds = 1000;

/// What happened to a document up to now.
struct Account {
  Document document;
  int64_t trained_tokens = 0;
  int64_t untrained_tokens = 0;
};

struct FileCheck {
  FileVerdict verdict;
  std::optional<PlanInputs> inputs;  ///< of the first line
  PackerState state;                 ///< before the next line
  std::map<int64_t, Account> ledger;
};

void add(FileCheck& check, const Violations& found, const std::string& line) {
  for (const Violation& violation : found)
    if (check.verdict.violations.size() < most_violations)
      check.verdict.violations.push_back({violation.rule, line + ", " + violation.where, violation.what});
}

std::string step_place(const StepPlan& step) { return "step " + std::to_string(step.step); }

/// Inputs that stay, a step that follows.
Violations check_line_head(const FileCheck& check, const PlanLine& line) {
  const StepPlan& step = line.planned.step;
  Violations found;
  if (line.inputs != *check.inputs)
    found.push_back({"inputs equal", step_place(step), "the inputs differ from those of the first line"});
  if (step.step != check.state.step)
    found.push_back({"steps in order", step_place(step),
                     "step " + std::to_string(step.step) + " where " + std::to_string(check.state.step) + " is next"});
  return found;
}

/// Books what a line lists, trains and leaves untrained.
Violations book(FileCheck& check, const StepPlan& step, bool shuffle) {
  Violations found;
  std::set<int64_t> held;
  for (const Held& entry : check.state.held) held.insert(entry.document.value);
  int64_t position = step.arrived.first;
  for (const Document& document : step.documents) {
    const std::string place = step_place(step) + ", document " + std::to_string(document.id.value);
    const auto [entry, is_new] = check.ledger.try_emplace(document.id.value, Account{.document = document});
    if (entry->second.document != document)
      found.push_back({"document stays", place, "its tokens or loss tokens differ from those of an earlier line"});
    if (held.contains(document.id.value)) continue;
    if (!is_new) found.push_back({"document arrives once", place, "it arrived in an earlier line already"});
    if (!shuffle && document.id.value != position)
      found.push_back({"arrivals by id", place,
                       "position " + std::to_string(position) + " of an order without shuffle is document " +
                           std::to_string(position)});
    ++position;
  }
  for (const Sequence& sequence : step.sequences)
    for (const Segment& segment : sequence.segments)
      check.ledger[segment.document.value].trained_tokens += segment.length_tokens;
  for (const auto& [document, tokens] : step.untrained.dropped) check.ledger[document.value].untrained_tokens += tokens;
  for (const auto& [document, tokens] : step.untrained.truncated)
    check.ledger[document.value].untrained_tokens += tokens;
  return found;
}

/// Every document: trained + untrained + held after the last line = its length.
void close_ledger(FileCheck& check) {
  std::map<int64_t, int64_t> held;
  for (const Held& entry : check.state.held) held[entry.document.value] += entry.length_tokens;
  Violations found;
  for (const auto& [id, account] : check.ledger) {
    const int64_t waiting = held.contains(id) ? held[id] : 0;
    const int64_t seen = account.trained_tokens + account.untrained_tokens + waiting;
    check.verdict.tokens += account.trained_tokens;
    if (seen == account.document.length_tokens) continue;
    found.push_back({"document trained once", "document " + std::to_string(id),
                     std::to_string(account.trained_tokens) + " tokens trained, " +
                         std::to_string(account.untrained_tokens) + " untrained and " + std::to_string(waiting) +
                         " held where the document has " + std::to_string(account.document.length_tokens)});
  }
  check.verdict.documents = static_cast<int64_t>(check.ledger.size());
  check.verdict.held = static_cast<int64_t>(check.state.held.size());
  add(check, found, "all lines");
}

/// Programs of all members for one mask, alone, together and against the plan.
Violations check_programs(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask, int64_t step) {
  return check_bucket_programs(inputs, bucket, mask, make_rank_programs(inputs, bucket, mask, step));
}

/// Rounds as the tiles say. Far more rounds than tiles are a mistake that would only fill the memory: they are cut, for
/// the checker of tiles to find.
void set_rounds(LayerPlan& layer) {
  int64_t last = 0;
  for (const Tile& tile : layer.tiles) last = std::max(last, tile.round);
  layer.exchange.rounds = 1 + std::min(last, static_cast<int64_t>(layer.tiles.size()) + most_idle_rounds);
}

/// Shards and tiles; then the messages that follow from them, which are put into the bucket, and the programs.
Violations check_bucket(const PlanInputs& inputs, BucketPlan& bucket, int64_t step, FileVerdict& verdict) {
  Violations found;
  const auto append = [&](const Violations& more) { found.insert(found.end(), more.begin(), more.end()); };
  const auto masks = static_cast<int64_t>(inputs.masks.size());
  for (size_t replica = 0; replica < bucket.sequences.size(); ++replica) {
    Violations sharding = check_sharding(bucket.sequences[replica], bucket.shardings[replica], inputs);
    for (Violation& violation : sharding)
      violation.where = "sequence " + std::to_string(bucket.bucket.sequences[replica].value) + ", " + violation.where;
    append(sharding);
  }
  if (!found.empty()) return found;
  for (int64_t mask = 0; mask < masks; ++mask) {
    set_rounds(bucket.layers[static_cast<size_t>(mask)]);
    append(check_tiling(inputs, bucket, mask));
  }
  if (!found.empty()) return found;
  for (int64_t mask = 0; mask < masks; ++mask) {
    LayerPlan& layer = bucket.layers[static_cast<size_t>(mask)];
    const std::vector<WorkItem> work =
        attention_work(bucket.sequences, bucket.shardings, layer.tiles, inputs.heads, inputs.mesh.cp);
    layer.exchange = plan_exchange(bucket.sequences, bucket.shardings, work, inputs.masks[static_cast<size_t>(mask)],
                                   inputs.heads, inputs.mesh.cp);
    append(check_exchange(inputs, bucket, mask));
    if (found.empty()) append(check_programs(inputs, bucket, mask, step));
    verdict.programs += inputs.members();
  }
  if (found.empty()) append(check_memory(inputs, bucket));
  ++verdict.buckets;
  return found;
}

/// Speed of each pool over the mean speed, parts per million.
std::vector<int64_t> relative_speeds(const PlanInputs& inputs) {
  const int64_t pools = inputs.mesh.dp / inputs.pool;
  if (inputs.speeds_ppt.empty()) return std::vector<int64_t>(static_cast<size_t>(pools), ppm_one);
  const int64_t total = std::accumulate(inputs.speeds_ppt.begin(), inputs.speeds_ppt.end(), int64_t{0});
  std::vector<int64_t> speeds(static_cast<size_t>(pools), 0);
  for (size_t rank = 0; rank < inputs.speeds_ppt.size(); ++rank)
    speeds[rank / static_cast<size_t>(inputs.members())] += inputs.speeds_ppt[rank];
  for (int64_t& speed : speeds) speed = std::max<int64_t>(1, mul_div(speed, pools * ppm_one, total));
  return speeds;
}

/// What pools wait for: the slowest pool's step, or the slowest of each micro-step, summed.
int64_t waited_work(const PlanLine& line, std::span<const int64_t> sequences) {
  const std::vector<int64_t> speeds = relative_speeds(line.inputs);
  std::map<std::pair<int64_t, int64_t>, int64_t> loads;  // by (turn, pool): those of a turn wait for each other
  const bool by_step = line.inputs.dp_sync == DpSync::step;
  for (const Bucket& bucket : line.planned.step.buckets)
    for (const SeqId id : bucket.sequences)
      loads[{by_step ? 0 : bucket.micro_step, bucket.pool}] += sequences[static_cast<size_t>(id.value)];
  std::map<int64_t, int64_t> slowest;
  for (const auto& [place, load] : loads)
    slowest[place.first] =
        std::max(slowest[place.first], mul_div(load, ppm_one, speeds[static_cast<size_t>(place.second)]));
  int64_t sum = 0;
  for (const auto& [turn, time] : slowest) sum += time;
  return sum;
}

/// The imbalance of sequences and pools, counted again. A bound cannot be, but it lies between 1 and the imbalance.
Violations check_balances(const PlanLine& line) {
  const StepPlan& step = line.planned.step;
  std::vector<int64_t> sequences;
  for (const Sequence& sequence : step.sequences) sequences.push_back(sequence_work_ns(line.inputs, sequence));
  const int64_t total = std::accumulate(sequences.begin(), sequences.end(), int64_t{0});
  Violations found;
  const auto check = [&](const std::string& level, const Balance& balance, int64_t waited, int64_t count) {
    const int64_t expected = total == 0 ? ppm_one : std::max(ppm_one, mul_div(waited, count * ppm_one, total));
    const bool bounded = balance.lower_bound_ppm >= ppm_one && balance.lower_bound_ppm <= balance.imbalance_ppm;
    if (balance.imbalance_ppm == expected && bounded) return;
    found.push_back({"summary agrees", "summary, " + level,
                     "imbalance " + std::to_string(balance.imbalance_ppm) + " and bound " +
                         std::to_string(balance.lower_bound_ppm) + " where the imbalance is " +
                         std::to_string(expected) + " parts per million"});
  };
  check("micro_batches", step.micro_batches, *std::max_element(sequences.begin(), sequences.end()),
        static_cast<int64_t>(sequences.size()));
  check("pools", step.pools, waited_work(line, sequences), line.inputs.mesh.dp / line.inputs.pool);
  return found;
}

/// All buckets of a line whose packing and placement are right, and the summary that follows from them.
Violations check_buckets(const PlanLine& line, std::vector<BucketPlan> buckets, FileVerdict& verdict) {
  const StepPlan& step = line.planned.step;
  Violations found;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const std::string place = "bucket " + std::to_string(i) + " (micro-step " +
                              std::to_string(buckets[i].bucket.micro_step) + ", pool " +
                              std::to_string(buckets[i].bucket.pool) + "), ";
    if (line.brief) {
      const std::vector<Sharding> named = buckets[i].shardings;
      buckets[i] = plan_bucket(line.inputs, step, step.buckets[i]);
      for (size_t replica = 0; replica < named.size(); ++replica)
        if (named[replica].rule != buckets[i].shardings[replica].rule)
          found.push_back({"sharding agrees", place + "replica in pool " + std::to_string(replica),
                           "the rule is not the one that the inputs lead to"});
    }
    for (Violation& violation : check_bucket(line.inputs, buckets[i], step.step, verdict)) {
      violation.where = place + violation.where;
      found.push_back(std::move(violation));
    }
  }
  if (found.empty() && summarize(line.inputs, step, buckets) != line.planned.summary)
    found.push_back({"summary agrees", "summary", "its numbers are not those of the plan"});
  const Violations balances = check_balances(line);
  found.insert(found.end(), balances.begin(), balances.end());
  return found;
}

void check_line(FileCheck& check, const PlanLine& line, int64_t number) {
  const StepPlan& step = line.planned.step;
  const std::string place = "line " + std::to_string(number);
  if (!check.inputs) check.inputs = line.inputs;
  const size_t before = check.verdict.violations.size();
  add(check, check_line_head(check, line), place);
  Violations found = verify_step(line.inputs, check.state, step, {});
  // A file has no buckets: they were made from its slots, or not at all where these are wrong.
  std::erase_if(found, [](const Violation& violation) { return violation.rule == "buckets follow slots"; });
  add(check, found, place);
  add(check, book(check, step, line.inputs.arrival.shuffle), place);
  if (check.verdict.violations.size() == before)
    add(check, check_buckets(line, line.planned.buckets, check.verdict), place);
  else
    check.verdict.unchecked.push_back("shards, tiles, messages and summary of " + place +
                                      ": what they rest on is broken");
  check.state = step.state_after;
  check.verdict.sequences += static_cast<int64_t>(step.sequences.size());
  check.verdict.replanned += line.brief ? 1 : 0;
  ++check.verdict.steps;
}

}  // namespace

FileVerdict verify_plan_file(const std::string& path, const std::function<void(int64_t)>& progress) {
  FileCheck check;
  read_plan_file(path, [&](const PlanLine& line, int64_t number) {
    if (check.verdict.violations.size() < most_violations) check_line(check, line, number);
    progress(number);
  });
  close_ledger(check);
  FileVerdict& verdict = check.verdict;
  if (check.inputs && check.inputs->arrival.shuffle)
    verdict.unchecked.push_back("the order of arrival: a file with shuffle does not say how many documents there are");
  if (verdict.held > 0)
    verdict.unchecked.push_back("whether the " + std::to_string(verdict.held) +
                                " pieces held after the last step are trained");
  if (verdict.violations.size() >= most_violations)
    verdict.unchecked.push_back("what comes after the first " + std::to_string(most_violations) + " violations");
  return verdict;
}

}  // namespace equipoise
