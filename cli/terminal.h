#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace equipoise {

/// Whether standard output is a terminal that shows colour. NO_COLOR and TERM=dumb say no.
bool shows_colour();

/// Writes to standard output and flushes. A reader that has left (`| head`) is no error; a full disk is an InputError.
void print(const std::string& text);

/// "equipoise: error: ..." on standard error.
void print_error(const std::string& message);

/// Says on standard error how far a long piece of work is: nothing in the first second, nothing where standard error is
/// no terminal. The line is wiped when the work is done.
class Progress {
 public:
  explicit Progress(std::string what);  ///< e.g. "planning"
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `total` 0: not known.
  void show(int64_t done, int64_t total, const std::string& unit);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace equipoise
