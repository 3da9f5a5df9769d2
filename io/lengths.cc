// Tells the formats apart by their first bytes, as every one but plain text has a mark there; what has no mark is text.
#include "io/lengths.h"

#include "equipoise/base/errors.h"
#include "io/files.h"
#include "io/length_formats.h"

namespace equipoise {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view megatron_mark = "MMIDIDX\0\0"sv;
constexpr std::string_view numpy_mark = "\x93NUMPY"sv;

/// Formats that we know and do not read, and what to do about it.
struct Refusal {
  std::string_view mark;
  std::string_view what;
  std::string_view remedy;
};
constexpr Refusal refusals[] = {
    {"TNTIDX\0\0"sv, "this is a fairseq index", "convert the data set to the Megatron format MMIDIDX"},
    {"\x1F\x8B"sv, "this file is compressed with gzip", "decompress it first: gzip -dc FILE | equipoise ... -"},
    {"\x28\xB5\x2F\xFD"sv, "this file is compressed with zstd", "decompress it first: zstd -dc FILE | equipoise ... -"},
    {"PK\x03\x04"sv, "this is a zip or .npz archive", "save one array as .npy"},
    {"PAR1"sv, "this is a Parquet file", "write the lengths out, one integer a line"},
    {"ARROW1"sv, "this is an Arrow file", "write the lengths out, one integer a line"},
};

bool has_mark(std::string_view bytes) {
  if (bytes.starts_with(megatron_mark) || bytes.starts_with(numpy_mark)) return true;
  for (const Refusal& refusal : refusals)
    if (bytes.starts_with(refusal.mark)) return true;
  return false;
}

bool is_json_lines(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != std::string_view::npos && bytes[first] == '{';
}

}  // namespace

std::string DocumentPlace::text() const {
  const std::string at_line = line > 0 ? " (line " + std::to_string(line) + ")" : "";
  return "document " + std::to_string(document) + at_line + " of " + name;
}

void refuse_absurd_length(std::string_view length, const DocumentPlace& place) {
  throw FormatError("length " + shown(length) + " is above 2^40", place.text(),
                    "give lengths in tokens of at most 2^40");
}

int64_t checked_length(int64_t length_tokens, const DocumentPlace& place) {
  if (length_tokens < 0)
    throw FormatError("length " + std::to_string(length_tokens) + " is negative", place.text(),
                      "give lengths of at least 0 tokens");
  if (length_tokens > longest_document_tokens) refuse_absurd_length(std::to_string(length_tokens), place);
  return length_tokens;
}

std::string shown(std::string_view text) {
  constexpr size_t most = 40;
  std::string result;
  for (const char c : text.substr(0, most)) result += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > most) result += "...";
  return result;
}

std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<int64_t> parse_lengths(std::string_view bytes, const std::string& name) {
  for (const Refusal& refusal : refusals)
    if (bytes.starts_with(refusal.mark))
      throw FormatError(std::string(refusal.what), name, std::string(refusal.remedy));
  if (bytes.starts_with(megatron_mark)) return lengths_from_megatron_index(bytes, name);
  if (bytes.starts_with(numpy_mark)) return lengths_from_numpy(bytes, name);
  if (is_json_lines(bytes)) return lengths_from_json_lines(bytes, name);
  return lengths_from_text(bytes, name);
}

std::vector<int64_t> read_lengths(const std::string& path) {
  // Text with a zero byte, and any known but unread format, is refused whatever follows.
  const auto hopeless = [](std::string_view bytes) {
    constexpr size_t start = 1 << 16;
    return bytes.size() <= start && !has_mark(bytes) && bytes.find('\0') != std::string_view::npos;
  };
  return parse_lengths(read_bytes(path, hopeless), display_name(path));
}

}  // namespace equipoise
