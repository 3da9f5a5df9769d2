// Programs speak of cells and know no documents. Laid beside the plan they were made from, every cell becomes a token
// of a segment again, and each entry must hold the rows, keys and heads that the plan gives this member in this round.

#include "equipoise/verify/program_cells.h"
#include "equipoise/verify/segments.h"
#include "equipoise/verify/verify.h"

namespace equipoise {
namespace {

using namespace verifying;

/// Tokens of one segment that lie together in a member's tensors.
struct TokenRun {
  int64_t first_row = 0;
  int64_t length = 0;
  int64_t segment = 0;
  int64_t begin = 0;
};

/// Where rows and heads of an entry or block come from.
struct Source {
  int64_t replica = -1;  ///< -1: not one run of tokens
  int64_t segment = 0;
  int64_t token = 0;
  int64_t head = 0;
  bool operator==(const Source&) const = default;
};

/// The senders' side of one round's receive lists, parallel to them.
struct Senders {
  std::vector<SendBlock> queries;
  std::vector<SendBlock> keys;
};

/// What one member's cells hold.
struct MemberCells {
  std::vector<TokenRun> tokens;  ///< sorted by row
  std::vector<ArenaRun> arena;   ///< sorted by cell
  std::vector<Senders> senders;  ///< by round
};

struct PlanCheck {
  const PlanInputs& inputs;
  const BucketPlan& bucket;
  int64_t mask_index;
  std::span<const RankProgram> programs;
  std::vector<MemberCells> members;
  std::vector<std::vector<SegmentView>> segments;  ///< by replica
  Violations& found;

