#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "equipoise/base/errors.h"
#include "equipoise/base/integers.h"

// Strict reading of JSON for the files of this project. For the sources of io only.

namespace equipoise {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// One JSON text, or the object of one line. Throws FormatError "the text is no JSON (at character N)" at `place`. A
/// key that comes twice is an error too.
Json parse_json(std::string_view text, const std::string& place);

/// Lower and upper end of what an integer may be.
struct Bounds {
  int64_t least = 0;
  int64_t most = int64_t{1} << 62;
};

/// The members of one JSON object, each read once by its key. A missing key, a wrong type, a number out of bounds, and
/// in finish() a key that nobody read are FormatErrors that name the key in full ("inputs.mesh.dp") and the place.
class Fields {
 public:
  Fields(const Json& object, std::string name, std::string place);

  bool has(std::string_view key) const;
  int64_t integer(std::string_view key, Bounds bounds = {});
  bool flag(std::string_view key);
  std::string text(std::string_view key);
  Fields object(std::string_view key);
  const Json& list(std::string_view key);
  const Json& any(std::string_view key);
  std::vector<int64_t> integers(std::string_view key, Bounds bounds = {});
  Curve curve(std::string_view key);
  void finish() const;

  const std::string& place() const { return place_; }
  std::string full_name(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, const std::string& what, const std::string& remedy) const;

 private:
  const Json& object_;
  std::string name_;  ///< of the object itself; empty for the outermost
  std::string place_;
  std::set<std::string, std::less<>> read_;
};

/// A list of exactly as many integers as `out` has, each of at most 62 bits. `name` and `place` are for messages.
void read_integer_row(const Json& row, std::span<int64_t> out, std::string_view name, const std::string& place);

template <size_t N>
std::array<int64_t, N> integer_row(const Json& row, std::string_view name, const std::string& place) {
  std::array<int64_t, N> values{};
  read_integer_row(row, values, name, place);
  return values;
}

/// The value of an integer of any JSON kind. Throws FormatError for anything else, also for one that does not fit in 64
/// bits.
int64_t as_integer(const Json& value, std::string_view name, const std::string& place);

OrderedJson curve_json(const Curve& curve);

}  // namespace equipoise
