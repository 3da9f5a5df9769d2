// All that the command line knows about terminals and pipes.
#include "cli/terminal.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "equipoise/base/errors.h"

namespace equipoise {

bool shows_colour() {
  const char* const term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && !std::getenv("NO_COLOR") && term && std::strcmp(term, "dumb") != 0;
}

void print(const std::string& text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written || errno == EPIPE) return;
  throw InputError("the output cannot be written (" + std::string(std::strerror(errno)) + ")", "standard output",
                   "make room, or write elsewhere");
}

void print_error(const std::string& message) { std::fprintf(stderr, "equipoise: error: %s\n", message.c_str()); }

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void Progress::show(int64_t done, int64_t total, const std::string& unit) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now < next_) return;
  const std::string end = total > 0 ? " of " + std::to_string(total) : "";
  std::fprintf(stderr, "\r\033[K%s: %lld%s %s", what_.c_str(), static_cast<long long>(done), end.c_str(), unit.c_str());
  std::fflush(stderr);
  shown_ = true;
  next_ = now + std::chrono::milliseconds(100);
}

}  // namespace equipoise