  void say(const char* rule, int64_t member, const std::string& what) {
    found.push_back({rule, text(bucket_name(bucket, mask_index), ", member ", member), what});
  }
};

void lay_out_tokens(PlanCheck& check);
void lay_out_programs(PlanCheck& check);
bool check_headers(PlanCheck& check);
void check_rows(PlanCheck& check, int64_t member);
void check_entry(PlanCheck& check, int64_t member, int64_t r, const KernelEntry& entry);

}  // namespace

Violations check_bucket_programs(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index,
                                 std::span<const RankProgram> programs) {
  Violations found = check_program_set(programs);
  if (!found.empty() || !has_bucket_shape(inputs, bucket, mask_index, found)) return found;
  PlanCheck check{inputs, bucket, mask_index, programs, {}, {}, found};
  lay_out_tokens(check);
  if (!check_headers(check)) return found;
  lay_out_programs(check);
  for (int64_t member = 0; member < inputs.members(); ++member) {
    check_rows(check, member);
    const auto& rounds = programs[member].rounds;
    for (size_t r = 0; r < rounds.size(); ++r)
      for (const KernelEntry& entry : rounds[r].entries) check_entry(check, member, static_cast<int64_t>(r), entry);
  }
  return found;
}

namespace {

/// Rows of a member: its pieces by (segment, begin), one after another.
void lay_out_tokens(PlanCheck& check) {
  check.members.resize(check.inputs.members());
  check.segments.resize(check.inputs.pool);
  for (SegmentView& view : segment_views(check.inputs, check.bucket, check.mask_index)) {
    for (const ShardPiece& piece : view.pieces) {
      std::vector<TokenRun>& runs = check.members[view.replica * check.inputs.mesh.cp + piece.cp_rank].tokens;
      const int64_t row = runs.empty() ? 0 : runs.back().first_row + runs.back().length;
      runs.push_back({row, piece.length_tokens, view.segment, piece.begin_tokens});
    }
    check.segments[view.replica].push_back(std::move(view));
  }
}

/// For each received block the one of the peer's list for this receiver that stands at the same place.
template <class Received>
std::vector<SendBlock> match_senders(const PlanCheck& check, int64_t member, int64_t r,
                                     std::vector<Received> RoundProgram::* received,
                                     std::vector<SendBlock> RoundProgram::* sent) {
  std::vector<SendBlock> matched;
  std::vector<size_t> next(check.programs.size());
  for (const Received& block : check.programs[member].rounds[r].*received) {
    const std::vector<SendBlock>& sends = check.programs[block.peer].rounds[r].*sent;
    size_t& i = next[block.peer];
    while (sends[i].peer != member) ++i;  // the set was found to match
    matched.push_back(sends[i++]);
  }
  return matched;
}

void lay_out_programs(PlanCheck& check) {
  for (int64_t m = 0; m < check.inputs.members(); ++m) {
    check.members[m].arena = arena_runs(check.programs[m]);
    for (size_t r = 0; r < check.programs[m].rounds.size(); ++r) {
      const auto round = static_cast<int64_t>(r);
      check.members[m].senders.push_back(
          {match_senders(check, m, round, &RoundProgram::receive_queries, &RoundProgram::send_queries),
           match_senders(check, m, round, &RoundProgram::receive_keys, &RoundProgram::send_keys)});
    }
  }
}

int64_t owned_tokens(const PlanCheck& check, int64_t member) {
  const std::vector<TokenRun>& runs = check.members[member].tokens;
  return runs.empty() ? 0 : runs.back().first_row + runs.back().length;
}

/// Rows of each member, padding included.
std::vector<int64_t> all_rows(const PlanCheck& check) {
  std::vector<int64_t> rows;
  for (int64_t replica = 0; replica < check.inputs.pool; ++replica) {
    std::vector<int64_t> owned;
    for (int64_t rank = 0; rank < check.inputs.mesh.cp; ++rank)
      owned.push_back(owned_tokens(check, replica * check.inputs.mesh.cp + rank));
    const auto padded = padded_rows(owned, check.bucket.shardings[replica].rule, check.inputs);
    rows.insert(rows.end(), padded.begin(), padded.end());
  }
  return rows;
}

bool check_headers(PlanCheck& check) {
  const size_t before = check.found.size();
  const auto expect = [&](int64_t member, bool right, const std::string& what) {
    if (!right) check.say("program of plan", member, what);
  };
  expect(0, static_cast<int64_t>(check.programs.size()) == check.inputs.members(),
         "the pool has another number of members");
  if (check.found.size() > before) return false;
  const auto rounds = static_cast<size_t>(check.bucket.layers[check.mask_index].exchange.rounds);
  const std::vector<int64_t> expected_rows = all_rows(check);
  for (int64_t m = 0; m < check.inputs.members(); ++m) {
    const RankProgram& program = check.programs[m];
    expect(m, program.mask == check.inputs.masks[check.mask_index] && program.heads == check.inputs.heads,
           "mask or heads differ");
    expect(m, program.gradient_sum == check.inputs.gradient_sum && program.grid_rows == check.inputs.grid(),
           "gradient sum or grid differ");
    expect(m, program.micro_step == check.bucket.bucket.micro_step && program.pool == check.bucket.bucket.pool,
           "it is of another bucket");
    expect(m, program.rounds.size() == rounds, text("has other rounds than ", static_cast<int64_t>(rounds)));
    expect(m, program.rows == expected_rows[m], text(program.rows, " rows, expected ", expected_rows[m]));
  }
  return check.found.size() == before;
}

/// Every owned row is computed once, and no padding row is used for anything.
void check_rows(PlanCheck& check, int64_t member) {
  const RankProgram& program = check.programs[member];
  const int64_t owned = owned_tokens(check, member);
  if (named_rows(program) > owned)
    check.say("padding used", member, text("names row ", named_rows(program) - 1, " of ", owned, " owned rows"));
  for (const Uneven& one : uneven_rows(handled_queries(program), owned, program.heads.query))
    check.say(one.count == 0 ? "row never computed" : "row computed twice", member,
              text("rows ", text(one.rows), " of query head ", one.head));
}

/// The tokens that rows [row, row + rows) of a member hold.
Source source_of(const PlanCheck& check, int64_t member, int64_t row, int64_t rows, int64_t head) {
  const std::vector<TokenRun>& runs = check.members[member].tokens;
  auto run =
      std::upper_bound(runs.begin(), runs.end(), row, [](int64_t r, const TokenRun& one) { return r < one.first_row; });
  if (run == runs.begin()) return {};
  --run;
  if (row + rows > run->first_row + run->length) return {};
  return {member / check.inputs.mesh.cp, run->segment, run->begin + row - run->first_row, head};
}

Source query_source(const PlanCheck& check, int64_t member, int64_t r, const QueryPart& part) {
  const Rectangle& cells = part.cells;
  if (part.block < 0) return source_of(check, member, cells.row, cells.rows, cells.head);
  const SendBlock& block = check.members[member].senders[r].queries[part.block];
  const int64_t peer = check.programs[member].rounds[r].receive_queries[part.block].peer;
  return source_of(check, peer, block.first_row + cells.row, cells.rows, block.head_begin + cells.head);
}

Source arena_source(const PlanCheck& check, int64_t member, const ArenaRun& run, Interval cells) {
  const int64_t offset = cells.begin - run.cells.begin;
  if (run.block < 0) {
    const OwnKeys& keys = check.programs[member].own_keys[run.index];
    return source_of(check, member, keys.first_row + offset, cells.length(), keys.head_begin + run.head);
  }
  const SendBlock& block = check.members[member].senders[run.round].keys[run.block];
  const int64_t peer = check.programs[member].rounds[run.round].receive_keys[run.block].peer;
  return source_of(check, peer, block.first_row + offset, cells.length(), block.head_begin + run.head);
}

/// Whether the keys of one KV head of an entry are the tokens from `first` on, in order.
bool holds_keys(const PlanCheck& check, int64_t member, const KernelEntry& entry, int64_t kv_head, Source first) {
  if (entry.k_store == Store::local) {
    const Rectangle keys = local_keys(check.programs[member], entry);
    return source_of(check, member, keys.row, keys.rows, keys.head + kv_head) == first;
  }
  const int64_t begin = entry.k_cell + kv_head * (entry.kv_heads == 1 ? 0 : entry.k_head_stride);
  Interval rest = {begin, begin + entry.keys};
  for (const ArenaRun& run : find_runs(check.members[member].arena, rest)) {
    const Interval cells = {rest.begin, std::min(rest.end, run.cells.end)};
    if (arena_source(check, member, run, cells) != first) return false;
    first.token += cells.length();
    rest.begin = cells.end;
  }
  return rest.begin == rest.end;
}

/// Rows x heads of a tile that lie in the given rectangle.
int64_t shared_cells(const Tile& tile, Interval rows, Interval heads) {
  const int64_t shared_rows = std::min(rows.end, tile.q_begin + tile.q_length) - std::max(rows.begin, tile.q_begin);
  const int64_t shared_heads =
      std::min(heads.end, tile.head_begin + tile.heads) - std::max(heads.begin, tile.head_begin);
  return std::max<int64_t>(0, shared_rows) * std::max<int64_t>(0, shared_heads);
}

/// Guests are exactly what tiles give this member in this round; own rows are in no tile.
bool follows_tiles(const SegmentView& view, int64_t member, int64_t r, const QueryPart& part, const Source& source) {
  const Interval rows = {source.token, source.token + part.cells.rows};
  const Interval heads = {source.head, source.head + part.cells.heads};
  int64_t given = 0, named = 0;
  for (const Tile& tile : view.tiles) {
    named += shared_cells(tile, rows, heads);
    if (tile.member.value == member && tile.round == r) given += shared_cells(tile, rows, heads);
  }
  return part.block < 0 ? named == 0 && r == 0 : given == rows.length() * heads.length();
}

/// Whether rows that lie in one shard piece are all of it that one block of the grid holds. Heads are check_program's.
bool is_whole_cell(const SegmentView& view, Interval rows, int64_t grid_rows) {
  Interval cell = {rows.begin / grid_rows * grid_rows, (rows.begin / grid_rows + 1) * grid_rows};
  for (const ShardPiece& piece : view.pieces) {
    if (piece.begin_tokens > rows.begin || piece.begin_tokens + piece.length_tokens <= rows.begin) continue;
    cell.begin = std::max(cell.begin, piece.begin_tokens);
    cell.end = std::min(cell.end, piece.begin_tokens + piece.length_tokens);
  }
  return rows == cell;
}

void check_entry(PlanCheck& check, int64_t member, int64_t r, const KernelEntry& entry) {
  const RankProgram& program = check.programs[member];
  const std::vector<QueryPart> parts = query_parts(program, program.rounds[r], entry);
  const Source first = query_source(check, member, r, parts.front());
  const int64_t group = program.heads.group();
  const std::string name = text("round ", r, ", entry of ", entry.rows, " rows from cell ", entry.q_cell);
  for (const QueryPart& part : parts) {
    Source expected = first;
    expected.token += part.entry_row;
    expected.head += part.entry_head;
    const Source source = query_source(check, member, r, part);
    if (source.replica < 0 || source != expected)
      return check.say("entry rows", member, text(name, " joins rows that do not follow each other"));
    if (!follows_tiles(check.segments[source.replica][source.segment], member, r, part, source))
      check.say("tile followed", member, text(name, " computes what the tiles give to another"));
  }
  const SegmentView& view = check.segments[first.replica][first.segment];
  const Interval rows = {first.token, first.token + entry.rows};
  if (program.gradient_sum == GradientSum::invariant && !is_whole_cell(view, rows, program.grid_rows))
    check.say("entry is a grid cell", member,
              text(name, " holds ", text(rows), ", which is no whole cell of the grid"));
  const Interval keys = keys_of_rows(program.mask, rows, view.length_tokens);
  bool right = fits_groups(first.head, entry.heads, group) && keys.length() == entry.keys &&
               first.token - keys.begin == entry.diagonal;
  for (int64_t h = 0; right && h < entry.kv_heads; ++h)
    right = holds_keys(check, member, entry, h, {first.replica, first.segment, keys.begin, first.head / group + h});
  if (!right) check.say("entry keys", member, text(name, " attends to other keys than its rows see"));
}

}  // namespace
}  // namespace equipoise
