#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/study/planned_step.h"

// The plan file: JSON lines, one optimizer step a line. docs/plan-file.md has all keys of version 1.
// Messages are never written: they follow from shards and tiles.

namespace equipoise {

/// One line of a plan file.
struct PlanLine {
  PlanInputs inputs;
  PlannedStep planned;  ///< as read: exchanges are empty; no buckets if the placement is no permutation of slots
  bool brief = false;   ///< shardings have their rule but no pieces, and there are no tiles
};

/// The line, with its line break. Equal plans give equal bytes.
std::string write_plan_line(const PlanLine& line);

/// Reads one line; `place` stands for it in messages: "line 3 of plan.jsonl".
/// Checks the form: all keys and no other, types, ids that point into the line's own lists, inputs that validate.
/// Whether the plan is right is for the checkers. Errors: FormatError with the place and the key; a newer version says
/// so.
PlanLine read_plan_line(std::string_view text, const std::string& place);

/// Calls `use(line, number)` for each line of a file, in order, holding one at a time; numbers count from 1. "-" reads
/// standard input. Errors: InputError for an unreadable file; as read_plan_line.
void read_plan_file(const std::string& path, const std::function<void(PlanLine, int64_t)>& use);

}  // namespace equipoise
