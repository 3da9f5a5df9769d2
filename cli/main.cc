// The program `equipoise`: chooses the command, and turns every failure into one line on standard error and an exit
// code.
#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "equipoise/base/errors.h"

namespace {

constexpr int wrong_use = 2;

/// One line: CLI11 puts some of its messages on several.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, text.find_last_not_of(" .") + 1);
}

/// The command that was being parsed, for the advice to read its help.
std::string command_of(const CLI::App& program) {
  const auto parsed = program.get_subcommands();
  return parsed.empty() ? "equipoise" : "equipoise " + parsed.front()->get_name();
}

int run_command(int argc, char** argv) {
  CLI::App program("Balances attention work over the ranks of long-context training.");
  equipoise::Run run;
  program.name("equipoise");
  program.set_version_flag("--version", EQUIPOISE_VERSION, "Print the version");
  program.require_subcommand(1);
  equipoise::add_inspect(program, run);
  equipoise::add_plan(program, run);
  equipoise::add_compare(program, run);
  equipoise::add_advise(program, run);
  equipoise::add_verify(program, run);
  equipoise::add_calibrate(program, run);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    equipoise::print(program.help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    equipoise::print(std::string(EQUIPOISE_VERSION) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    const bool no_command = program.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
    const std::string what = no_command ? "'" + std::string(argv[1]) + "' is no command" : one_line(error.what());
    throw equipoise::InputError(what, "command line", "run " + command_of(program) + " --help");
  }
  return run();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves early is seen as a failed write
  try {
    return run_command(argc, argv);
  } catch (const equipoise::InputError& error) {
    equipoise::print_error(error.what());
  } catch (const std::bad_alloc&) {
    equipoise::print_error("memory ran out, this machine: plan fewer steps, smaller ones, or with --brief");
  } catch (const std::exception& error) {
    equipoise::print_error("internal error (" + one_line(error.what()) +
                           "), this program: please report the command you ran");
  }
  return wrong_use;
}
