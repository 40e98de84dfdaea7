#pragma once
// What NCCL takes a link to move, GB/s per direction. They are the speeds its authors saw
// collectives reach, not labels: 20.6 of the 25 of an NVLink 4, 24 of the 31.5 of PCIe Gen4 x16.
// Source: NCCL 2.28.9, src/graph/topo.h and topo.cc.

#include "sim/collectives/nccl/types.hpp"

namespace stepcast::nccl {

inline constexpr double local_gbps = 5000.0;  // within a device: no limit

// Two GPUs of a node that may not access each other talk through shared host memory (NCCL's SHM
// transport). NCCL's model gives that the speed of the PCIe path; measured, a GPU passes on far
// less: 2.24 and 3.85 GB/s (2 GPUs) and 2.58 (4 GPUs) on rented RTX 4090s whose PCIe NCCL rates 24
// (docs/collectives.md). The median is taken, and of another PCIe link the same share; machines
// differ, so times that rest on it are extrapolated. NCCL's own choices do not know of it.
inline constexpr double shared_memory_gbps = 2.58;         // behind Gen4 x16, ...
inline constexpr double shared_memory_behind_gbps = 24.0;  // which NCCL rates so

double nvlink_gbps(int compute_capability);  // one link
// generation 0: unknown, Gen3 is assumed as NCCL does; width 0: 16 lanes.
double pcie_gbps(int generation, int width);
// Between two CPUs (sockets or NUMA nodes).
double socket_gbps(CpuArch arch, CpuVendor vendor, int family, int model);

CpuArch cpu_arch_of(std::string_view name);      // "x86_64", "aarch64", "arm64", "ppc64le"
CpuVendor cpu_vendor_of(std::string_view name);  // "GenuineIntel", "AuthenticAMD", ...

}  // namespace stepcast::nccl
