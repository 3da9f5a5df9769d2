// Times are sorted digit by digit, the lowest first; each pass keeps the order that the passes before it made.
#include "equipoise/packing/longest_first.h"

#include <algorithm>
#include <array>

namespace equipoise {
namespace {

constexpr int64_t digit_bits = 11;
constexpr int64_t digits = int64_t{1} << digit_bits;

/// One pass, longest first: by the digit of the time that begins at bit `shift`.
void sort_by_digit(std::vector<Item>& items, std::vector<Item>& sorted, int64_t shift) {
  const auto bucket = [&](const Item& item) {
    return static_cast<size_t>(digits - 1 - ((item.time_ns >> shift) & (digits - 1)));
  };
  std::array<size_t, digits + 1> begin = {};
  for (const Item& item : items) ++begin[bucket(item) + 1];
  for (size_t b = 1; b < begin.size(); ++b) begin[b] += begin[b - 1];
  for (const Item& item : items) sorted[begin[bucket(item)]++] = item;
  items.swap(sorted);
}

}  // namespace

std::vector<Item> items_of(std::span<const Waiting> pieces) {
  std::vector<Item> items;
  items.reserve(pieces.size());
  for (const Waiting& piece : pieces) items.push_back(item_of(piece, items.size()));
  return items;
}

void sort_longest_first(std::vector<Item>& items) {
  int64_t longest_ns = 0;
  for (const Item& item : items) longest_ns = std::max(longest_ns, item.time_ns);
  std::vector<Item> buffer(items.size());
  for (int64_t shift = 0; shift < 63 && (longest_ns >> shift) > 0; shift += digit_bits)
    sort_by_digit(items, buffer, shift);
}

}  // namespace equipoise
