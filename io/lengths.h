#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace equipoise {

/// The longest document that is believed: 2^40 tokens. A larger number is a mistake in the file.
inline constexpr int64_t longest_document_tokens = int64_t{1} << 40;

/// Document lengths in tokens, by document id, from a file of any of these formats, told apart by their first bytes
/// (JSON lines by a first '{'):
///   text             one integer a line; blank lines at the end are ignored
///   JSON lines       an object a line with an integer `length`, `num_tokens`, `token_count` or `len`, or a list
///   `input_ids` or `tokens` whose entries
///                    are counted; the first of these that the first line has is read from all lines
///   Megatron .idx    MMIDIDX version 1; a document of several sequences has the sum of their lengths
///   NumPy .npy       a 1-D array of integers, either byte order
/// "-" reads standard input. An empty file has no documents.
/// Errors: InputError for what cannot be read; FormatError with document and line (or byte) for a negative, absurd or
/// non-numeric length, a broken file, or a format that is known but not read (compressed files, Parquet, Arrow, .npz).
std::vector<int64_t> read_lengths(const std::string& path);

/// The same from bytes; `name` stands for the file in messages.
std::vector<int64_t> parse_lengths(std::string_view bytes, const std::string& name);

}  // namespace equipoise
