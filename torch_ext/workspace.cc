// A spare block for each stream, under a lock: whoever takes it owns it alone until it is given back.
#include "torch_ext/workspace.h"

#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace equipoise {
namespace {

struct Spare {
  c10::Stream stream;
  at::Tensor block;
};

/// Blocks that nobody uses, at most one a stream.
struct Spares {
  std::mutex lock;
  std::vector<Spare> list;
};

Spares& spares() {
  static auto* const kept = new Spares;  // never destroyed: tensors must not outlive torch's own statics
  return *kept;
}

/// The stream of a device on which this thread works; one and the same on a CPU.
c10::Stream current_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Removes the spare of a stream; undefined where there is none. Requires the lock.
at::Tensor remove_spare(Spares& kept, const c10::Stream& stream) {
  for (Spare& spare : kept.list) {
    if (spare.stream != stream) continue;
    std::swap(spare, kept.list.back());
    at::Tensor found = std::move(kept.list.back().block);
    kept.list.pop_back();
    return found;
  }
  return {};
}

}  // namespace

at::Tensor take_memory(int64_t bytes, const at::Device& device) {
  Spares& kept = spares();
  {
    const std::lock_guard guard(kept.lock);
    at::Tensor spare = remove_spare(kept, current_stream(device));
    if (spare.defined() && spare.numel() >= bytes) return spare;
  }
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
}

void give_memory_back(at::Tensor memory) {
  Spares& kept = spares();
  const std::lock_guard guard(kept.lock);
  const c10::Stream stream = current_stream(memory.device());
  at::Tensor spare = remove_spare(kept, stream);
  const bool larger = !spare.defined() || spare.numel() < memory.numel();
  kept.list.push_back({stream, larger ? std::move(memory) : std::move(spare)});
}

void release_memory() {
  Spares& kept = spares();
  const std::lock_guard guard(kept.lock);
  kept.list.clear();
}

}  // namespace equipoise
