#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "equipoise/model/rank_program.h"
#include "torch_ext/attention.h"

namespace equipoise {

// All that can be wrong is found here, before the first collective: a rank that throws between two collectives hangs
// the others. Errors of all: InputError "WHAT, WHERE: REMEDY".

/// The program in a 1-D int64 CPU tensor, decoded and with every place in it in range.
RankProgram read_program(const at::Tensor& words, const char* operation);

/// q [T, Hq, D], k and v [T, Hkv, D] as the program counts them, of one type (float, double, bfloat16) on one device;
/// under invariant sums float or bfloat16 on the CPU.
void check_inputs(const RankProgram& program, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// The bytes that a forward keeps for its backward, as the program lays them out.
void check_kept(const RankProgram& program, const at::Tensor& q, int64_t bytes, const char* operation);

/// grad_out and out as q, lse [T, Hq] in its sum type.
void check_saved(const at::Tensor& q, const Saved& saved, const char* operation);

/// Two groups of `members` ranks in which this rank is `member`. A program of one member needs no group.
void check_groups(const RankProgram& program, const GroupNames& groups);

/// q [Tq, Hq, D], k and v [Tk, Hkv, D] of attention at home, with cumulative lengths of Tq and Tk tokens, 1-D int64 CPU
/// tensors of equal size, and a scale.
void check_local(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& cu_q,
                 const at::Tensor& cu_k);

}  // namespace equipoise
