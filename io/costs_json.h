#pragma once

#include "equipoise/model/cost_table.h"
#include "io/json_fields.h"

// The parts that cost tables (in plan files) and hardware files share. For the sources of io only.

namespace equipoise {

OrderedJson attention_json(const AttentionCost& attention);
AttentionCost read_attention(Fields fields);

OrderedJson link_json(const LinkCost& link);
LinkCost read_link(Fields fields);

/// Whether a NAME|FILE argument means a file.
bool names_a_file(const std::string& name_or_path);

/// Checks `format` and `version` of a file's outermost object. A higher version is refused with the advice to use a
/// newer equipoise.
void check_format(Fields& fields, std::string_view format, int64_t version);

}  // namespace equipoise
