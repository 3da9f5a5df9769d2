// Programs speak of cells; these functions turn cells back into rows and heads.

#include "equipoise/verify/program_cells.h"

namespace equipoise::verifying {

std::vector<Uneven> uneven_rows(const std::vector<Rectangle>& rectangles, int64_t rows, int64_t heads) {
  struct Edge {
    int64_t row, change;
    const Rectangle* rectangle;
  };
  std::vector<Edge> edges = {{0, 0, nullptr}, {rows, 0, nullptr}};
  for (const Rectangle& one : rectangles) {
    edges.push_back({one.row, 1, &one});
    edges.push_back({one.row + one.rows, -1, &one});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.row < b.row; });
  std::vector<int64_t> count(heads, 0);
  std::vector<Uneven> found;
  for (size_t i = 0; i + 1 < edges.size() && edges[i].row < rows; ++i) {
    for (int64_t h = 0; edges[i].rectangle && h < edges[i].rectangle->heads; ++h)
      count[edges[i].rectangle->head + h] += edges[i].change;
    if (edges[i].row == edges[i + 1].row) continue;
    for (int64_t h = 0; h < heads; ++h) {
      if (count[h] == 1) continue;
      found.push_back({{edges[i].row, std::min(rows, edges[i + 1].row)}, h, count[h]});
      break;
    }
  }
  return found;
}

std::vector<QueryPart> query_parts(const RankProgram& program, const RoundProgram& round, const KernelEntry& entry) {
  std::vector<QueryPart> parts;
  int64_t row = 0, head = 0;  // of the entry, up to where the parts reach
  const auto take = [&](int64_t block, int64_t first_cell, int64_t rows, int64_t heads) {
    const int64_t end = first_cell + rows * heads;
    while (row < entry.rows) {
      const int64_t cell = entry.q_cell + row * entry.q_row_stride + head - first_cell;
      if (cell < 0 || cell >= end - first_cell) return;
      QueryPart part{block, {cell / heads, 1, cell % heads, entry.heads}, row, head};
      if (entry.rows == 1) {  // the heads of one row lie together, whatever blocks they are in
        part.cells.heads = std::min(entry.heads - head, heads - part.cells.head);
        head += part.cells.heads;
        row = head == entry.heads ? 1 : 0;
      } else {
        if (entry.q_row_stride != heads || part.cells.head + entry.heads > heads) return;
        part.cells.rows = std::min(entry.rows - row, rows - part.cells.row);
        row += part.cells.rows;
      }
      parts.push_back(part);
    }
  };
  const bool sound =
      entry.q_cell >= 0 &&
      (entry.rows == 1 || (entry.q_row_stride >= entry.heads && entry.q_row_stride <= program.heads.query));
  if (!sound) return parts;
  if (entry.q_store == Store::local) take(-1, 0, program.rows, program.heads.query);
  int64_t first_cell = 0;
  for (size_t b = 0; entry.q_store == Store::foreign && b < round.receive_queries.size() && row < entry.rows; ++b) {
    const auto& [peer, rows, heads] = round.receive_queries[b];
    take(static_cast<int64_t>(b), first_cell, rows, heads);
    first_cell += rows * heads;
  }
  if (row < entry.rows) parts.clear();
  return parts;
}

Rectangle local_keys(const RankProgram& program, const KernelEntry& entry) {
  return {entry.k_cell / program.heads.kv, entry.keys, entry.k_cell % program.heads.kv, entry.kv_heads};
}

std::vector<ArenaRun> arena_runs(const RankProgram& program) {
  std::vector<ArenaRun> runs;
  const auto rounds = static_cast<int64_t>(program.rounds.size());
  const auto add = [&](const auto& keys, ArenaRun run) {
    for (run.head = 0; run.head < keys.heads; ++run.head) {
      const int64_t first = keys.cell + run.head * keys.head_stride;
      run.cells = {first, first + keys.rows};
      runs.push_back(run);
    }
  };
  for (size_t i = 0; i < program.own_keys.size(); ++i)
    add(program.own_keys[i], {{}, 0, rounds - 1, -1, static_cast<int64_t>(i), 0});
  for (int64_t r = 0; r < rounds; ++r)
    for (size_t b = 0; b < program.rounds[r].receive_keys.size(); ++b) {
      const ReceiveKeys& keys = program.rounds[r].receive_keys[b];
      add(keys, {{}, r, keys.return_round, static_cast<int64_t>(b), 0, 0});
    }
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::vector<ArenaRun> find_runs(const std::vector<ArenaRun>& runs, Interval cells) {
  auto run = std::upper_bound(runs.begin(), runs.end(), cells.begin,
                              [](int64_t cell, const ArenaRun& one) { return cell < one.cells.end; });
  std::vector<ArenaRun> found;
  for (; run != runs.end() && cells.begin < cells.end && run->cells.begin <= cells.begin; ++run) {
    found.push_back(*run);
    cells.begin = run->cells.end;
  }
  if (cells.begin < cells.end) found.clear();
  return found;
}

int64_t named_rows(const RankProgram& program) {
  int64_t rows = 0;
  for (const Rectangle& one : handled_queries(program)) rows = std::max(rows, one.row + one.rows);
  for (const OwnKeys& keys : program.own_keys) rows = std::max(rows, keys.first_row + keys.rows);
  for (const RoundProgram& round : program.rounds) {
    for (const SendBlock& block : round.send_keys) rows = std::max(rows, block.first_row + block.rows);
    for (const KernelEntry& entry : round.entries)
      if (entry.k_store == Store::local) rows = std::max(rows, local_keys(program, entry).row + entry.keys);
  }
  return rows;
}

std::vector<Rectangle> handled_queries(const RankProgram& program) {
  std::vector<Rectangle> handled;
  for (const RoundProgram& round : program.rounds) {
    for (const SendBlock& block : round.send_queries)
      handled.push_back({block.first_row, block.rows, block.head_begin, block.heads});
    for (const KernelEntry& entry : round.entries)
      if (entry.q_store == Store::local)
        for (const QueryPart& part : query_parts(program, round, entry)) handled.push_back(part.cells);
  }
  return handled;
}

}  // namespace equipoise::verifying
