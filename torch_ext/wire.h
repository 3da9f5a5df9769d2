#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace equipoise {

// All that the operator knows of the communicator. Groups are found by the name that torch.distributed gave them.

/// A process group as this rank sees it.
struct Group {
  int64_t size = 0;
  int64_t rank = 0;
  std::vector<int64_t> global_ranks;  ///< by rank in the group; empty where its description does not say
};

/// Errors: InputError for an unknown name.
Group find_group(const std::string& name);

/// Starts an all-to-all of bytes and returns what waits for its end. Rank i of the group gets the next send_bytes[i]
/// bytes of `send`, and its next receive_bytes[i] bytes lie in `receive`; both are [bytes], uint8, and must live until
/// the wait is over. Zero counts are fine. Every rank of a group must call it in the same order. With NCCL the exchange
/// starts after what the current stream holds by now, and the wait holds back that stream, not the host: what is given
/// to the stream after the wait may read `receive` and write `send` again. Errors: those of the communicator, here or
/// in the wait, with its own text; NCCL's own watchdog ends a process whose peer is lost.
std::function<void()> start_all_to_all(const std::string& group, const at::Tensor& send,
                                       const std::vector<int64_t>& send_bytes, const at::Tensor& receive,
                                       const std::vector<int64_t>& receive_bytes);

}  // namespace equipoise
