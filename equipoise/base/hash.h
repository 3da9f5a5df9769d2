#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace equipoise {

inline constexpr uint64_t hash_start = 0xCBF29CE484222325ULL;

/// FNV-1a over bytes: for names and texts. Feed the last result in to go on.
constexpr uint64_t hash_bytes(std::string_view bytes, uint64_t hash = hash_start) {
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

/// FNV-1a over the little-endian bytes of 64-bit words: for numbers, whatever the machine's byte order.
constexpr uint64_t hash_words(std::span<const int64_t> words, uint64_t hash = hash_start) {
  for (const int64_t word : words)
    for (int shift = 0; shift < 64; shift += 8)
      hash = (hash ^ ((static_cast<uint64_t>(word) >> shift) & 0xFF)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace equipoise
