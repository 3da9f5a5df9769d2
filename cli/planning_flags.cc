// The flags that all planning commands share, and the inputs that they mean.
#include "cli/planning_flags.h"

#include <limits>

#include "equipoise/base/errors.h"
#include "equipoise/cost/hardware.h"
#include "equipoise/packing/arrival.h"
#include "equipoise/planner/planner.h"
#include "equipoise/planner/presets.h"
#include "io/hardware_file.h"
#include "io/lengths.h"
#include "io/model_file.h"

namespace equipoise {
namespace {

/// An option that is an int64_t, or an optional one. CLI11 by itself takes what does not fit for the largest that does,
/// and what begins with a zero for octal.
template <class Integer>
void add_integer(CLI::App& command, const std::string& flag, Integer& value, const std::string& description) {
  const auto read = [flag, &value](const std::string& text) {
    value = parse_integer(text, flag, "give a whole number in decimal digits");
  };
  command.add_option_function<std::string>(flag, read, description)->type_name("INT");
}

int64_t at_least(int64_t value, int64_t least, const std::string& flag) {
  if (value < least)
    throw InputError(flag + " " + std::to_string(value) + " is too small", "option " + flag,
                     "give at least " + std::to_string(least));
  return value;
}

Limits make_limits(const PlanningFlags& flags, const Mesh& mesh) {
  Limits limits;
  limits.window_tokens = flags.window;
  limits.align_tokens = flags.align.value_or(mesh.tp);
  limits.max_tokens = flags.max_tokens.value_or(default_max_tokens(flags.window, mesh, limits.align_tokens));
  limits.exchange_bytes = flags.exchange_bytes.value_or(no_limit);
  return limits;
}

Delay make_delay(const PlanningFlags& flags, Strategy strategy) {
  Delay delay;
  delay.max_delay_steps = default_max_delay(strategy);
  if (flags.max_delay) delay.max_delay_steps = at_least(*flags.max_delay, 0, "--max-delay");
  delay.repack_window_steps = flags.repack_window;
  if (!wants_tuning(flags)) delay.queue_tokens = parse_integers(flags.queues, "--queues");
  return delay;
}

}  // namespace

bool wants_tuning(const PlanningFlags& flags) { return flags.queues == "auto"; }

void add_corpus_flags(CLI::App& command, PlanningFlags& flags) {
  command
      .add_option(
          "LENGTHS", flags.lengths,
          "File of document lengths: one integer a line, JSON lines, Megatron .idx or .npy; - is standard input")
      ->required();
  command.add_option("--mesh", flags.mesh, "Ranks on each axis [dp=8,pp=1,cp=1,tp=1]");
  add_integer(command, "--ranks-per-node", flags.ranks_per_node, "Ranks that share the fast links [8]");
  add_integer(command, "--pool", flags.pool, "Replicas that share attention, a divisor of dp [the largest up to 8]");
  add_integer(command, "--window", flags.window, "Tokens of a packed sequence [131072]");
  add_integer(command, "--max-tokens", flags.max_tokens,
              "Rows that the memory of a sequence allows [the window, padded]");
  add_integer(command, "--align", flags.align, "Rows of a rank are padded to a multiple of this [tp]");
  add_integer(command, "--micro-steps", flags.micro_steps, "Sequences of each replica in an optimizer step [1]");
  add_integer(command, "--steps", flags.steps, "Optimizer steps at most [all]");
  add_integer(command, "--seed", flags.seed, "Seed of the order of documents with --shuffle [0]");
  add_integer(command, "--epoch", flags.epoch, "Epoch, added to the seed [0]");
  command.add_flag("--shuffle", flags.shuffle, "Documents arrive in random order");
  command.add_option("--model", flags.model, "Model by name or file [llama3-8b]");
  command.add_option("--hardware", flags.hardware, "Hardware by name or file [h100]");
  command.add_option("--masks", flags.masks,
                     "Masks and their layers: causal:31,sliding_window=4096:1 [causal on all layers]");
  command.add_option("--overlong", flags.overlong,
                     "Documents longer than the window: error, split, truncate or drop [split]");
}

void add_strategy_flags(CLI::App& command, PlanningFlags& flags) {
  command.add_option("--strategy", flags.strategy,
                     "plain, allgather, ulysses, fixed, wlb, libra or equipoise [equipoise]");
  add_strategy_options(command, flags);
}

void add_strategy_options(CLI::App& command, PlanningFlags& flags) {
  command.add_option("--queues", flags.queues, "Thresholds of outlier queues in tokens: 65536,98304, or auto [none]");
  command.add_option("--mean-delay", flags.mean_delay,
                     "Steps that a token may wait on average with --queues auto [0.5]");
  add_integer(command, "--max-delay", flags.max_delay, "Steps that a document may be held [0; wlb: no bound]");
  add_integer(command, "--repack-window", flags.repack_window, "Global batches repacked together by fixed [1]");
  command.add_option("--dp-sync", flags.dp_sync, "Replicas wait for each other every step or micro_step [step]");
  add_integer(command, "--exchange-bytes", flags.exchange_bytes,
              "Bytes of exchange buffers that a rank may hold at once [no limit]");
  command.add_option("--speeds", flags.speeds,
                     "Speed of each rank of dp x cp in parts per thousand: 1000,900,... [all 1000]");
  command.add_flag("--keep-received", flags.keep_received,
                   "Ranks keep received rows from forward to backward: fewer bytes sent, more held");
  command.add_option("--effort", flags.effort, "Search for pooled tiles: fast, normal or thorough [normal]");
  command.add_option("--gradient-sum", flags.gradient_sum,
                     "fast, or invariant: the same bits whoever computes what, at a price [fast]");
}

PlanInputs make_inputs(const PlanningFlags& flags) {
  const ModelShape model = load_model(flags.model);
  const Hardware hardware = load_hardware(flags.hardware.empty() ? "h100" : flags.hardware);
  PlanInputs inputs;
  inputs.strategy = parse_strategy(flags.strategy);
  inputs.mesh = parse_mesh(flags.mesh);
  inputs.mesh.ranks_per_node = flags.ranks_per_node;
  inputs.pool = flags.pool ? *flags.pool : default_pool(inputs.mesh.dp);
  inputs.micro_steps = flags.micro_steps;
  inputs.heads = heads_of(model, inputs.mesh.tp);
  inputs.masks = parse_masks(flags.masks, model.layers);
  inputs.limits = make_limits(flags, inputs.mesh);
  inputs.dp_sync = parse_dp_sync(flags.dp_sync);
  inputs.arrival = {flags.seed, flags.epoch, flags.shuffle, parse_overlong(flags.overlong)};
  inputs.delay = make_delay(flags, inputs.strategy);
  inputs.cost = make_cost_table(model, hardware, inputs.mesh.tp);
  inputs.speeds_ppt = parse_integers(flags.speeds, "--speeds");
  inputs.effort = parse_effort(flags.effort);
  inputs.gradient_sum = parse_gradient_sum(flags.gradient_sum);
  inputs.keep_received = flags.keep_received;
  validate(inputs);
  return inputs;
}

Pairs shown_inputs(const PlanningFlags& flags, const PlanInputs& inputs) {
  const std::string hint = flags.hardware.empty() ? " (nobody said which: --hardware names another)" : "";
  return {{"mesh", describe(inputs.mesh) + ", pools of " + grouped(inputs.pool) + ", " + grouped(inputs.micro_steps) +
                       " micro-steps"},
          {"window", grouped(inputs.limits.window_tokens) + " tokens, at most " + grouped(inputs.limits.max_tokens)},
          {"model", inputs.cost.model + ", " + grouped(inputs.heads.query) + " query and " + grouped(inputs.heads.kv) +
                        " KV heads on a rank"},
          {"hardware", inputs.cost.hardware + hint}};
}

Corpus read_corpus(const PlanningFlags& flags, const PlanInputs& inputs) {
  const Corpus corpus = make_corpus(read_lengths(flags.lengths), inputs.arrival);
  check_corpus(inputs, corpus);
  return corpus;
}

int64_t step_limit(const PlanningFlags& flags) {
  return flags.steps ? at_least(*flags.steps, 0, "--steps") : std::numeric_limits<int64_t>::max();
}

}  // namespace equipoise
