#include "io/lengths.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

using namespace std::string_literals;
using Lengths = std::vector<int64_t>;

/// The text of the FormatError that these bytes lead to, or "" if they are read.
std::string refusal(const std::string& bytes) {
  try {
    parse_lengths(bytes, "lengths.txt");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

template <class T>
void append(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

std::string megatron_index(const std::vector<int32_t>& sequences, const Lengths& borders) {
  std::string bytes = "MMIDIDX\0\0"s;
  append<uint64_t>(bytes, 1);
  append<uint8_t>(bytes, 8);
  append<uint64_t>(bytes, sequences.size());
  append<uint64_t>(bytes, borders.size());
  for (const int32_t length : sequences) append(bytes, length);
  for (size_t i = 0; i < sequences.size(); ++i) append<int64_t>(bytes, 2 * static_cast<int64_t>(i));
  for (const int64_t border : borders) append(bytes, border);
  return bytes;
}

std::string numpy_array(const std::string& type, const std::string& shape, const std::string& data) {
  const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string bytes = "\x93NUMPY\x01\x00"s;
  append<uint16_t>(bytes, static_cast<uint16_t>(header.size()));
  return bytes + header + data;
}

TEST(Lengths, ATextFileHasOneLengthALine) {
  EXPECT_EQ(parse_lengths("7\n0\n1099511627776\n", "x"), (Lengths{7, 0, int64_t{1} << 40}));
  EXPECT_EQ(parse_lengths("\xEF\xBB\xBF 7 \r\n\t8\r\n", "x"), (Lengths{7, 8}));
  EXPECT_EQ(parse_lengths("7\n8", "x"), (Lengths{7, 8}));
}

TEST(Lengths, AnEmptyFileHasNoDocumentsAndBlankLinesAtTheEndAreNone) {
  EXPECT_EQ(parse_lengths("", "x"), Lengths{});
  EXPECT_EQ(parse_lengths("\n \n", "x"), Lengths{});
  EXPECT_EQ(parse_lengths("3\n\n\n", "x"), Lengths{3});
}

TEST(Lengths, AWrongLineIsNamedByDocumentAndLineWithTheRemedy) {
  EXPECT_EQ(refusal("1\n2\n3\n-5\n"),
            "length -5 is negative, document 3 (line 4) of lengths.txt: give lengths of at least 0 tokens");
  EXPECT_EQ(refusal("1099511627777"),
            "length 1099511627777 is above 2^40, document 0 (line 1) of lengths.txt: give lengths in tokens of at most "
            "2^40");
  EXPECT_EQ(refusal("1\n\n2\n"), "the line is blank, document 1 (line 2) of lengths.txt: give one integer a line");
  EXPECT_EQ(refusal("seven"), "'seven' is not an integer, document 0 (line 1) of lengths.txt: give one integer a line");
}

TEST(Lengths, WhatIsAlmostAnIntegerIsNone) {
  for (const char* text : {"5.0", "1e3", "+5", "0x10", "5 6", "5,", "--5", "-", "nan", "5\xC2\xA0", "1'000"})
    EXPECT_NE(refusal(text).find("is not an integer"), std::string::npos) << text;
}

TEST(Lengths, NumbersBeyondSixtyFourBitsAreCalledAbsurdOrNegative) {
  EXPECT_NE(refusal("99999999999999999999").find("is above 2^40"), std::string::npos);
  EXPECT_NE(refusal("-99999999999999999999").find("is negative"), std::string::npos);
}

TEST(Lengths, AZeroByteAndAHugeLineAreRefusedInAShortMessage) {
  EXPECT_EQ(refusal("7\n8\0\n"s),
            "a zero byte in a text file, document 1 (line 2) of lengths.txt: give one integer a line");
  const std::string message = refusal(std::string(10'000'000, 'x'));
  EXPECT_LT(message.size(), 200U);
  EXPECT_NE(message.find("xxx...' is not an integer"), std::string::npos);
}

TEST(Lengths, JsonLinesAreReadByTheFieldThatTheFirstLineHas) {
  EXPECT_EQ(parse_lengths("{\"text\": \"a\", \"length\": 7}\n\n{\"length\": 8, \"tokens\": [1]}", "x"),
            (Lengths{7, 8}));
  EXPECT_EQ(parse_lengths("{\"input_ids\": [5, 6, 7]}\n{\"input_ids\": []}\n", "x"), (Lengths{3, 0}));
  EXPECT_EQ(
      refusal("{\"length\": 7}\n{\"len\": 7}\n"),
      "no field 'length', which the first line has, document 1 (line 2) of lengths.txt: give each line an integer "
      "length, num_tokens, token_count or len, or a list input_ids or tokens");
  EXPECT_NE(refusal("{\"length\": 7}\n{\"length\": 7.5}\n").find("field 'length' is 7.5, document 1"),
            std::string::npos);
  EXPECT_NE(refusal("{\"length\": 7}\n{\"length\": -7}\n").find("length -7 is negative, document 1"),
            std::string::npos);
  EXPECT_NE(refusal("{\"length\": 7}\n{\"length\":").find("no valid JSON at character"), std::string::npos);
  EXPECT_NE(refusal("{\"text\": \"a\"}").find("no field holds a length"), std::string::npos);
}

TEST(Lengths, ADocumentOfAMegatronIndexHasTheSumOfItsSequences) {
  EXPECT_EQ(parse_lengths(megatron_index({5, 6, 7}, {0, 1, 3, 3}), "x"), (Lengths{5, 13, 0}));
  EXPECT_EQ(parse_lengths(megatron_index({}, {0}), "x"), Lengths{});
  EXPECT_EQ(parse_lengths(megatron_index({5}, {0, 1}) + "\x01", "x"), Lengths{5}) << "multimodal";
}

TEST(Lengths, NoMegatronIndexThatIsCutOffIsRead) {
  const std::string whole = megatron_index({5, 6, 7}, {0, 1, 3});
  for (size_t size = 9; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
}

TEST(Lengths, AMegatronIndexThatContradictsItselfIsRefused) {
  EXPECT_NE(refusal(megatron_index({5, 6}, {0, 1, 1})).find("do not span all sequences"), std::string::npos);
  EXPECT_NE(refusal(megatron_index({5, 6}, {0, 2, 1, 2})).find("document borders fall"), std::string::npos);
  EXPECT_NE(refusal(megatron_index({5, -6}, {0, 1, 2})).find("length -6 is negative, document 1 of lengths.txt"),
            std::string::npos);
  std::string newer = megatron_index({5}, {0, 1});
  newer[9] = 2;
  EXPECT_NE(refusal(newer).find("version 2 of the index is not known, byte 9"), std::string::npos);
  std::string absurd = megatron_index({5}, {0, 1});
  std::memset(absurd.data() + 18, 0xFF, 16);
  EXPECT_NE(refusal(absurd).find("does not have the size of"), std::string::npos);
}

TEST(Lengths, ANumpyArrayIsReadInEveryWidthAndByteOrder) {
  EXPECT_EQ(parse_lengths(numpy_array("<i8", "(2,)", "\7\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0"s), "x"), (Lengths{7, 256}));
  EXPECT_EQ(parse_lengths(numpy_array(">i4", "(2,)", "\0\0\0\7\0\0\1\0"s), "x"), (Lengths{7, 256}));
  EXPECT_EQ(parse_lengths(numpy_array("<u2", "(2,)", "\7\0\xFF\xFF"s), "x"), (Lengths{7, 65535}));
  EXPECT_EQ(parse_lengths(numpy_array("|u1", "(1,)", "\xFF"), "x"), Lengths{255});
  EXPECT_EQ(parse_lengths(numpy_array("<i8", "(0,)", ""), "x"), Lengths{});
}

TEST(Lengths, ANumpyArrayThatIsNoListOfLengthsIsRefused) {
  EXPECT_NE(refusal(numpy_array("<f8", "(1,)", "\0\0\0\0\0\0\0\0"s)).find("'<f8' are no integers"), std::string::npos);
  EXPECT_NE(refusal(numpy_array("|O", "(1,)", "x")).find("are no integers"), std::string::npos);
  EXPECT_NE(refusal(numpy_array("<i8", "(1, 1)", "\0\0\0\0\0\0\0\0"s)).find("is not 1-D"), std::string::npos);
  EXPECT_NE(refusal(numpy_array("<i8", "()", "\0\0\0\0\0\0\0\0"s)).find("is not 1-D"), std::string::npos);
  EXPECT_NE(refusal(numpy_array("|i1", "(1,)", "\xFF")).find("length -1 is negative, document 0"), std::string::npos);
  EXPECT_NE(refusal(numpy_array("<u8", "(1,)", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF")).find("is above 2^40"),
            std::string::npos);
}

TEST(Lengths, NoNumpyArrayThatIsCutOffIsRead) {
  const std::string whole = numpy_array("<i4", "(3,)", "\7\0\0\0\7\0\0\0\7\0\0\0"s);
  for (size_t size = 6; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
}

TEST(Lengths, KnownFormatsThatAreNotReadAreCalledByTheirName) {
  EXPECT_NE(refusal("\x1F\x8B\x08").find("compressed with gzip, lengths.txt: decompress it"), std::string::npos);
  EXPECT_NE(refusal("PAR1....").find("Parquet"), std::string::npos);
  EXPECT_NE(refusal("PK\x03\x04").find(".npz"), std::string::npos);
  EXPECT_NE(refusal("TNTIDX\0\0"s).find("fairseq"), std::string::npos);
}

}  // namespace
}  // namespace equipoise
