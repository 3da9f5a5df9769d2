// Files as byte strings. The one place that turns errno into the message of the project, so that every reader and
// writer fails in the same words.
#include "io/files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

[[noreturn]] void fail(const std::string& verb, const std::string& path, int error, const std::string& remedy) {
  throw InputError(verb + " (" + std::strerror(error) + ")", display_name(path), remedy);
}

std::FILE* open_for_reading(const std::string& path) {
  if (path == "-") return stdin;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw InputError("this is a folder", path, "give a file, or - for standard input");
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) fail("the file cannot be opened", path, errno, "give a file that exists and may be read");
  return file;
}

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

/// Hands a file over in parts until it ends or more() wants no more.
void read_parts(const std::string& path, const std::function<bool(std::string_view)>& more) {
  const std::unique_ptr<std::FILE, CloseFile> file(open_for_reading(path));
  std::string part(1 << 16, '\0');
  size_t count = part.size();
  while (count == part.size()) {
    errno = 0;
    count = std::fread(part.data(), 1, part.size(), file.get());
    if (std::ferror(file.get()))
      fail("the file cannot be read", path, errno ? errno : EIO, "give a file that may be read");
    if (!more({part.data(), count})) return;
  }
}

}  // namespace

std::string display_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::string read_bytes(const std::string& path, const std::function<bool(std::string_view)>& enough) {
  std::string bytes;
  read_parts(path, [&](std::string_view part) {
    bytes.append(part);
    return !enough(bytes);
  });
  return bytes;
}

std::string read_bytes(const std::string& path) {
  return read_bytes(path, [](std::string_view) { return false; });
}

void read_lines(const std::string& path, const std::function<void(std::string_view, int64_t)>& use) {
  std::string rest;  // the begin of a line whose end is not read yet
  int64_t number = 0;
  read_parts(path, [&](std::string_view part) {
    const bool text = part.find('\0') == std::string_view::npos;
    while (!part.empty()) {
      const size_t end = part.find('\n');
      rest.append(part.substr(0, end));
      if (end == std::string_view::npos) break;
      use(rest, ++number);
      rest.clear();
      part.remove_prefix(end + 1);
    }
    return text;
  });
  if (!rest.empty()) use(rest, ++number);
}

OutputFile::OutputFile(const std::string& path) : path_(path), part_(path + ".part") {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw InputError("this is a folder", path, "give a file to write");
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) part_ = path_;
  file_ = std::fopen(part_.c_str(), "wb");
  if (!file_)
    fail("the file cannot be written", path_, errno, "give a path in a folder that exists and may be written");
}

OutputFile::~OutputFile() {
  if (!file_) return;
  std::fclose(file_);
  std::error_code ignored;
  if (part_ != path_) std::filesystem::remove(part_, ignored);
}

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    fail("the file cannot be written", path_, errno, "make room, or give another path");
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail("the file cannot be written", path_, errno, "make room, or give another path");
  std::fclose(file_);
  file_ = nullptr;
  std::error_code error;
  if (part_ != path_) std::filesystem::rename(part_, path_, error);
  if (error) fail("the file cannot be renamed from " + part_, path_, error.value(), "give another path");
}

}  // namespace equipoise
