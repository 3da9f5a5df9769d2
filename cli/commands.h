#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace equipoise {

/// What the chosen command does: returns the exit code, 0 fine or 1 "the answer is no".
using Run = std::function<int()>;

// Each adds one subcommand to the program; parsing it sets `run`. One file each.
void add_inspect(CLI::App& program, Run& run);
void add_plan(CLI::App& program, Run& run);
void add_compare(CLI::App& program, Run& run);
void add_advise(CLI::App& program, Run& run);
void add_verify(CLI::App& program, Run& run);
void add_calibrate(CLI::App& program, Run& run);

}  // namespace equipoise
