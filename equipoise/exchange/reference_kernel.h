#pragma once

#include <array>

#include "equipoise/exchange/loopback.h"

namespace equipoise {

/// A member's tensors by Store: its own, and beside them guest queries (q, out, lse, grad_out, dq) with the key arena
/// (k, v, dk, dv).
using Stores = std::array<LoopbackTensors*, 2>;

/// One kernel entry in doubles, key by key. Writes out and lse where the queries lie; a row that sees no key gets 0 and
/// -inf.
void attend(const KernelEntry& entry, const RankProgram& program, double scale, const Stores& stores);

/// Its gradients from q, k, v, out, lse and grad_out: added to dq where the queries lie, to dk and dv where the keys
/// lie.
void attend_backward(const KernelEntry& entry, const RankProgram& program, double scale, const Stores& stores);

}  // namespace equipoise
