#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "equipoise/model/cost_table.h"
#include "equipoise/model/effort.h"
#include "equipoise/model/gradient_sum.h"
#include "equipoise/model/heads.h"
#include "equipoise/model/limits.h"
#include "equipoise/model/mask.h"
#include "equipoise/model/mesh.h"

namespace equipoise {

/// A preset: one choice for each stage (planner/presets.h).
enum class Strategy : int64_t { plain = 0, allgather, ulysses, fixed, wlb, libra, equipoise };

/// What replicas wait for: once a step (DDP, ZeRO-1) or in every micro-step (FSDP full sharding, experts spread over
/// dp).
enum class DpSync : int64_t { step = 0, micro_step = 1 };

/// What becomes of a document longer than the window.
enum class Overlong : int64_t { error = 0, split, truncate, drop };

/// The order in which documents arrive, and what happens to those that are too long.
struct Arrival {
  int64_t seed = 0;
  int64_t epoch = 0;
  bool shuffle = false;
  Overlong overlong = Overlong::split;
  bool operator==(const Arrival&) const = default;
};

inline constexpr int64_t no_bound = -1;

/// How long documents may be held for later steps.
struct Delay {
  int64_t max_delay_steps = 0;        ///< no_bound: as long as the strategy wants
  int64_t repack_window_steps = 1;    ///< `fixed`: global batches repacked together
  std::vector<int64_t> queue_tokens;  ///< outlier thresholds, rising
  bool operator==(const Delay&) const = default;
};

/// Everything that decides a plan, by value. Equal inputs and lengths give the equal plan, byte for byte, on every rank
/// and machine. Stages take only the parts that they read.
struct PlanInputs {
  Strategy strategy = Strategy::equipoise;
  Mesh mesh;
  int64_t pool = 1;         ///< replicas that share attention; divides mesh.dp
  int64_t micro_steps = 1;  ///< N, per replica and optimizer step
  Heads heads;              ///< of one TP rank
  std::vector<Mask> masks = {Mask{}};
  Limits limits;
  DpSync dp_sync = DpSync::step;
  Arrival arrival;
  Delay delay;
  CostTable cost;
  std::vector<int64_t> speeds_ppt;  ///< parts per thousand, by replica * cp + cp_rank; empty: all 1000
  Effort effort = Effort::normal;   ///< of placing pooled tiles
  GradientSum gradient_sum = GradientSum::fast;
  int64_t grid_rows = default_grid_rows;  ///< query rows of a cell of the invariant grid
  bool keep_received = false;  ///< members keep received rows from forward to backward, or have them sent again
  bool operator==(const PlanInputs&) const = default;

  constexpr int64_t sequences() const { return mesh.dp * micro_steps; }  ///< M
  constexpr int64_t members() const { return pool * mesh.cp; }           ///< ranks of a pool
  /// Query rows of a cell of the grid at which work is cut; 0: no grid.
  constexpr int64_t grid() const { return gradient_sum == GradientSum::invariant ? grid_rows : 0; }
};

/// Every field of the inputs as (name, value) texts in a fixed order. The hash is over exactly these, and two ranks
/// that differ can name the first field in which they do.
std::vector<std::pair<std::string, std::string>> input_fields(const PlanInputs& inputs);

/// 64-bit hash of all inputs.
uint64_t hash_inputs(const PlanInputs& inputs);

/// The default pool: the largest divisor of dp that is at most 8.
int64_t default_pool(int64_t dp);

/// The default max_tokens: the window, rounded up to what the rows of its ranks add up to where they are padded.
int64_t default_max_tokens(int64_t window_tokens, const Mesh& mesh, int64_t align_tokens);

/// Throws InputError if the inputs contradict themselves: impossible meshes, pools, heads, masks, limits, speeds or
/// cost curves.
void validate(const PlanInputs& inputs);

/// Names as on the command line. parse_* throw InputError naming the choices.
std::string_view name(Strategy strategy);
std::string_view name(DpSync dp_sync);
std::string_view name(Overlong overlong);
Strategy parse_strategy(std::string_view text);
DpSync parse_dp_sync(std::string_view text);
Overlong parse_overlong(std::string_view text);

}  // namespace equipoise
