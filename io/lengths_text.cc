// One integer a line. Strict: a line that is not exactly an integer is an error, because a skipped line would shift the
// ids of all documents after it.
#include <charconv>

#include "equipoise/base/errors.h"
#include "io/length_formats.h"

namespace equipoise {
namespace {

constexpr std::string_view blank = " \t";
const std::string remedy = "give one integer a line";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

int64_t parse_length(std::string_view text, const DocumentPlace& place) {
  int64_t length = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, length);
  if (error == std::errc{} && stop == end) return checked_length(length, place);
  if (text.empty()) throw FormatError("the line is blank", place.text(), remedy);
  if (text.find('\0') != std::string_view::npos) throw FormatError("a zero byte in a text file", place.text(), remedy);
  if (error == std::errc::result_out_of_range && stop == end && text[0] != '-') refuse_absurd_length(text, place);
  if (error == std::errc::result_out_of_range && stop == end)
    throw FormatError("length " + shown(text) + " is negative", place.text(), "give lengths of at least 0 tokens");
  throw FormatError("'" + shown(text) + "' is not an integer", place.text(), remedy);
}

}  // namespace

std::vector<int64_t> lengths_from_text(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  const size_t last = bytes.find_last_not_of(" \t\r\n");
  bytes = bytes.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::vector<int64_t> lengths;
  while (!bytes.empty()) {
    const auto document = static_cast<int64_t>(lengths.size());
    lengths.push_back(parse_length(trim(take_line(bytes)), {document, document + 1, name}));
  }
  return lengths;
}

}  // namespace equipoise
