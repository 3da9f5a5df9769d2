#pragma once

#include "torch_ext/kernel.h"

namespace equipoise {

// One entry on a CPU, on strided views of its own part of the stores.

/// Which keys a row sees: row i stands `diagonal` keys after key 0. Full: all; causal: j <= i + diagonal; sliding
/// window: i + diagonal - window < j <= i + diagonal.
struct Visibility {
  MaskKind kind = MaskKind::causal;
  int64_t window = 0;
  int64_t diagonal = 0;
};

Visibility visibility_of(const Mask& mask, int64_t diagonal);

/// The part of the stores that an entry computes with.
struct EntryParts {
  Visibility visibility;
  Queries queries;
  Keys keys;
};
EntryParts parts_of(const Work& work, const KernelEntry& entry);

/// As Kernel::forward and Kernel::backward.
void attend_forward(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale);
void attend_backward(const Visibility& visibility, const Queries& queries, const Keys& keys, double scale);

}  // namespace equipoise
