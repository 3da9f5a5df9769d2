#pragma once

#include <string>

#include "equipoise/cost/hardware.h"

namespace equipoise {

/// The hardware of a name ("h100") or of a file: what holds a '/' or ends with ".json" is a file.
/// Errors: InputError for an unknown name; as read_hardware_file for a file.
Hardware load_hardware(const std::string& name_or_path);

/// A hardware file: one JSON object with `format` "equipoise.hardware", `version` 1 and the fields of Hardware by their
/// names, curves as [[x, y], ...]. Errors: InputError for an unreadable file; FormatError with path and key for a
/// broken one, an unknown or a missing key, another version.
Hardware read_hardware_file(const std::string& path);

/// The text of a hardware file. Equal hardware gives equal bytes.
std::string hardware_json(const Hardware& hardware);

}  // namespace equipoise
