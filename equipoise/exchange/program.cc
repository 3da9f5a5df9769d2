#include "equipoise/exchange/program.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "equipoise/base/errors.h"
#include "equipoise/exchange/arena.h"
#include "equipoise/exchange/entries.h"
#include "equipoise/exchange/key_needs.h"
#include "equipoise/model/work.h"

// The same messages and work as the plan, told from one member's side in cells. Sender and receiver both walk the
// exchange in its own order, so that their lists agree without a word between them.

namespace equipoise {
namespace {

/// Where each block of guest queries begins, by (round, replica, segment, first row, first head).
using GuestCells = std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>, int64_t>;

/// What a program is made from.
struct ProgramSource {
  const PlanInputs& inputs;
  const BucketPlan& bucket;
  int64_t mask_index = 0;
  int64_t step = 0;

  std::vector<WorkItem> work() const {
    return attention_work(bucket.sequences, bucket.shardings, bucket.layers[mask_index].tiles, inputs.heads,
                          inputs.mesh.cp);
  }
};

/// One member's part of work that is sorted by member.
std::span<const WorkItem> part_of(std::span<const WorkItem> work, MemberId member) {
  const auto first =
      std::partition_point(work.begin(), work.end(), [&](const WorkItem& w) { return w.member < member; });
  const auto last = std::partition_point(first, work.end(), [&](const WorkItem& w) { return w.member == member; });
  return {first, last};
}

void set_flags(RankProgram& program, const Exchange& exchange) {
  for (const Message& message : exchange.queries) program.rounds[message.round].queries_move = true;
  for (const Message& message : exchange.keys) {
    program.rounds[message.round].keys_move = true;
    program.rounds[message.last_round].key_gradients_move = true;
  }
}

SendBlock send_block(const OwnRows& own, const Message& message) {
  const RowBlock& block = message.block;
  const LocalPiece* piece =
      find_piece(own, block.replica_in_pool, block.segment, {block.begin_tokens, block.length_tokens});
  EQ_ASSERT(piece != nullptr);
  return {message.to.value,    piece->first_row + block.begin_tokens - piece->begin_tokens,
          block.length_tokens, block.head_begin,
          block.heads,         message.last_round};
}

GuestCells add_queries(RankProgram& program, const std::vector<Message>& messages, const OwnRows& own) {
  GuestCells cells;
  std::vector<int64_t> next(program.rounds.size());
  for (const Message& message : messages) {
    const RowBlock& block = message.block;
    RoundProgram& round = program.rounds[message.round];
    if (message.from == program.member) round.send_queries.push_back(send_block(own, message));
    if (message.to != program.member) continue;
    round.receive_queries.push_back({message.from.value, block.length_tokens, block.heads});
    int64_t& cell = next[message.round];
    cells[{message.round, block.replica_in_pool, block.segment, block.begin_tokens, block.head_begin}] = cell;
    cell += block.length_tokens * block.heads;
  }
  return cells;
}

void add_keys(RankProgram& program, const std::vector<Message>& messages, const OwnRows& own, const Arena& arena) {
  for (const Message& message : messages) {
    const RowBlock& block = message.block;
    RoundProgram& round = program.rounds[message.round];
    if (message.from == program.member) round.send_keys.push_back(send_block(own, message));
    if (message.to != program.member) continue;
    const ArenaBlock& target =
        find_block(arena, block.replica_in_pool, block.segment, block.head_begin, block.begin_tokens);
    round.receive_keys.push_back({message.from.value, block.length_tokens, block.heads,
                                  target.cell_of(block.head_begin, block.begin_tokens), target.keys.length,
                                  message.last_round});
  }
}

std::vector<PlacedItem> place_items(std::span<const WorkItem> work, const GuestCells& guests,
                                    const RankProgram& program) {
  const Heads& heads = program.heads;
  std::vector<PlacedItem> placed;
  for (const WorkItem& item : work) {
    if (item.owner == item.member)
      placed.push_back({item, Store::local, item.owner_row * heads.query + item.head_begin, heads.query});
    else
      placed.push_back({item, Store::foreign,
                        guests.at({item.round, item.replica_in_pool, item.segment, item.q_begin, item.head_begin}),
                        item.heads});
  }
  if (program.gradient_sum == GradientSum::invariant) return cut_items(placed, heads, program.grid_rows);
  return join_items(std::move(placed), heads);
}

RankProgram header(const ProgramSource& source, MemberId member) {
  const auto& [inputs, bucket, mask_index, step] = source;
  if (mask_index < 0 || mask_index >= std::ssize(bucket.layers) || mask_index >= std::ssize(inputs.masks))
    throw InputError("mask " + std::to_string(mask_index) + " does not exist", "mask of a rank program",
                     "use 0 .. " + std::to_string(std::ssize(bucket.layers) - 1));
  if (member.value < 0 || member.value >= inputs.members())
    throw InputError("member " + std::to_string(member.value) + " does not exist", "member of a rank program",
                     "use 0 .. " + std::to_string(inputs.members() - 1));
  RankProgram program;
  program.step = step;
  program.micro_step = bucket.bucket.micro_step;
  program.pool = bucket.bucket.pool;
  program.member = member;
  program.members = inputs.members();
  program.mask = inputs.masks[mask_index];
  program.heads = inputs.heads;
  program.grid_rows = inputs.grid();
  program.gradient_sum = inputs.gradient_sum;
  program.keep_received = inputs.keep_received;
  const bool promises = inputs.keep_received || inputs.limits.exchange_bytes != no_limit;
  program.element_bytes = promises ? inputs.cost.element_bytes : 0;
  program.rounds.resize(bucket.layers[mask_index].exchange.rounds);
  return program;
}

/// `work` is the member's own.
RankProgram make_program(const ProgramSource& source, MemberId member, std::span<const WorkItem> work) {
  RankProgram program = header(source, member);
  const auto& [inputs, bucket, mask_index, step] = source;
  const Exchange& exchange = bucket.layers[mask_index].exchange;
  const int64_t replica = member.value / inputs.mesh.cp;
  const OwnRows own{replica, local_rows(bucket.shardings[replica], inputs.mesh, member.value % inputs.mesh.cp,
                                        inputs.limits.align_tokens)};
  program.rows = own.rows.owned_rows + own.rows.padding_rows;

  const Arena arena = make_arena(key_needs(bucket.sequences, work, program.mask, program.heads), own);
  program.arena_cells = arena.cells;
  program.own_keys = own_keys(arena, own);

  set_flags(program, exchange);
  const GuestCells guests = add_queries(program, exchange.queries, own);
  add_keys(program, exchange.keys, own, arena);
  const KeyPlaces keys{program.mask, program.heads, own, arena};
  for (const PlacedItem& placed : place_items(work, guests, program)) {
    const Segment& segment = bucket.sequences[placed.item.replica_in_pool].segments[placed.item.segment];
    append_entries(program.rounds[placed.item.round].entries, placed, keys, segment.length_tokens);
  }
  return program;
}

}  // namespace

RankProgram make_rank_program(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index, MemberId member,
                              int64_t step) {
  const ProgramSource source{inputs, bucket, mask_index, step};
  header(source, member);  // refuses what does not exist
  const std::vector<WorkItem> work = source.work();
  return make_program(source, member, part_of(work, member));
}

std::vector<RankProgram> make_rank_programs(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index,
                                            int64_t step) {
  const ProgramSource source{inputs, bucket, mask_index, step};
  header(source, MemberId{0});
  const std::vector<WorkItem> work = source.work();
  std::vector<RankProgram> programs;
  for (int64_t m = 0; m < inputs.members(); ++m)
    programs.push_back(make_program(source, MemberId{m}, part_of(work, MemberId{m})));
  return programs;
}

}  // namespace equipoise
