#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/table.h"
#include "equipoise/model/document.h"
#include "equipoise/model/plan_inputs.h"

namespace equipoise {

/// Flags as they were typed; an empty text is one that was not given.
struct PlanningFlags {
  std::string lengths;  ///< the file, or "-"
  std::string mesh = "dp=8,pp=1,cp=1,tp=1";
  int64_t ranks_per_node = 8;
  std::optional<int64_t> pool;
  int64_t window = 131072;
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> align;
  int64_t micro_steps = 1;
  std::optional<int64_t> steps;
  int64_t seed = 0;
  int64_t epoch = 0;
  bool shuffle = false;
  std::string model = "llama3-8b";
  std::string hardware;
  std::string masks;
  std::string overlong = "split";

  std::string strategy = "equipoise";
  std::string queues;  ///< thresholds, or "auto"
  std::optional<double> mean_delay;
  std::optional<int64_t> max_delay;
  int64_t repack_window = 1;
  std::string dp_sync = "step";
  std::optional<int64_t> exchange_bytes;
  std::string speeds;
  std::string effort = "normal";
  std::string gradient_sum = "fast";
  bool keep_received = false;
};

/// LENGTHS, and what describes the data, the mesh, the model and the machine.
void add_corpus_flags(CLI::App& command, PlanningFlags& flags);

/// How steps are planned: --strategy, and what add_strategy_options adds.
void add_strategy_flags(CLI::App& command, PlanningFlags& flags);

/// How steps are planned under a strategy, or several, that the command names itself.
void add_strategy_options(CLI::App& command, PlanningFlags& flags);

/// The inputs that the flags mean, validated. Errors: InputError with the flag as the place.
PlanInputs make_inputs(const PlanningFlags& flags);

/// What the flags chose, but for the strategy, for the eye.
Pairs shown_inputs(const PlanningFlags& flags, const PlanInputs& inputs);

/// Reads the documents that the flags name.
Corpus read_corpus(const PlanningFlags& flags, const PlanInputs& inputs);

/// Whether --queues is auto: to be found once the documents are known (cli/tuning.h).
bool wants_tuning(const PlanningFlags& flags);

/// --steps, or as many as there are.
int64_t step_limit(const PlanningFlags& flags);

/// "dp=8,pp=1,cp=2,tp=1": axes in any order, each at most once, 1 where left out. Errors: InputError.
Mesh parse_mesh(const std::string& text);

/// "causal:31,sliding_window=4096:1": masks with their layers, which sum to the model's; ":layers" may be left out of a
/// single one. Errors: InputError.
std::vector<Mask> parse_masks(const std::string& text, int64_t model_layers);

/// "plain,wlb": strategies, each once. Errors: InputError.
std::vector<Strategy> parse_strategies(const std::string& text);

/// "400", also as "0400": one integer in decimal digits. Errors: InputError with the flag's name.
int64_t parse_integer(const std::string& text, const std::string& flag, const std::string& remedy);

/// "65536,98304": integers with commas. Errors: InputError with the flag's name.
std::vector<int64_t> parse_integers(const std::string& text, const std::string& flag);

}  // namespace equipoise
