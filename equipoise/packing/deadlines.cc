// The promise of a hard bound rests on one invariant: after every step, and before any document is let in, what waits
// can be scheduled in time by plain first fit.
#include "equipoise/packing/deadlines.h"

#include <algorithm>
#include <numeric>

#include "equipoise/model/limits.h"

namespace equipoise {
namespace {

std::vector<size_t> by_deadline(const std::vector<Waiting>& pieces) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Held& x = pieces[a].held;
    const Held& y = pieces[b].held;
    if (x.since_step != y.since_step) return x.since_step < y.since_step;
    if (x.length_tokens != y.length_tokens) return x.length_tokens > y.length_tokens;
    if (x.document != y.document) return x.document < y.document;
    return x.begin_tokens < y.begin_tokens;
  });
  return order;
}

}  // namespace

SafeSchedule schedule_safely(const std::vector<Waiting>& pieces, int64_t sequences, const Caps& caps, int64_t step) {
  SafeSchedule schedule{true, std::vector<int64_t>(pieces.size(), -1), std::vector<int64_t>(pieces.size(), -1)};
  std::vector<Load> loads;  // by step ahead, then sequence; grows as steps are opened
  size_t first_open = 0;    // sequences before it have no room for any piece still to come: none is this short
  int64_t shortest = no_limit;
  for (const Waiting& piece : pieces) shortest = std::min(shortest, piece.held.length_tokens);
  for (const size_t index : by_deadline(pieces)) {
    const Waiting& piece = pieces[index];
    const int64_t last_ahead = piece.held.since_step + caps.max_delay_steps - step;
    const auto end = static_cast<size_t>(std::max<int64_t>(0, last_ahead + 1) * sequences);
    while (first_open < loads.size() &&
           (loads[first_open].tokens + shortest > caps.tokens || loads[first_open].segments >= caps.segments))
      ++first_open;
    size_t place = first_open;
    while (place < end && place < loads.size() && !caps.admits(loads[place], piece.held.length_tokens)) ++place;
    if (place >= end) return {false, {}, {}};
    if (place == loads.size()) loads.emplace_back();
    loads[place].add(piece);
    schedule.steps_ahead[index] = static_cast<int64_t>(place) / sequences;
    schedule.sequence[index] = static_cast<int64_t>(place) % sequences;
  }
  return schedule;
}

}  // namespace equipoise
