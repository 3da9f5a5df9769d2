#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace equipoise {

/// A table for the eye: the first column stands left, the others right, the header is bold where there is colour.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
std::string render(const Table& table, bool colour);

/// Names and values, one pair a line, the values under each other.
using Pairs = std::vector<std::pair<std::string, std::string>>;
std::string render(const Pairs& pairs);

enum class Tint { green, red };
std::string tint(const std::string& text, Tint tint, bool colour);

/// 1,234,567
std::string grouped(int64_t number);
/// 1.5 MiB
std::string bytes_text(int64_t bytes);
/// 12.3 ms
std::string time_text(int64_t nanoseconds);
/// Parts per million as a ratio with three decimals: 1.234
std::string ratio_text(int64_t ppm);
/// Parts per million as a percentage: 12.3 %
std::string percent_text(int64_t ppm);

}  // namespace equipoise
