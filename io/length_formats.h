#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// One parser for each format of lengths.h. All take the whole file and the name it has in messages.

namespace equipoise {

std::vector<int64_t> lengths_from_text(std::string_view bytes, const std::string& name);
std::vector<int64_t> lengths_from_json_lines(std::string_view bytes, const std::string& name);
std::vector<int64_t> lengths_from_megatron_index(std::string_view bytes, const std::string& name);
std::vector<int64_t> lengths_from_numpy(std::string_view bytes, const std::string& name);

/// Where a length stands. Put into words only for a message: a corpus has millions of documents.
struct DocumentPlace {
  int64_t document = 0;
  int64_t line = 0;  ///< from 1; 0 for a file without lines
  const std::string& name;

  std::string text() const;  ///< "document 3 (line 4) of lengths.txt"
};

/// The length, if it lies in 0 .. 2^40. Throws FormatError otherwise.
int64_t checked_length(int64_t length_tokens, const DocumentPlace& place);

/// Throws the FormatError of a length that is too large; `length` as the file has it.
[[noreturn]] void refuse_absurd_length(std::string_view length, const DocumentPlace& place);

/// A piece of a file as a message may show it: at most 40 characters, what is not printable as '?'.
std::string shown(std::string_view text);

/// The next line and what follows it. The line has neither '\n' nor the '\r' before it.
std::string_view take_line(std::string_view& rest);

}  // namespace equipoise
