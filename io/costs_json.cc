// Field by field, in the order of the structs. A field added to a struct is added here twice, and the round-trip test
// fails until it is.
#include "io/costs_json.h"

namespace equipoise {

OrderedJson attention_json(const AttentionCost& attention) {
  return {{"tile_rows", attention.tile_rows},     {"tile_keys", attention.tile_keys},
          {"call_ns", attention.call_ns},         {"entry_ns", attention.entry_ns},
          {"block_ps", attention.block_ps},       {"tile_ps", curve_json(attention.tile_ps)},
          {"kilobyte_ps", attention.kilobyte_ps}, {"backward_ppm", curve_json(attention.backward_ppm)}};
}

AttentionCost read_attention(Fields fields) {
  AttentionCost attention{.tile_rows = fields.integer("tile_rows", {.least = 1}),
                          .tile_keys = fields.integer("tile_keys", {.least = 1}),
                          .call_ns = fields.integer("call_ns"),
                          .entry_ns = fields.integer("entry_ns"),
                          .block_ps = fields.integer("block_ps"),
                          .tile_ps = fields.curve("tile_ps"),
                          .kilobyte_ps = fields.integer("kilobyte_ps"),
                          .backward_ppm = fields.curve("backward_ppm")};
  fields.finish();
  return attention;
}

OrderedJson link_json(const LinkCost& link) {
  return {{"latency_ns", link.latency_ns}, {"kilobyte_ps", link.kilobyte_ps}};
}

LinkCost read_link(Fields fields) {
  const LinkCost link{.latency_ns = fields.integer("latency_ns"), .kilobyte_ps = fields.integer("kilobyte_ps")};
  fields.finish();
  return link;
}

bool names_a_file(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
}

void check_format(Fields& fields, std::string_view format, int64_t version) {
  const std::string found = fields.text("format");
  if (found != format)
    throw FormatError("this is a file of format \"" + found + "\"", fields.place(),
                      "give one of format \"" + std::string(format) + "\"");
  const int64_t number = fields.integer("version");
  if (number > version)
    throw FormatError(
        "version " + std::to_string(number) + " is newer than the " + std::to_string(version) + " this program reads",
        fields.place(), "use the equipoise that wrote it, or a newer one");
  if (number != version)
    throw FormatError("version " + std::to_string(number) + " was never written", fields.place(),
                      "give a file of version " + std::to_string(version));
}

}  // namespace equipoise
