#pragma once

#include <string>
#include <string_view>

#include "equipoise/model/cost_table.h"
#include "equipoise/model/heads.h"

namespace equipoise {

/// The shape of a decoder-only transformer, whole model (not one TP rank). Invariant: all > 0; query_heads % kv_heads
/// == 0.
struct ModelShape {
  std::string name;
  int64_t layers = 1;
  int64_t hidden = 1;
  int64_t query_heads = 1;
  int64_t kv_heads = 1;
  int64_t head_size = 1;
  int64_t ffn = 1;             ///< of one expert
  int64_t active_experts = 1;  ///< experts a token goes through (top-k); 1 for a dense model
  int64_t vocabulary = 1;
  bool operator==(const ModelShape&) const = default;
};

/// Shapes by lower-case name, e.g. "llama3-8b". Errors: InputError listing the names. Source: public model
/// configurations.
ModelShape find_model(std::string_view name);

/// Heads of one TP rank: Hq / tp and max(1, Hkv / tp). Errors: InputError where tp does not divide Hq, or neither of
/// Hkv and tp divides the other.
Heads heads_of(const ModelShape& model, int64_t tp);

/// What one machine does, independent of the model. All per rank.
struct Hardware {
  std::string name;
  int64_t reference_head_size = 128;  ///< head size at which `attention` was measured; tile time scales with the size
  int64_t element_bytes = 2;
  AttentionCost attention;
  Curve linear_mflops;  ///< by rows: MFLOP per millisecond (= GFLOP/s) of the linear layers, element-wise work included
  int64_t linear_backward_ppm = 2 * ppm_one;
  LinkCost node;
  LinkCost network;
  bool operator==(const Hardware&) const = default;
};

/// "h100": from published kernel and link measurements; the sources stand beside each number. Errors: InputError
/// listing the names.
Hardware find_hardware(std::string_view name);

/// The integer table that planning reads, for one TP rank of the model.
CostTable make_cost_table(const ModelShape& model, const Hardware& hardware, int64_t tp);

}  // namespace equipoise
