// Reads a plan line back into the nouns. Strict in form and silent about sense: a wrong plan must reach the checkers as
// it is.
#include <charconv>

#include "io/costs_json.h"
#include "io/files.h"
#include "io/inputs_json.h"
#include "io/length_formats.h"
#include "io/lengths.h"
#include "io/plan_file.h"
#include "io/summary_json.h"

namespace equipoise {
namespace {

/// A list of rows of N integers, each turned into a noun.
template <size_t N, class Make>
auto read_rows(const Json& list, const Fields& fields, std::string_view key, Make make) {
  if (!list.is_array()) fields.fail(key, "a list with " + list.dump(), "give lists of lists");
  std::vector<decltype(make(std::array<int64_t, N>{}))> rows;
  rows.reserve(list.size());
  for (const Json& row : list) rows.push_back(make(integer_row<N>(row, key, fields.place())));
  return rows;
}

/// A list with one entry for each sequence.
const Json& list_by_sequence(Fields& fields, std::string_view key, int64_t sequences) {
  const Json& list = fields.list(key);
  if (static_cast<int64_t>(list.size()) != sequences)
    fields.fail(key, "a list of " + std::to_string(list.size()),
                "give one entry for each of the " + std::to_string(sequences) + " sequences");
  return list;
}

uint64_t read_hash(Fields& fields) {
  const std::string text = fields.text("inputs_hash");
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size())
    fields.fail("inputs_hash", "'" + shown(text) + "'", "give 16 hexadecimal digits");
  return hash;
}

DocId id_in(int64_t value, const Fields& fields, std::string_view key) {
  if (value < 0) fields.fail(key, "a list with document " + std::to_string(value), "give ids from 0");
  return DocId{value};
}

/// Lengths are bounded, so that no sum in a checker can overflow.
int64_t tokens_in(int64_t value, const Fields& fields, std::string_view key) {
  if (value < 0 || value > longest_document_tokens)
    fields.fail(key, "a list with " + std::to_string(value), "give tokens from 0 to 2^40");
  return value;
}

std::vector<Sequence> read_sequences(Fields& fields, int64_t count) {
  constexpr std::string_view key = "sequences";
  std::vector<Sequence> sequences;
  for (const Json& list : list_by_sequence(fields, key, count))
    sequences.push_back({read_rows<3>(list, fields, key, [&](const auto& row) {
      return Segment{id_in(row[0], fields, key), tokens_in(row[1], fields, key), tokens_in(row[2], fields, key)};
    })});
  return sequences;
}

std::vector<std::pair<DocId, int64_t>> read_tokens(Fields& fields, std::string_view key) {
  return read_rows<2>(fields.list(key), fields, key, [&](const auto& row) {
    return std::pair{id_in(row[0], fields, key), tokens_in(row[1], fields, key)};
  });
}

Untrained read_untrained(Fields fields) {
  const Untrained untrained{.dropped = read_tokens(fields, "dropped"), .truncated = read_tokens(fields, "truncated")};
  fields.finish();
  return untrained;
}

StepPlan read_step(Fields& fields, const PlanInputs& inputs) {
  StepPlan step;
  step.step = fields.integer("step");
  step.inputs_hash = read_hash(fields);
  const auto arrived = integer_row<2>(fields.list("arrived"), "arrived", fields.place());
  step.arrived = {arrived[0], arrived[1]};
  step.documents = read_rows<3>(fields.list("documents"), fields, "documents", [&](const auto& row) {
    return Document{id_in(row[0], fields, "documents"), tokens_in(row[1], fields, "documents"),
                    tokens_in(row[2], fields, "documents")};
  });
  step.sequences = read_sequences(fields, inputs.sequences());
  step.slots = read_rows<2>(list_by_sequence(fields, "placement", inputs.sequences()), fields, "placement",
                            [](const auto& row) { return Slot{row[0], row[1]}; });
  step.untrained = read_untrained(fields.object("untrained"));
  step.state_after.step = step.step + 1;
  step.state_after.position = step.arrived.second;
  step.state_after.arrived_tokens = fields.integer("arrived_tokens");
  step.state_after.held = read_rows<5>(fields.list("held"), fields, "held", [&](const auto& row) {
    return Held{id_in(row[0], fields, "held"), tokens_in(row[1], fields, "held"), tokens_in(row[2], fields, "held"),
                row[3], row[4]};
  });
  return step;
}

/// Whether the slots are a permutation of N x dp: what buckets need.
bool is_permutation_of_slots(const PlanInputs& inputs, const std::vector<Slot>& slots) {
  std::vector<bool> used(slots.size(), false);
  for (const Slot& slot : slots) {
    const bool inside = slot.micro_step >= 0 && slot.micro_step < inputs.micro_steps && slot.replica >= 0 &&
                        slot.replica < inputs.mesh.dp;
    if (!inside || used[static_cast<size_t>(slot.micro_step * inputs.mesh.dp + slot.replica)]) return false;
    used[static_cast<size_t>(slot.micro_step * inputs.mesh.dp + slot.replica)] = true;
  }
  return true;
}

ShardingRule read_rule(const Json& text, const Fields& fields) {
  for (const ShardingRule rule : sharding_rules)
    if (text == name(rule)) return rule;
  fields.fail("sharding", "a list with " + text.dump(), "use sequence_zigzag, document_zigzag, contiguous or hybrid");
}

/// By sequence; without pieces in a brief line.
std::vector<Sharding> read_shardings(Fields& fields, int64_t sequences, bool brief) {
  std::vector<Sharding> shardings;
  for (const Json& rule : list_by_sequence(fields, "sharding", sequences))
    shardings.push_back({read_rule(rule, fields), {}});
  if (brief) return shardings;
  size_t sequence = 0;
  for (const Json& list : list_by_sequence(fields, "shards", sequences))
    shardings[sequence++].pieces = read_rows<4>(
        list, fields, "shards", [](const auto& row) { return ShardPiece{row[0], row[1], row[2], row[3]}; });
  return shardings;
}

std::vector<BucketPlan> make_bucket_plans(const PlanInputs& inputs, const StepPlan& step,
                                          const std::vector<Sharding>& shardings) {
  std::vector<BucketPlan> plans;
  for (const Bucket& bucket : step.buckets) {
    BucketPlan plan{
        .bucket = bucket, .sequences = {}, .shardings = {}, .layers = std::vector<LayerPlan>(inputs.masks.size())};
    for (const SeqId id : bucket.sequences) {
      plan.sequences.push_back(step.sequences[static_cast<size_t>(id.value)]);
      plan.shardings.push_back(shardings[static_cast<size_t>(id.value)]);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

/// Puts the tiles into their buckets. A tile for a replica of another pool gets a member that the pool does not have:
/// for the checker to find.
void read_tiles(Fields& fields, const PlanInputs& inputs, const StepPlan& step, std::vector<BucketPlan>& plans) {
  const auto inside = [&](int64_t value, int64_t end, const std::string& what) {
    if (value < 0 || value >= end)
      fields.fail("tiles", "a list with " + what + " " + std::to_string(value),
                  "give numbers below " + std::to_string(end));
  };
  for (const Json& list : fields.list("tiles")) {
    const auto row = integer_row<10>(list, "tiles", fields.place());
    inside(row[0], static_cast<int64_t>(inputs.masks.size()), "mask");
    inside(row[1], inputs.sequences(), "sequence");
    inside(row[7], inputs.mesh.dp, "replica");
    inside(row[8], inputs.mesh.cp, "cp_rank");
    if (plans.empty()) continue;
    const Slot& slot = step.slots[static_cast<size_t>(row[1])];
    const int64_t pool = slot.replica / inputs.pool;
    const int64_t bucket = slot.micro_step * (inputs.mesh.dp / inputs.pool) + pool;
    const MemberId member{(row[7] - pool * inputs.pool) * inputs.mesh.cp + row[8]};
    plans[static_cast<size_t>(bucket)].layers[static_cast<size_t>(row[0])].tiles.push_back(
        {slot.replica % inputs.pool, row[2], row[3], row[4], row[5], row[6], member, row[9]});
  }
}

}  // namespace

PlanLine read_plan_line(std::string_view text, const std::string& place) {
  const Json json = parse_json(text, place);
  Fields fields(json, "", place);
  check_format(fields, "equipoise.plan", 1);
  PlanLine line;
  line.inputs = read_inputs(fields.object("inputs"));
  line.brief = !fields.has("shards") && !fields.has("tiles");
  PlannedStep& planned = line.planned;
  planned.step = read_step(fields, line.inputs);
  if (is_permutation_of_slots(line.inputs, planned.step.slots))
    planned.step.buckets = make_buckets(planned.step.slots, line.inputs.mesh.dp, line.inputs.pool);
  planned.buckets =
      make_bucket_plans(line.inputs, planned.step, read_shardings(fields, line.inputs.sequences(), line.brief));
  if (!line.brief) read_tiles(fields, line.inputs, planned.step, planned.buckets);
  planned.summary = read_summary(fields.object("summary"));
  planned.step.loss_tokens = planned.summary.loss_tokens;
  planned.step.micro_batches = planned.summary.micro_batches;
  planned.step.pools = planned.summary.pools;
  fields.finish();
  return line;
}

void read_plan_file(const std::string& path, const std::function<void(PlanLine, int64_t)>& use) {
  read_lines(path, [&](std::string_view text, int64_t number) {
    use(read_plan_line(text, "line " + std::to_string(number) + " of " + display_name(path)), number);
  });
}

}  // namespace equipoise
