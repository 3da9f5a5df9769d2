#pragma once

#include <span>
#include <vector>

#include "equipoise/packing/load.h"

namespace equipoise {

/// Items of pieces, in the order given.
std::vector<Item> items_of(std::span<const Waiting> pieces);

/// Sorts as goes_before() says items whose indices rise. A radix sort: a few passes, whatever their number.
void sort_longest_first(std::vector<Item>& items);

}  // namespace equipoise
