// Writes a plan line. Its long lists, millions of integers for a large step, are written as text at once; only the
// small objects are built as JSON first.
#include <charconv>

#include "io/inputs_json.h"
#include "io/plan_file.h"
#include "io/summary_json.h"

namespace equipoise {
namespace {

void append_integer(std::string& out, int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

void append_row(std::string& out, std::initializer_list<int64_t> row) {
  char before = '[';
  for (const int64_t value : row) {
    out += before;
    append_integer(out, value);
    before = ',';
  }
  out += ']';
}

/// [f(item), f(item), ...] where append_item(item) writes one.
template <class Items, class AppendItem>
void append_list(std::string& out, const Items& items, AppendItem append_item) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append_item(item);
  }
  out += ']';
}

void append_key(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

void append_head(std::string& out, const PlanLine& line) {
  const StepPlan& step = line.planned.step;
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(step.inputs_hash));
  out += R"({"format":"equipoise.plan","version":1,"step":)";
  append_integer(out, step.step);
  append_key(out, "inputs");
  out += inputs_json(line.inputs).dump();
  append_key(out, "inputs_hash");
  out += '"' + std::string(hash) + '"';
  append_key(out, "arrived");
  append_row(out, {step.arrived.first, step.arrived.second});
}

void append_packing(std::string& out, const StepPlan& step) {
  append_key(out, "documents");
  append_list(out, step.documents, [&](const Document& document) {
    append_row(out, {document.id.value, document.length_tokens, document.loss_tokens});
  });
  append_key(out, "sequences");
  append_list(out, step.sequences, [&](const Sequence& sequence) {
    append_list(out, sequence.segments, [&](const Segment& segment) {
      append_row(out, {segment.document.value, segment.begin_tokens, segment.length_tokens});
    });
  });
  append_key(out, "placement");
  append_list(out, step.slots, [&](const Slot& slot) { append_row(out, {slot.micro_step, slot.replica}); });
}

/// Shardings of the step's buckets, by sequence.
std::vector<const Sharding*> shardings_by_sequence(const PlannedStep& planned) {
  std::vector<const Sharding*> shardings(planned.step.sequences.size());
  for (const BucketPlan& bucket : planned.buckets)
    for (size_t replica = 0; replica < bucket.shardings.size(); ++replica)
      shardings[static_cast<size_t>(bucket.bucket.sequences[replica].value)] = &bucket.shardings[replica];
  return shardings;
}

void append_shards(std::string& out, const PlanLine& line) {
  const std::vector<const Sharding*> shardings = shardings_by_sequence(line.planned);
  append_key(out, "sharding");
  append_list(out, shardings, [&](const Sharding* sharding) { out += '"' + std::string(name(sharding->rule)) + '"'; });
  if (line.brief) return;
  append_key(out, "shards");
  append_list(out, shardings, [&](const Sharding* sharding) {
    append_list(out, sharding->pieces, [&](const ShardPiece& piece) {
      append_row(out, {piece.segment, piece.begin_tokens, piece.length_tokens, piece.cp_rank});
    });
  });
}

void append_tiles(std::string& out, const PlanLine& line) {
  const int64_t cp = line.inputs.mesh.cp;
  append_key(out, "tiles");
  out += '[';
  bool first = true;
  for (const BucketPlan& bucket : line.planned.buckets) {
    const int64_t first_replica = bucket.bucket.pool * line.inputs.pool;
    for (size_t mask = 0; mask < bucket.layers.size(); ++mask) {
      for (const Tile& tile : bucket.layers[mask].tiles) {
        if (!first) out += ',';
        first = false;
        const int64_t sequence = bucket.bucket.sequences[static_cast<size_t>(tile.replica_in_pool)].value;
        append_row(out,
                   {static_cast<int64_t>(mask), sequence, tile.segment, tile.q_begin, tile.q_length, tile.head_begin,
                    tile.heads, first_replica + tile.member.value / cp, tile.member.value % cp, tile.round});
      }
    }
  }
  out += ']';
}

void append_state(std::string& out, const StepPlan& step) {
  append_key(out, "arrived_tokens");
  append_integer(out, step.state_after.arrived_tokens);
  append_key(out, "held");
  append_list(out, step.state_after.held, [&](const Held& held) {
    append_row(out, {held.document.value, held.begin_tokens, held.length_tokens, held.since_step, held.queue});
  });
  const auto append_tokens = [&](const std::pair<DocId, int64_t>& entry) {
    append_row(out, {entry.first.value, entry.second});
  };
  append_key(out, "untrained");
  out += "{\"dropped\":";
  append_list(out, step.untrained.dropped, append_tokens);
  append_key(out, "truncated");
  append_list(out, step.untrained.truncated, append_tokens);
  out += '}';
}

}  // namespace

std::string write_plan_line(const PlanLine& line) {
  std::string out;
  append_head(out, line);
  append_packing(out, line.planned.step);
  append_shards(out, line);
  if (!line.brief) append_tiles(out, line);
  append_state(out, line.planned.step);
  append_key(out, "summary");
  out += summary_json(line.planned.summary).dump();
  out += "}\n";
  return out;
}

}  // namespace equipoise
