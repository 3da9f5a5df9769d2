#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace equipoise {

/// A file's name as messages show it: "-" is "standard input".
std::string display_name(const std::string& path);

/// All bytes of a file, a pipe, or with "-" of standard input. `enough(bytes so far)` is asked after each part that was
/// read, and ends the reading early: an endless input that is wrong from its start must not be read to its end. Errors:
/// InputError for a missing or unreadable file or a folder, with the reason.
std::string read_bytes(const std::string& path, const std::function<bool(std::string_view)>& enough);
std::string read_bytes(const std::string& path);

/// Calls `use(line, number)` for each line, without its line break, holding one at a time; numbers count from 1. A zero
/// byte ends the reading after the line that has it: no text has one, and an endless device is left. Errors: as
/// read_bytes.
void read_lines(const std::string& path, const std::function<void(std::string_view, int64_t)>& use);

/// Writes a file so that a reader sees all of it or nothing: parts go to PATH.part, which takes the name PATH in
/// finish(). What exists and is no ordinary file (a pipe, a device) is written directly. Not finished: PATH.part is
/// removed and PATH is left as it was. Errors: InputError where the file cannot be written, with the reason.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  std::string path_;
  std::string part_;  ///< where bytes go; == path_ when written directly
  std::FILE* file_ = nullptr;
};

}  // namespace equipoise
