#include "equipoise/base/errors.h"

#include <cstdio>
#include <cstdlib>

namespace equipoise {

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr,
               "equipoise: internal error: %s does not hold, %s:%d: please report this with the command you ran\n",
               condition, file, line);
  std::abort();
}

}  // namespace equipoise
