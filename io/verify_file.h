#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "equipoise/base/errors.h"

namespace equipoise {

/// What the checkers say about a plan file.
struct FileVerdict {
  int64_t steps = 0;
  int64_t documents = 0;  ///< that arrived
  int64_t tokens = 0;     ///< trained
  int64_t sequences = 0;
  int64_t buckets = 0;    ///< whose shards, tiles and messages were checked
  int64_t programs = 0;   ///< rank programs built and checked, alone and as sets
  int64_t replanned = 0;  ///< steps of brief lines: their shards and tiles were planned again from the inputs
  int64_t held = 0;       ///< documents or pieces that wait after the last step
  Violations violations;  ///< `where` begins with the line
  std::vector<std::string> unchecked;
};

/// Runs every independent checker on every line of a plan file, and checks across lines that inputs stay, steps and
/// states follow each other and every document arrives and is trained once. Messages and rank programs are derived from
/// shards and tiles and checked too. A stage is checked only where the stages before it are right; what was not checked
/// is said. The summary is counted again. "-" reads standard input. `progress(steps done)` is called after each line.
/// Stops at 1,000 violations. Errors: as read_plan_file.
FileVerdict verify_plan_file(const std::string& path, const std::function<void(int64_t)>& progress);

}  // namespace equipoise
