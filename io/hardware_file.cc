// A hardware file is the struct Hardware in JSON, nothing more: new hardware is a new file and no code.
#include "io/hardware_file.h"

#include "io/costs_json.h"
#include "io/files.h"

namespace equipoise {

Hardware load_hardware(const std::string& name_or_path) {
  return names_a_file(name_or_path) ? read_hardware_file(name_or_path) : find_hardware(name_or_path);
}

Hardware read_hardware_file(const std::string& path) {
  const Json json = parse_json(read_bytes(path), display_name(path));
  Fields fields(json, "", display_name(path));
  check_format(fields, "equipoise.hardware", 1);
  Hardware hardware{.name = fields.text("name"),
                    .reference_head_size = fields.integer("reference_head_size", {.least = 1}),
                    .element_bytes = fields.integer("element_bytes", {.least = 1, .most = 8}),
                    .attention = read_attention(fields.object("attention")),
                    .linear_mflops = fields.curve("linear_mflops"),
                    .linear_backward_ppm = fields.integer("linear_backward_ppm"),
                    .node = read_link(fields.object("node")),
                    .network = read_link(fields.object("network"))};
  for (const CurvePoint& point : hardware.linear_mflops)
    if (point.y <= 0)
      fields.fail("linear_mflops", "a curve with a rate of " + std::to_string(point.y), "give rates above 0");
  fields.finish();
  return hardware;
}

std::string hardware_json(const Hardware& hardware) {
  const OrderedJson json = {{"format", "equipoise.hardware"},
                            {"version", 1},
                            {"name", hardware.name},
                            {"reference_head_size", hardware.reference_head_size},
                            {"element_bytes", hardware.element_bytes},
                            {"attention", attention_json(hardware.attention)},
                            {"linear_mflops", curve_json(hardware.linear_mflops)},
                            {"linear_backward_ppm", hardware.linear_backward_ppm},
                            {"node", link_json(hardware.node)},
                            {"network", link_json(hardware.network)}};
  return json.dump(1) + "\n";
}

}  // namespace equipoise
