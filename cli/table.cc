// Tables and numbers as a person reads them.
#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace equipoise {
namespace {

std::string padded(const std::string& text, size_t width, bool left) {
  const std::string blanks(width - std::min(width, text.size()), ' ');
  return left ? text + blanks : blanks + text;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t column = 0; column < cells.size(); ++column)
    line += (column ? "  " : "") + padded(cells[column], widths[column], column == 0);
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string scaled(double value, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

}  // namespace

std::string render(const Table& table, bool colour) {
  std::vector<size_t> widths(table.header.size(), 0);
  for (size_t column = 0; column < widths.size(); ++column) {
    widths[column] = table.header[column].size();
    for (const std::vector<std::string>& row : table.rows)
      widths[column] = std::max(widths[column], row[column].size());
  }
  const std::string header = line_of(table.header, widths);
  std::string text = (colour ? "\033[1m" + header + "\033[0m" : header) + "\n";
  for (const std::vector<std::string>& row : table.rows) text += line_of(row, widths) + "\n";
  return text;
}

std::string render(const Pairs& pairs) {
  size_t width = 0;
  for (const auto& [name, value] : pairs) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : pairs) text += padded(name, width, true) + "  " + value + "\n";
  return text;
}

std::string tint(const std::string& text, Tint tint, bool colour) {
  if (!colour) return text;
  return (tint == Tint::green ? "\033[32m" : "\033[31m") + text + "\033[0m";
}

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return scaled(value, units[unit]);
}

std::string time_text(int64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1'000) return std::to_string(nanoseconds) + " ns";
  if (nanoseconds < 1'000'000) return scaled(value / 1e3, "us");
  if (nanoseconds < 1'000'000'000) return scaled(value / 1e6, "ms");
  return scaled(value / 1e9, "s");
}

std::string ratio_text(int64_t ppm) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", static_cast<double>(ppm) / 1e6);
  return text;
}

std::string percent_text(int64_t ppm) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", static_cast<double>(ppm) / 1e4);
  return text;
}

}  // namespace equipoise
