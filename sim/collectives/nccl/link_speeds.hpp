#pragma once
// What NCCL takes a link to move, GB/s per direction. They are the speeds its authors saw
// collectives reach, not labels: 20.6 of the 25 of an NVLink 4, 24 of the 31.5 of PCIe Gen4 x16.
// Source: NCCL 2.28.9, src/graph/topo.h and topo.cc.

#include "sim/collectives/nccl/types.hpp"

namespace stepcast::nccl {

inline constexpr double local_gbps = 5000.0;  // within a device: no limit

double nvlink_gbps(int compute_capability);  // one link
// generation 0: unknown, Gen3 is assumed as NCCL does; width 0: 16 lanes.
double pcie_gbps(int generation, int width);
// Between two CPUs (sockets or NUMA nodes).
double socket_gbps(CpuArch arch, CpuVendor vendor, int family, int model);

CpuArch cpu_arch_of(std::string_view name);      // "x86_64", "aarch64", "arm64", "ppc64le"
CpuVendor cpu_vendor_of(std::string_view name);  // "GenuineIntel", "AuthenticAMD", ...

}  // namespace stepcast::nccl
