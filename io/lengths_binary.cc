// Binary formats. Numbers are read with memcpy: the arrays of a Megatron index begin at byte 34 and are aligned to
// nothing.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "equipoise/base/errors.h"
#include "io/length_formats.h"

namespace equipoise {
namespace {

/// The integer of type T at a byte; the caller has checked that it lies in the file.
template <class T>
T integer_at(std::string_view bytes, size_t offset, std::endian order) {
  unsigned char raw[sizeof(T)];
  std::memcpy(raw, bytes.data() + offset, sizeof(T));
  if (order != std::endian::native) std::reverse(raw, raw + sizeof(T));
  T value;
  std::memcpy(&value, raw, sizeof(T));
  return value;
}

template <class T>
T little(std::string_view bytes, size_t offset) {
  return integer_at<T>(bytes, offset, std::endian::little);
}

std::string at_byte(size_t offset, const std::string& name) { return "byte " + std::to_string(offset) + " of " + name; }

const std::string rebuild = "write the index again; it may have been cut off";

/// Header of a Megatron index: sequences, and entries of the array of document borders (documents + 1).
struct IndexHeader {
  static constexpr size_t bytes = 34;
  uint64_t sequences = 0;
  uint64_t borders = 0;
};

IndexHeader read_index_header(std::string_view bytes, const std::string& name) {
  if (bytes.size() < IndexHeader::bytes)
    throw FormatError("the header is cut off", at_byte(bytes.size(), name), rebuild);
  const auto version = little<uint64_t>(bytes, 9);
  if (version != 1)
    throw FormatError("version " + std::to_string(version) + " of the index is not known", at_byte(9, name),
                      "give an index of version 1");
  const IndexHeader header{little<uint64_t>(bytes, 18), little<uint64_t>(bytes, 26)};
  const uint64_t most = bytes.size() / 4;  // no count can be larger, and sums stay far from overflow
  const uint64_t body = bytes.size() - IndexHeader::bytes;
  const bool possible = header.sequences <= most && header.borders <= most && header.borders >= 1;
  const uint64_t expected = 12 * header.sequences + 8 * header.borders;
  // Multimodal data has one more byte for each sequence.
  if (!possible || (body != expected && body != expected + header.sequences))
    throw FormatError("the file does not have the size of " + std::to_string(header.sequences) + " sequences and " +
                          std::to_string(header.borders) + " document borders",
                      at_byte(18, name), rebuild);
  return header;
}

}  // namespace

std::vector<int64_t> lengths_from_megatron_index(std::string_view bytes, const std::string& name) {
  const IndexHeader header = read_index_header(bytes, name);
  const size_t borders = IndexHeader::bytes + 12 * header.sequences;
  const auto border = [&](uint64_t i) { return little<int64_t>(bytes, borders + 8 * i); };
  if (border(0) != 0 || border(header.borders - 1) != static_cast<int64_t>(header.sequences))
    throw FormatError("document borders do not span all sequences", at_byte(borders, name), rebuild);
  std::vector<int64_t> lengths;
  lengths.reserve(header.borders - 1);
  for (uint64_t document = 0; document + 1 < header.borders; ++document) {
    if (border(document) > border(document + 1))
      throw FormatError("document borders fall", at_byte(borders + 8 * (document + 1), name), rebuild);
    const DocumentPlace place{static_cast<int64_t>(document), 0, name};
    int64_t length = 0;
    for (int64_t sequence = border(document); sequence < border(document + 1); ++sequence)
      length += checked_length(little<int32_t>(bytes, IndexHeader::bytes + 4 * static_cast<size_t>(sequence)), place);
    lengths.push_back(checked_length(length, place));
  }
  return lengths;
}

namespace {

/// What a NumPy header says: 'i' or 'u', bytes of an entry, byte order, entries, and where the data begin.
struct ArrayHeader {
  char kind = 'i';
  size_t width = 8;
  std::endian order = std::endian::little;
  size_t count = 0;
  size_t data = 0;
};

/// The text after `key` in the header's dictionary, from its first character that is neither blank nor ':'.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& name) {
  const size_t at = header.find(key);
  const size_t value = at == std::string_view::npos ? at : header.find_first_not_of(" :", at + key.size());
  if (value == std::string_view::npos)
    throw FormatError("the header has no " + std::string(key), at_byte(10, name),
                      "save the array again with numpy.save");
  return header.substr(value);
}

void read_entry_type(std::string_view text, ArrayHeader& header, const std::string& name) {
  // '<i8' in quotes: byte order, kind, width.
  const std::string_view type = text.substr(1, text.find(text[0], 1) - 1);
  const bool integer = type.size() == 3 && (type[1] == 'i' || type[1] == 'u') &&
                       std::string_view("1248").find(type[2]) != std::string_view::npos;
  if (!integer || std::string_view("<>|=").find(type[0]) == std::string_view::npos)
    throw FormatError("entries of type '" + shown(type) + "' are no integers", at_byte(10, name),
                      "save the lengths as int64");
  header.kind = type[1];
  header.width = static_cast<size_t>(type[2] - '0');
  header.order = type[0] == '>' ? std::endian::big : std::endian::little;
}

void read_shape(std::string_view text, ArrayHeader& header, const std::string& name) {
  const std::string_view shape = text.substr(0, text.find(')') + 1);
  const char* end = shape.data() + shape.size();
  const auto [after, error] = std::from_chars(shape.data() + std::min<size_t>(1, shape.size()), end, header.count);
  const std::string_view rest(after, static_cast<size_t>(end - after));
  if (error != std::errc{} || (rest != ",)" && rest != ")"))
    throw FormatError("an array of shape " + shown(shape) + " is not 1-D", at_byte(10, name),
                      "save one length for each document");
}

ArrayHeader read_array_header(std::string_view bytes, const std::string& name) {
  const bool wide = bytes.size() > 6 && bytes[6] != 1;  // version 1 has a header of 2 length bytes, later ones of 4
  const size_t start = wide ? 12 : 10;
  if (bytes.size() < start)
    throw FormatError("the header is cut off", at_byte(bytes.size(), name), "save the array again");
  const size_t length = wide ? little<uint32_t>(bytes, 8) : little<uint16_t>(bytes, 8);
  if (bytes.size() - start < length)
    throw FormatError("the header is cut off", at_byte(bytes.size(), name), "save the array again");
  const std::string_view text = bytes.substr(start, length);
  ArrayHeader header{.data = start + length};
  read_entry_type(value_of(text, "'descr'", name), header, name);
  read_shape(value_of(text, "'shape'", name), header, name);
  const size_t body = bytes.size() - header.data;
  if (header.count > body || body != header.count * header.width)
    throw FormatError(std::to_string(body) + " bytes of data where the header says " + std::to_string(header.count) +
                          " entries of " + std::to_string(header.width),
                      at_byte(header.data, name), "save the array again; it may have been cut off");
  return header;
}

int64_t read_entry(std::string_view bytes, size_t offset, const ArrayHeader& header, const DocumentPlace& place) {
  const bool is_signed = header.kind == 'i';
  switch (header.width) {
    case 1:
      return is_signed ? int64_t{integer_at<int8_t>(bytes, offset, header.order)}
                       : integer_at<uint8_t>(bytes, offset, header.order);
    case 2:
      return is_signed ? int64_t{integer_at<int16_t>(bytes, offset, header.order)}
                       : integer_at<uint16_t>(bytes, offset, header.order);
    case 4:
      return is_signed ? int64_t{integer_at<int32_t>(bytes, offset, header.order)}
                       : integer_at<uint32_t>(bytes, offset, header.order);
    default: break;
  }
  if (is_signed) return integer_at<int64_t>(bytes, offset, header.order);
  const auto value = integer_at<uint64_t>(bytes, offset, header.order);
  if (value >> 63) refuse_absurd_length(std::to_string(value), place);
  return static_cast<int64_t>(value);
}

}  // namespace

std::vector<int64_t> lengths_from_numpy(std::string_view bytes, const std::string& name) {
  const ArrayHeader header = read_array_header(bytes, name);
  std::vector<int64_t> lengths;
  lengths.reserve(header.count);
  for (size_t i = 0; i < header.count; ++i) {
    const DocumentPlace place{static_cast<int64_t>(i), 0, name};
    lengths.push_back(checked_length(read_entry(bytes, header.data + i * header.width, header, place), place));
  }
  return lengths;
}

}  // namespace equipoise
