#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace equipoise {

/// The caller gave something impossible. Its text is "WHAT, WHERE: REMEDY" (a ValueError in Python, exit code 2 on the
/// command line).
class InputError : public std::invalid_argument {
 public:
  InputError(const std::string& what, const std::string& where, const std::string& remedy)
      : std::invalid_argument(what + ", " + where + ": " + remedy) {}
};

/// A file is broken. `where` holds the path and the byte or line.
class FormatError : public InputError {
 public:
  using InputError::InputError;
};

/// One broken rule, as found by a checker or reported by a solver for an instance that has no solution. Not an
/// exception: a result.
struct Violation {
  std::string rule;   ///< short stable name of the rule, e.g. "token owned once"
  std::string where;  ///< the place: step, sequence, segment, member ...
  std::string what;   ///< the value found and the value expected
  bool operator==(const Violation&) const = default;
};
using Violations = std::vector<Violation>;

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace equipoise

/// Our own bug, never a caller's mistake. Always on: it guards what would otherwise train wrong in silence.
#define EQ_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::equipoise::assertion_failed(#condition, __FILE__, __LINE__))

/// A check too dear for release builds.
#ifdef EQUIPOISE_DEBUG_CHECKS
#define EQ_DEBUG_ASSERT(condition) EQ_ASSERT(condition)
#else
#define EQ_DEBUG_ASSERT(condition) static_cast<void>(0)
#endif
