#include "equipoise/model/gradient_sum.h"

#include <string>

#include "equipoise/base/errors.h"

namespace equipoise {

std::string_view name(GradientSum sum) {
  switch (sum) {
    case GradientSum::fast: return "fast";
    case GradientSum::invariant: return "invariant";
  }
  return "unknown";
}

GradientSum parse_gradient_sum(std::string_view text) {
  for (const GradientSum sum : gradient_sums)
    if (name(sum) == text) return sum;
  throw InputError("gradient_sum '" + std::string(text) + "' is not known", "field gradient_sum",
                   "use fast or invariant");
}

}  // namespace equipoise
