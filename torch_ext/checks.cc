// Checks of everything that a caller gives, in the order: types, shapes, program, groups.
#include "torch_ext/checks.h"

#include <initializer_list>
#include <sstream>
#include <utility>

#include "equipoise/base/errors.h"
#include "equipoise/verify/verify.h"
#include "torch_ext/wire.h"

namespace equipoise {
namespace {

constexpr const char* plan_remedy = "give the program of micro.exchange(mask) of this rank's own micro-step";

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

std::string place(const RankProgram& program) {
  return "attention of member " + std::to_string(program.member.value) + " of pool " + std::to_string(program.pool) +
         ", step " + std::to_string(program.step);
}

/// Of one type, on one device, with three dimensions and one head size, as the kernel can take them.
void check_qkv(const Kernel& kernel, const Tensors& qkv, const std::string& where) {
  const auto& [q, k, v] = qkv;
  const auto type = q.scalar_type();
  for (const auto& [name, tensor] : {std::pair{"k", k}, std::pair{"v", v}}) {
    if (tensor.scalar_type() != type || tensor.device() != q.device())
      throw InputError(std::string(name) + " is " + c10::toString(tensor.scalar_type()) + " on " +
                           tensor.device().str() + " where q is " + c10::toString(type) + " on " + q.device().str(),
                       where, "give q, k and v of one type on one device");
  }
  if (q.dim() != 3) throw InputError("q has shape " + shape_text(q), where, "give q as [T, Hq, D]");
  if (k.dim() != 3) throw InputError("k has shape " + shape_text(k), where, "give k as [T, Hkv, D]");
  if (v.sizes() != k.sizes())
    throw InputError("v has shape " + shape_text(v) + " where k has " + shape_text(k), where,
                     "give k and v as [T, Hkv, D]; values of another head size are not supported");
  if (q.size(2) != k.size(2) || q.size(2) < 1)
    throw InputError("q has shape " + shape_text(q) + " where k has " + shape_text(k), where,
                     "give q, k and v of one head size D >= 1");
  kernel.check(q, where);
}

void check_shape(const char* name, const at::Tensor& tensor, at::IntArrayRef expected, const std::string& where) {
  if (tensor.sizes() == expected) return;
  std::ostringstream wanted;
  wanted << expected;
  throw InputError(std::string(name) + " has shape " + shape_text(tensor) + " where the plan needs " + wanted.str(),
                   where, "give this rank's rows of this micro-step, [T, heads, D], padding rows included");
}

void check_words(const char* name, const at::Tensor& words, const std::string& where) {
  if (words.dim() == 1 && words.scalar_type() == at::kLong && words.device().is_cpu()) return;
  throw InputError(std::string(name) + " is " + c10::toString(words.scalar_type()) + " " + shape_text(words) + " on " +
                       words.device().str(),
                   where, "give a 1-D int64 tensor on the CPU");
}

/// From 0, never falling, to `total`.
void check_cumulative(const char* name, const at::Tensor& lengths, int64_t total) {
  check_words(name, lengths, "local_attention");
  const at::Tensor values = lengths.contiguous();
  const int64_t* value = values.const_data_ptr<int64_t>();
  const int64_t count = values.numel();
  bool fine = count > 0 && value[0] == 0 && value[count - 1] == total;
  for (int64_t i = 1; fine && i < count; ++i) fine = value[i - 1] <= value[i];
  if (!fine)
    throw InputError(std::string(name) + " does not rise from 0 to " + std::to_string(total), "local_attention",
                     "give cumulative lengths, one more than documents, the last one the number of rows");
}

void check_group(const RankProgram& program, const char* use, const std::string& name) {
  const Group group = find_group(name);
  if (group.size == program.members && group.rank == program.member.value) return;
  throw InputError("the " + std::string(use) + " group has rank " + std::to_string(group.rank) + " of " +
                       std::to_string(group.size) + " where the plan has member " +
                       std::to_string(program.member.value) + " of " + std::to_string(program.members),
                   place(program), "make the groups with equipoise.pool_groups for the mesh and pool of the plan");
}

}  // namespace

RankProgram read_program(const at::Tensor& words, const char* operation) {
  check_words("program", words, operation);
  const at::Tensor flat = words.contiguous();
  const RankProgram program = decode_rank_program({flat.const_data_ptr<int64_t>(), static_cast<size_t>(flat.numel())});
  if (const Violations violations = check_program(program); !violations.empty()) {
    const Violation& first = violations.front();
    throw InputError("broken program: " + first.rule + ": " + first.what, operation + (", " + first.where),
                     plan_remedy);
  }
  return program;
}

void check_inputs(const RankProgram& program, const Kernel& kernel, const Tensors& qkv) {
  const std::string where = place(program);
  const auto& [q, k, v] = qkv;
  check_qkv(kernel, qkv, where);
  check_shape("q", q, {program.rows, program.heads.query, program.heads.size}, where);
  check_shape("k", k, {program.rows, program.heads.kv, program.heads.size}, where);
  const auto bytes = static_cast<int64_t>(q.element_size());
  if (program.element_bytes != 0 && program.element_bytes != bytes)
    throw InputError("q has " + std::to_string(bytes) + " bytes an element where the plan's exchange memory counts " +
                         std::to_string(program.element_bytes),
                     where, "plan with element_bytes=" + std::to_string(bytes));
}

void check_kept(const RankProgram& program, const at::Tensor& q, int64_t bytes, const char* operation) {
  const int64_t needed = lay_out_buffers(program, number_bytes(q.scalar_type()), Pass::forward).kept_bytes;
  if (bytes != needed)
    throw InputError(std::to_string(bytes) + " bytes of kept rows where the plan keeps " + std::to_string(needed),
                     operation, "give kept_bytes of micro.exchange(mask), and to the backward what the forward gave");
}

void check_saved(const at::Tensor& q, const Saved& saved, const char* operation) {
  for (const auto& [name, tensor] : {std::pair{"grad_out", saved.grad_out}, std::pair{"out", saved.out}}) {
    check_shape(name, tensor, q.sizes(), operation);
    if (tensor.scalar_type() != q.scalar_type() || tensor.device() != q.device())
      throw InputError(std::string(name) + " is " + c10::toString(tensor.scalar_type()), operation,
                       "give it as the forward returned it, in the type of q");
  }
  check_shape("lse", saved.lse, {q.size(0), q.size(1)}, operation);
  if (saved.lse.scalar_type() != sum_type(q.scalar_type()) || saved.lse.device() != q.device())
    throw InputError(std::string("lse is ") + c10::toString(saved.lse.scalar_type()), operation,
                     "give it as the forward returned it");
  if (saved.kept.defined() && (saved.kept.scalar_type() != at::kByte || saved.kept.device() != q.device()))
    throw InputError(std::string("kept is ") + c10::toString(saved.kept.scalar_type()), operation,
                     "give it as the forward returned it");
}

void check_groups(const RankProgram& program, const GroupNames& groups) {
  if (program.members == 1) return;
  check_group(program, "dispatch", groups.dispatch);
  check_group(program, "return", groups.give_back);
}

void check_local(const Kernel& kernel, const Tensors& qkv, const at::Tensor& cu_q, const at::Tensor& cu_k) {
  const auto& [q, k, v] = qkv;
  check_qkv(kernel, qkv, "local_attention");
  if (k.size(1) < 1 || q.size(1) < 1 || q.size(1) % k.size(1) != 0)
    throw InputError(
        std::to_string(q.size(1)) + " query heads are no multiple of " + std::to_string(k.size(1)) + " KV heads",
        "local_attention", "give q [T, Hq, D] and k [T, Hkv, D] with Hq a multiple of Hkv");
  check_cumulative("cu_q", cu_q, q.size(0));
  check_cumulative("cu_k", cu_k, k.size(0));
  if (cu_q.numel() != cu_k.numel())
    throw InputError(
        "cu_q and cu_k have " + std::to_string(cu_q.numel()) + " and " + std::to_string(cu_k.numel()) + " entries",
        "local_attention", "give both for the same documents");
}

}  // namespace equipoise
