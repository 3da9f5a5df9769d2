// `equipoise calibrate`: measuring needs torch, which this program does without, so it only says who measures.
#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"

namespace equipoise {
namespace {

constexpr const char* advice = "python -m equipoise.calibrate --out this-machine.json";

int run_calibrate(bool json) {
  const std::string command = advice;
  if (json)
    print("{\n \"command\": \"" + command + "\"\n}\n");
  else
    print("This measures kernels and links of this machine, in Python with torch:\n\n  " + command +
          "\n\nThen plan with --hardware ./this-machine.json\n");
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& program, Run& run) {
  CLI::App* const command = program.add_subcommand("calibrate", "Say how to measure this machine");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object");
  command->callback([json, &run] { run = [json] { return run_calibrate(*json); }; });
}

}  // namespace equipoise
