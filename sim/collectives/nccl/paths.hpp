#pragma once
// Paths of a system as NCCL computes them, and its preference of GPUs and NICs for each other.

#include <vector>

#include "sim/collectives/nccl/system.hpp"

namespace stepcast::nccl {

// Fills System's paths: breadth first from every GPU, NIC port, CPU and switch, then the detours:
// peers without P2P and NICs without GPUDirect go by the CPU, far NICs by an NVLink neighbour
// (PXN).
void find_paths(System& system);

// Whether NCCL lets two GPUs access each other's memory: by NVLink or switches, hardly ever through
// a CPU. Where it does not they talk through shared host memory.
// What a GPU passes on through shared host memory, by its PCIe link (link_speeds.hpp).
double shared_memory_gbps_of(const System& system, int gpu);

bool peer_to_peer(const System& system, int gpu, int peer);

// The nodes of `candidates` that `from` reaches with the most bandwidth, and among those by the
// best type: indices into candidates. type: that best type.
std::vector<int> nearest(const System& system, SystemVertex from,
                         const std::vector<SystemVertex>& candidates, PathType* type = nullptr);

// The NIC port GPU `gpu` uses for channel `channel`.
int local_net(const System& system, int gpu, int channel);
// The GPU that prefers port `net`, the nearest first; -1 where none does.
int local_gpu(const System& system, int net);

// Ports in the order the search tries them: each GPU's own ones, then all within type_inter.
// gpu: only of this one; -1: of all.
std::vector<int> nets_in_order(const System& system, PathType type_inter, int gpu);

}  // namespace stepcast::nccl
