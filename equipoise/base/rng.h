#pragma once

#include <cstdint>

namespace equipoise {

/// splitmix64: the same numbers on every machine. One step per call.
struct SplitMix64 {
  uint64_t state = 0;
  constexpr uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
};

}  // namespace equipoise
