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
/// the wait is over. Zero counts are fine. Every rank of a group must call it in the same order. Errors: those of the
/// communicator, here or in the wait, with its own text.
std::function<void()> start_all_to_all(const std::string& group, const at::Tensor& send,
                                       const std::vector<int64_t>& send_bytes, const at::Tensor& receive,
                                       const std::vector<int64_t>& receive_bytes);

}  // namespace equipoise
