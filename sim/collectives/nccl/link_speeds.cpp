#include "sim/collectives/nccl/link_speeds.hpp"

namespace stepcast::nccl {

double nvlink_gbps(int compute_capability) {
  if (compute_capability >= 100) return 40.1;
  if (compute_capability >= 90) return 20.6;
  if (compute_capability == 86) return 12.0;
  if (compute_capability >= 70) return 20.0;
  if (compute_capability >= 60) return 18.0;
  return 20.0;
}

double pcie_gbps(int generation, int width) {
  // Usable rate of a lane in 100 Mb/s, generations 1 to 6.
  constexpr double lane[] = {60, 15, 30, 60, 120, 240, 480};
  const int g = generation >= 0 && generation <= 6 ? generation : 0;
  return (width > 0 ? width : 16) * lane[g] / 80.0;
}

double socket_gbps(CpuArch arch, CpuVendor vendor, int family, int model) {
  if (arch == CpuArch::power) return 32;
  if (arch == CpuArch::arm) return 6;
  if (arch != CpuArch::x86) return local_gbps;
  switch (vendor) {
    case CpuVendor::intel:
      if (family != 6 || model < 0x55) return 6;  // up to Broadwell
      if (model >= 0xCF) return 40;               // Emerald Rapids and newer
      if (model >= 0x8F) return 22;               // Sapphire Rapids
      return 10;                                  // Skylake, Cascade Lake, Ice Lake
    case CpuVendor::amd: return 16;
    case CpuVendor::zhaoxin: return family == 7 && model == 0x5B ? 9 : 6;
    case CpuVendor::mixed:
    case CpuVendor::other: return local_gbps;
  }
  return local_gbps;
}

CpuArch cpu_arch_of(std::string_view name) {
  if (name == "x86_64") return CpuArch::x86;
  if (name == "aarch64" || name == "arm64") return CpuArch::arm;
  if (name == "ppc64le" || name == "ppc64") return CpuArch::power;
  return CpuArch::other;
}

CpuVendor cpu_vendor_of(std::string_view name) {
  if (name == "GenuineIntel") return CpuVendor::intel;
  if (name == "AuthenticAMD") return CpuVendor::amd;
  if (name == "CentaurHauls" || name == "  Shanghai  ") return CpuVendor::zhaoxin;
  return CpuVendor::other;
}

}  // namespace stepcast::nccl
