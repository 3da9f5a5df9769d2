// Every mistake in a file becomes one sentence with the key, the place and what to give instead. Objects are read field
// by field, so that a misspelt key is found as an unknown one and not taken for a missing option.
#include "io/json_fields.h"

#include <limits>

namespace equipoise {
namespace {

/// What a list may hold, so that the sum of any two entries fits.
constexpr int64_t largest = int64_t{1} << 62;

/// "a string", "an object" ...: what a wrong value is.
std::string kind_of(const Json& value) {
  if (value.is_number_float()) return value.dump() + ", no integer";
  if (value.is_number()) return value.dump();
  if (value.is_object() || value.is_array()) return value.is_object() ? "an object" : "a list";
  if (value.is_string()) return "a string";
  return value.dump();
}

std::string key_name(std::string_view name) { return "key \"" + std::string(name) + "\""; }

}  // namespace

Json parse_json(std::string_view text, const std::string& place) {
  std::vector<std::set<std::string>> open;  // keys of the objects that are not closed yet
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), watch);
    if (!twice.empty()) throw FormatError(key_name(twice) + " comes twice", place, "give each key once");
    return json;
  } catch (const Json::parse_error& error) {
    throw FormatError("no valid JSON at character " + std::to_string(error.byte), place,
                      "write the file again; it may have been cut off or edited");
  } catch (const Json::out_of_range&) {
    throw FormatError("a number is too large for any type", place, "give integers of at most 64 bits");
  }
}

int64_t as_integer(const Json& value, std::string_view name, const std::string& place) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits) throw FormatError(key_name(name) + " is " + kind_of(value), place, "give an integer of at most 64 bits");
  return value.get<int64_t>();
}

void read_integer_row(const Json& row, std::span<int64_t> out, std::string_view name, const std::string& place) {
  if (!row.is_array() || row.size() != out.size())
    throw FormatError("an entry of " + key_name(name) + " is " +
                          (row.is_array() ? "of " + std::to_string(row.size()) + " numbers" : kind_of(row)),
                      place, "give lists of " + std::to_string(out.size()) + " integers");
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = as_integer(row[i], name, place);
    if (out[i] > largest || out[i] < -largest)
      throw FormatError("an entry of " + key_name(name) + " holds " + std::to_string(out[i]), place,
                        "give integers of at most 62 bits");
  }
}

Fields::Fields(const Json& object, std::string name, std::string place)
    : object_(object), name_(std::move(name)), place_(std::move(place)) {
  if (!object_.is_object())
    throw FormatError((name_.empty() ? "this" : key_name(name_)) + " is " + kind_of(object_), place_,
                      "give a JSON object");
}

std::string Fields::full_name(std::string_view key) const {
  return (name_.empty() ? "" : name_ + ".") + std::string(key);
}

void Fields::fail(std::string_view key, const std::string& what, const std::string& remedy) const {
  throw FormatError(key_name(full_name(key)) + " is " + what, place_, remedy);
}

bool Fields::has(std::string_view key) const { return object_.contains(key); }

const Json& Fields::any(std::string_view key) {
  const auto found = object_.find(key);
  if (found == object_.end()) fail(key, "missing", "give all keys of this format");
  read_.emplace(key);
  return *found;
}

int64_t Fields::integer(std::string_view key, Bounds bounds) {
  const int64_t value = as_integer(any(key), full_name(key), place_);
  if (value < bounds.least || value > bounds.most)
    fail(key, std::to_string(value),
         "give an integer from " + std::to_string(bounds.least) + " to " + std::to_string(bounds.most));
  return value;
}

bool Fields::flag(std::string_view key) {
  const Json& value = any(key);
  if (!value.is_boolean()) fail(key, kind_of(value), "give true or false");
  return value.get<bool>();
}

std::string Fields::text(std::string_view key) {
  const Json& value = any(key);
  if (!value.is_string()) fail(key, kind_of(value), "give a string");
  return value.get<std::string>();
}

Fields Fields::object(std::string_view key) { return Fields(any(key), full_name(key), place_); }

const Json& Fields::list(std::string_view key) {
  const Json& value = any(key);
  if (!value.is_array()) fail(key, kind_of(value), "give a list");
  return value;
}

std::vector<int64_t> Fields::integers(std::string_view key, Bounds bounds) {
  std::vector<int64_t> values;
  for (const Json& entry : list(key)) {
    values.push_back(as_integer(entry, full_name(key), place_));
    if (values.back() < bounds.least || values.back() > bounds.most)
      fail(key, "a list with " + std::to_string(values.back()),
           "give smaller integers, at least " + std::to_string(bounds.least));
  }
  return values;
}

Curve Fields::curve(std::string_view key) {
  Curve curve;
  for (const Json& entry : list(key)) {
    const auto [x, y] = integer_row<2>(entry, full_name(key), place_);
    if (!curve.empty() && x <= curve.back().x) fail(key, "a curve whose x do not rise", "sort its points by x");
    curve.push_back({x, y});
  }
  if (curve.empty()) fail(key, "a curve without points", "give at least one [x, y]");
  return curve;
}

void Fields::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!read_.contains(key)) fail(key, "not known", "remove it, or use the version of equipoise that wrote it");
}

OrderedJson curve_json(const Curve& curve) {
  OrderedJson points = OrderedJson::array();
  for (const CurvePoint& point : curve) points.push_back({point.x, point.y});
  return points;
}

}  // namespace equipoise
