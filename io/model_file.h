#pragma once

#include <string>

#include "equipoise/cost/hardware.h"

namespace equipoise {

/// The shape of a name ("llama3-8b") or of a file: what holds a '/' or ends with ".json" is a file.
/// Errors: InputError for an unknown name; as read_model_file for a file.
ModelShape load_model(const std::string& name_or_path);

/// A model file: one JSON object with `format` "equipoise.model", `version` 1 and the fields of ModelShape by their
/// names. Errors: InputError for an unreadable file; FormatError with path and key for a broken one, an unknown or a
/// missing key, a shape that cannot be.
ModelShape read_model_file(const std::string& path);

/// The text of a model file. Equal shapes give equal bytes.
std::string model_json(const ModelShape& model);

}  // namespace equipoise
