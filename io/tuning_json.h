#pragma once

#include <optional>

#include "equipoise/packing/tune_queues.h"
#include "io/json_fields.h"

namespace equipoise {

/// Puts what was tuned into a report, as "tuned_queues"; nothing where nothing was.
void put_tuned(OrderedJson& report, const std::optional<TunedQueues>& tuned);

}  // namespace equipoise
