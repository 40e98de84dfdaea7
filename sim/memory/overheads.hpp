#pragma once
// What a process holds on a GPU besides its tensors. nvidia-smi counts it, PyTorch's counters do
// not. The figures are published ones of other machines; every forecast that uses them says so.

#include <string>
#include <vector>

#include "base/name.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"

namespace stepcast {

struct Overhead {
  Name name;  // "cuda_context", "nccl"
  Bytes bytes = 0;
  Bytes least = 0;  // of what was published
  Bytes most = 0;
  Provenance provenance = Provenance::assumed;
  std::string source;
};

// CUDA context with the modules loaded lazily, as PyTorch does; eager loading costs the most.
Overhead cuda_context();
// What the first NCCL op adds. Nothing for a single rank. Each further communicator has buffers of
// its own, of which no figure is published: they are not counted, and the source says so.
Overhead nccl_buffers(int ranks);

// Both, without those of 0 bytes.
std::vector<Overhead> overheads(int ranks);
Bytes sum_of(const std::vector<Overhead>& list);

}  // namespace stepcast
