// `equipoise verify`: a plan file against all independent checkers.
#include <memory>

#include "cli/commands.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "io/files.h"
#include "io/reports.h"
#include "io/verify_file.h"

namespace equipoise {
namespace {

constexpr size_t shown_violations = 20;

struct VerifyFlags {
  std::string file;
  bool json = false;
};

std::string violations_text(const Violations& violations, bool colour) {
  std::string text;
  for (size_t i = 0; i < violations.size() && i < shown_violations; ++i)
    text += tint(violations[i].rule, Tint::red, colour) + ", " + violations[i].where + ": " + violations[i].what + "\n";
  if (violations.size() > shown_violations)
    text += "... and " + grouped(static_cast<int64_t>(violations.size() - shown_violations)) +
            " more, all of them with --json\n";
  return text;
}

std::string verdict_text(const FileVerdict& verdict, const std::string& file, bool colour) {
  const bool valid = verdict.violations.empty();
  std::string text = violations_text(verdict.violations, colour);
  text +=
      render(Pairs{{"steps", grouped(verdict.steps)},
                   {"documents", grouped(verdict.documents) + " with " + grouped(verdict.tokens) + " trained tokens"},
                   {"sequences", grouped(verdict.sequences)},
                   {"buckets", grouped(verdict.buckets) + " with shards, tiles and messages"},
                   {"programs", grouped(verdict.programs) + " of ranks, alone and together"}});
  if (verdict.replanned > 0)
    text += "Shards and tiles of " + grouped(verdict.replanned) + " brief steps were planned again from the inputs.\n";
  for (const std::string& what : verdict.unchecked) text += "Not checked: " + what + ".\n";
  const size_t violations = verdict.violations.size();
  const std::string count = std::to_string(violations);
  return text +
         (valid ? tint("valid", Tint::green, colour) + ": "
                : tint("not valid", Tint::red, colour) + ": " + count +
                      (violations == 1 ? " violation in " : " violations in ")) +
         file + "\n";
}

int run_verify(const VerifyFlags& flags) {
  FileVerdict verdict;
  {
    Progress progress("checking");
    verdict = verify_plan_file(flags.file, [&](int64_t steps) { progress.show(steps, 0, "steps"); });
  }
  verdict.unchecked.push_back("whether lines are missing at the end: a file does not say how many documents there are");
  const std::string file = display_name(flags.file);
  print(flags.json ? report_json(verdict, file) : verdict_text(verdict, file, shows_colour()));
  return verdict.violations.empty() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& program, Run& run) {
  CLI::App* const command = program.add_subcommand("verify", "Check a plan file with independent checkers");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_option("FILE", flags->file, "Plan file; - is standard input")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &run] { run = [flags] { return run_verify(*flags); }; });
}

}  // namespace equipoise
