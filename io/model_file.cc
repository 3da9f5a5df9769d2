// A model file is the struct ModelShape in JSON.
#include "io/model_file.h"

#include "io/costs_json.h"
#include "io/files.h"

namespace equipoise {

ModelShape load_model(const std::string& name_or_path) {
  return names_a_file(name_or_path) ? read_model_file(name_or_path) : find_model(name_or_path);
}

ModelShape read_model_file(const std::string& path) {
  const Json json = parse_json(read_bytes(path), display_name(path));
  Fields fields(json, "", display_name(path));
  check_format(fields, "equipoise.model", 1);
  constexpr Bounds size{.least = 1, .most = int64_t{1} << 24};  // products of three stay far from 2^63
  const ModelShape model{.name = fields.text("name"),
                         .layers = fields.integer("layers", size),
                         .hidden = fields.integer("hidden", size),
                         .query_heads = fields.integer("query_heads", size),
                         .kv_heads = fields.integer("kv_heads", size),
                         .head_size = fields.integer("head_size", size),
                         .ffn = fields.integer("ffn", size),
                         .active_experts = fields.integer("active_experts", size),
                         .vocabulary = fields.integer("vocabulary", size)};
  if (model.query_heads % model.kv_heads != 0)
    fields.fail("kv_heads", std::to_string(model.kv_heads),
                "give a divisor of query_heads " + std::to_string(model.query_heads));
  fields.finish();
  return model;
}

std::string model_json(const ModelShape& model) {
  const OrderedJson json = {{"format", "equipoise.model"},
                            {"version", 1},
                            {"name", model.name},
                            {"layers", model.layers},
                            {"hidden", model.hidden},
                            {"query_heads", model.query_heads},
                            {"kv_heads", model.kv_heads},
                            {"head_size", model.head_size},
                            {"ffn", model.ffn},
                            {"active_experts", model.active_experts},
                            {"vocabulary", model.vocabulary}};
  return json.dump(1) + "\n";
}

}  // namespace equipoise
