// The only file that sees c10d: groups by name, and one collective.
#include "torch_ext/wire.h"

#include <charconv>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "equipoise/base/errors.h"

namespace equipoise {
namespace {

c10::intrusive_ptr<c10d::ProcessGroup> resolve(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const std::exception&) {
    throw InputError("no process group has the name '" + name + "'", "equipoise.PooledAttention",
                     "make groups with equipoise.pool_groups after torch.distributed.init_process_group");
  }
}

/// pool_groups describes a group as "..., ranks 4,5,6": the numbers after the last blank.
std::vector<int64_t> ranks_of(const std::string& description) {
  std::vector<int64_t> ranks;
  if (description.find("ranks ") == std::string::npos) return ranks;
  const char* at = description.data() + description.rfind(' ') + 1;
  const char* const end = description.data() + description.size();
  while (at < end) {
    int64_t rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc()) break;
    ranks.push_back(rank);
    at = next + 1;
  }
  return ranks;
}

}  // namespace

Group find_group(const std::string& name) {
  const auto group = resolve(name);
  Group found{group->getSize(), group->getRank(), ranks_of(group->getGroupDesc())};
  if (static_cast<int64_t>(found.global_ranks.size()) != found.size) found.global_ranks.clear();
  return found;
}

std::function<void()> start_all_to_all(const std::string& group, const at::Tensor& send,
                                       const std::vector<int64_t>& send_bytes, const at::Tensor& receive,
                                       const std::vector<int64_t>& receive_bytes) {
  // The communicator takes mutable references; the wait keeps the tensors alive.
  at::Tensor from = send, to = receive;
  std::vector<int64_t> from_bytes = send_bytes, to_bytes = receive_bytes;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the new name is missing in older versions of torch
  const auto work = resolve(group)->alltoall_base(to, from, to_bytes, from_bytes);
#pragma GCC diagnostic pop
  return [work, from, to] { work->wait(); };
}

}  // namespace equipoise
