// A spare block for each device, under a lock: whoever takes it owns it alone until it is given back.
#include "torch_ext/workspace.h"

#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

namespace equipoise {
namespace {

/// Blocks that nobody uses, at most one a device.
struct Spares {
  std::mutex lock;
  std::vector<at::Tensor> blocks;
};

Spares& spares() {
  static auto* const kept = new Spares;  // never destroyed: tensors must not outlive torch's own statics
  return *kept;
}

/// Removes the spare of a device; undefined where there is none. Requires the lock.
at::Tensor remove_spare(Spares& kept, const at::Device& device) {
  for (at::Tensor& block : kept.blocks) {
    if (block.device() != device) continue;
    std::swap(block, kept.blocks.back());
    at::Tensor found = std::move(kept.blocks.back());
    kept.blocks.pop_back();
    return found;
  }
  return {};
}

}  // namespace

at::Tensor take_memory(int64_t bytes, const at::Device& device) {
  Spares& kept = spares();
  {
    const std::lock_guard guard(kept.lock);
    at::Tensor spare = remove_spare(kept, device);
    if (spare.defined() && spare.numel() >= bytes) return spare;
  }
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
}

void give_memory_back(at::Tensor memory) {
  Spares& kept = spares();
  const std::lock_guard guard(kept.lock);
  at::Tensor spare = remove_spare(kept, memory.device());
  const bool larger = !spare.defined() || spare.numel() < memory.numel();
  kept.blocks.push_back(larger ? std::move(memory) : std::move(spare));
}

void release_memory() {
  Spares& kept = spares();
  const std::lock_guard guard(kept.lock);
  kept.blocks.clear();
}

}  // namespace equipoise
