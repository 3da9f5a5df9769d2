// A tournament that the lightest sequence wins: an added piece replays only the matches on its sequence's way to the
// top.
#include "equipoise/packing/loads.h"

#include "equipoise/base/errors.h"

namespace equipoise {

Loads::Loads(int64_t sequences) : loads_(static_cast<size_t>(sequences)), winners_(2 * static_cast<size_t>(sequences)) {
  EQ_ASSERT(sequences >= 1);
  for (int64_t s = 0; s < sequences; ++s) winners_[static_cast<size_t>(sequences + s)].sequence = s;
  for (size_t i = loads_.size(); i-- > 1;) winners_[i] = winner(winners_[2 * i], winners_[2 * i + 1]);
}

bool Loads::wins_tie(int64_t a, int64_t b) const {
  const int64_t more = loads_[static_cast<size_t>(a)].tokens - loads_[static_cast<size_t>(b)].tokens;
  return more == 0 ? a < b : more < 0;
}

int64_t Loads::lightest_with_room(const Caps& caps, int64_t tokens) const {
  if (caps.admits(loads_[static_cast<size_t>(lightest())], tokens)) return lightest();
  return equipoise::lightest_with_room(loads_, caps, tokens);
}

void Loads::add(int64_t sequence, const Item& item) {
  const auto s = static_cast<size_t>(sequence);
  loads_[s].add(item);
  Player best{loads_[s].time_ns, sequence};
  for (size_t i = loads_.size() + s; i > 1; i /= 2) {
    winners_[i] = best;
    best = winner(best, winners_[i ^ 1]);
  }
  winners_[1] = best;
}

}  // namespace equipoise
