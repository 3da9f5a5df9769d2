#include "equipoise/model/effort.h"

#include <string>

#include "equipoise/base/errors.h"

namespace equipoise {

std::string_view name(Effort effort) {
  switch (effort) {
    case Effort::fast: return "fast";
    case Effort::normal: return "normal";
    case Effort::thorough: return "thorough";
  }
  return "unknown";
}

Effort parse_effort(std::string_view text) {
  for (const Effort effort : efforts)
    if (name(effort) == text) return effort;
  throw InputError("effort '" + std::string(text) + "' is not known", "field effort", "use fast, normal or thorough");
}

}  // namespace equipoise
