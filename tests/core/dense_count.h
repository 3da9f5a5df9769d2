#pragma once

#include <string>

#include "equipoise/model/plan_inputs.h"
#include "equipoise/model/plans.h"

// Plans counted token by token, pair by pair and cell by cell, in arrays as large as the plan: slow, and sharing
// nothing with the checkers or the stages. Each function returns "" for a plan that trains right, else the first fault
// it meets.

namespace equipoise {

/// Every token of every listed document that came in goes out once; sequences within their caps; targets row by row.
std::string dense_packing_fault(const PlanInputs& inputs, const PackerState& before, const StepPlan& step);

/// Every slot holds one sequence, and the buckets hold the sequences of their slots.
std::string dense_placement_fault(const PlanInputs& inputs, const StepPlan& step);

/// Every token has one owner, ranks own equal tokens within align, and have room for their rows.
std::string dense_sharding_fault(const Sequence& sequence, const Sharding& sharding, const PlanInputs& inputs);

/// Every allowed pair of every head is computed once, by a member that has the query and the key in that round; every
/// cell that travels comes from its owner, arrives once and is used.
std::string dense_attention_fault(const PlanInputs& inputs, const BucketPlan& bucket, int64_t mask_index);

}  // namespace equipoise
