// JSON lines. The first line decides which field holds the lengths; a later line without it is an error, not a document
// of length 0.
#include <array>
#include <limits>

#include "equipoise/base/errors.h"
#include "io/json_fields.h"
#include "io/length_formats.h"

namespace equipoise {
namespace {

constexpr std::array<std::string_view, 4> counts = {"length", "num_tokens", "token_count", "len"};
constexpr std::array<std::string_view, 2> lists = {"input_ids", "tokens"};

const std::string remedy =
    "give each line an integer length, num_tokens, token_count or len, or a list input_ids or tokens";

/// The first field of a document that can hold its length.
std::string find_field(const Json& document, const DocumentPlace& place) {
  for (const std::string_view field : counts)
    if (document.contains(field) && document[field].is_number_integer()) return std::string(field);
  for (const std::string_view field : lists)
    if (document.contains(field) && document[field].is_array()) return std::string(field);
  throw FormatError("no field holds a length", place.text(), remedy);
}

int64_t length_in(const Json& document, const std::string& field, const DocumentPlace& place) {
  if (!document.is_object()) throw FormatError("the line is no JSON object", place.text(), remedy);
  const auto found = document.find(field);
  if (found == document.end())
    throw FormatError("no field '" + field + "', which the first line has", place.text(), remedy);
  if (found->is_array()) return static_cast<int64_t>(found->size());
  if (!found->is_number_integer())
    throw FormatError("field '" + field + "' is " + shown(found->dump()), place.text(), "give an integer");
  if (found->is_number_unsigned() && found->get<uint64_t>() > std::numeric_limits<int64_t>::max())
    refuse_absurd_length(found->dump(), place);
  return checked_length(found->get<int64_t>(), place);
}

}  // namespace

std::vector<int64_t> lengths_from_json_lines(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  std::vector<int64_t> lengths;
  std::string field;
  for (int64_t line = 1; !bytes.empty(); ++line) {
    const std::string_view text = take_line(bytes);
    if (text.find_first_not_of(" \t") == std::string_view::npos) continue;
    const DocumentPlace place{static_cast<int64_t>(lengths.size()), line, name};
    const Json document = parse_json(text, place.text());
    if (field.empty()) field = find_field(document, place);
    lengths.push_back(length_in(document, field, place));
  }
  return lengths;
}

}  // namespace equipoise
