#pragma once

#include <ATen/core/Tensor.h>

namespace equipoise {

// Memory for the exchange buffers of a pass. One block a device is kept from pass to pass and grows with the largest
// plan, so that nothing is allocated once it has. Passes that run at once, on several threads, have blocks of their
// own.

/// At least `bytes` bytes, uint8, aligned to buffer_alignment. Larger than the block that is kept: that one is freed
/// first.
at::Tensor take_memory(int64_t bytes, const at::Device& device);

/// Gives a block back once nothing uses it any more. One that is not given back is freed with its tensor.
void give_memory_back(at::Tensor memory);

/// Frees the blocks that are kept.
void release_memory();

}  // namespace equipoise
