#pragma once

#include <span>

#include "equipoise/tiling/board.h"

namespace equipoise {

/// Lowers the traffic of the members that move most, by `tries` random exchanges of work between two members: a slice
/// that weighs on one of the busiest goes to a member that has its keys already, to its owner, or to any, which gives
/// as much of its own work in return.
///
/// An exchange stays if it lowers the sum over members of a steep power of traffic; early on also if it raises it by up
/// to `patience_ppm` millionths, so that small valleys are left. Members above their capacity take no more work;
/// exchange_bytes holds. Where every segment lies whole on one member nothing is exchanged: released rows are the
/// fewest already. The same tries give the same result: the random numbers have a fixed seed.
///
/// Cost: about a microsecond a try.
void improve(Board& board, std::span<const int64_t> capacity_ns, int64_t tries, int64_t patience_ppm);

/// The most traffic of a member.
int64_t most_traffic_ps(const Board& board);

}  // namespace equipoise
