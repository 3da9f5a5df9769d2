// A machine is a handful of measured numbers; with a model's shape they become the integer table that planning reads.

#include "equipoise/cost/hardware.h"

#include <algorithm>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

Hardware make_h100() {
  Hardware h100;
  h100.name = "h100";
  h100.reference_head_size = 128;
  h100.element_bytes = 2;

  AttentionCost& attention = h100.attention;
  // FlashAttention 3, bf16, head size 128. Least squares over 1,338 causal batches of the vLLM / aiconfigurator H100
  // tables, mean error 7 %: time = 11.4 us + 12.33 ns for each 128 x 128 tile and head on the whole GPU + bytes at 1764
  // GB/s.
  attention.tile_rows = 128;
  attention.tile_keys = 128;
  attention.call_ns = 11'400;
  attention.tile_ps = {{0, 12'330}};
  attention.kilobyte_ps = 580;
  // Each row block costs about as much as 0.9 of a 128 x 64 tile more: DistCA's H100 profile of variable-length calls.
  attention.block_ps = 5'500;
  // An entry is one more line of cu_seqlens.
  attention.entry_ns = 0;
  // 2.5 x forward TFLOP/s / backward TFLOP/s of the H100 charts of MagiAttention, 1K to 32K tokens: 4.0 short, 2.9
  // long.
  attention.backward_ppm = {{1024, 4'200'000}, {2048, 4'100'000},  {4096, 3'600'000},
                            {8192, 3'200'000}, {16384, 3'000'000}, {32768, 2'900'000}};

  // bf16 matrix products by rows reach 200 to 800 TFLOP/s in the aiconfigurator H100 tables; back to back they are held
  // by power to 650 to 720 (ml-engineering's achievable-FLOPS notes), and element-wise work takes about a seventh of
  // the layer.
  h100.linear_mflops = {{128, 180'000},  {256, 300'000},  {512, 410'000}, {1024, 480'000},
                        {2048, 520'000}, {4096, 550'000}, {8192, 560'000}};
  // Two products, for inputs and for weights, each as large as the forward's.
  h100.linear_backward_ppm = 2 * ppm_one;

  // nccl-tests all-to-all of 8 H100 in the aiconfigurator tables: 9.4 us, about 300 GB/s a rank.
  h100.node = {.latency_ns = 9'400, .kilobyte_ps = 3'413};
  // nccl-tests all-to-all over 10 DGX H100 with 400 Gb/s a GPU, one GPU a node: 45 GB/s. Latency: NCCL's base 8.4 us
  // and one network step of 14 us (its tuning table for the Simple protocol).
  h100.network = {.latency_ns = 22'400, .kilobyte_ps = 22'756};
  return h100;
}

/// Forward floating-point operations of one token in one layer, of all TP ranks: projections, and the experts that a
/// token goes through (gate, up, down).
int64_t linear_flops(const ModelShape& model) {
  const int64_t queries = model.query_heads * model.head_size;
  const int64_t keys = model.kv_heads * model.head_size;
  const int64_t weights = 2 * model.hidden * (queries + keys) + 3 * model.hidden * model.ffn * model.active_experts;
  return 2 * weights;
}

/// Bytes kept per token and layer until its backward, with flash attention and nothing recomputed, of all TP ranks: at
/// 2 bytes an element 8 h + 4 h_q + 4 h_kv + 6 f + 4 heads, and for experts 4 h for each copy of a routed token.
int64_t activation_bytes(const ModelShape& model, int64_t element_bytes) {
  const int64_t queries = model.query_heads * model.head_size;
  const int64_t keys = model.kv_heads * model.head_size;
  const int64_t routed = model.active_experts > 1 ? 2 * model.hidden * model.active_experts : 0;
  const int64_t elements = 4 * model.hidden + 2 * queries + 2 * keys + 3 * model.ffn * model.active_experts + routed;
  return elements * element_bytes + 4 * model.query_heads;
}

}  // namespace

Hardware find_hardware(std::string_view name) {
  if (name == "h100") return make_h100();
  throw InputError("hardware '" + std::string(name) + "' is not known", "field hardware",
                   "use h100, or give a file written by python -m equipoise.calibrate");
}

CostTable make_cost_table(const ModelShape& model, const Hardware& hardware, int64_t tp) {
  const Heads heads = heads_of(model, tp);
  CostTable cost;
  cost.model = model.name;
  cost.hardware = hardware.name;
  cost.layers = model.layers;
  cost.element_bytes = hardware.element_bytes;
  cost.statistic_bytes = hardware.element_bytes == 8 ? 8 : 4;  // double for double, else float
  cost.activation_bytes = ceil_div(activation_bytes(model, hardware.element_bytes), tp);
  cost.attention = hardware.attention;
  cost.attention.block_ps = mul_div(cost.attention.block_ps, heads.size, hardware.reference_head_size);
  for (CurvePoint& point : cost.attention.tile_ps) point.y = mul_div(point.y, heads.size, hardware.reference_head_size);
  // FLOP / (MFLOP/ms) = nanoseconds; times 1000 are picoseconds.
  cost.linear.token_ps.clear();
  for (const CurvePoint& rate : hardware.linear_mflops)
    cost.linear.token_ps.push_back({rate.x, mul_div(linear_flops(model), 1000, rate.y * tp)});
  cost.linear.backward_ppm = hardware.linear_backward_ppm;
  cost.node = hardware.node;
  cost.network = hardware.network;
  return cost;
}

}  // namespace equipoise
