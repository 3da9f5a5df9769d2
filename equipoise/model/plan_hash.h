#pragma once

#include <span>

#include "equipoise/model/plans.h"

namespace equipoise {

/// 64-bit hashes by which ranks agree before they exchange anything: equal plans have equal hashes, on every machine.
/// They cover every value of a plan but what follows from the rest (buckets of a step, messages of a layer).
uint64_t hash_documents(std::span<const Document> documents);
uint64_t hash_step(const StepPlan& step);
uint64_t hash_bucket(const BucketPlan& bucket);

}  // namespace equipoise
