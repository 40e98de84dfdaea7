#include "topologies/link_rates.hpp"

#include <array>

#include "base/error.hpp"

namespace stepcast {

double pcie_gbps(int generation, int width) {
  // GT/s of a lane, and the part of it that the encoding leaves.
  struct Rate {
    double gigatransfers;
    double encoding;
  };
  constexpr std::array<Rate, 6> rates = {{{2.5, 8.0 / 10},
                                          {5, 8.0 / 10},
                                          {8, 128.0 / 130},
                                          {16, 128.0 / 130},
                                          {32, 128.0 / 130},
                                          {64, 236.0 / 256}}};
  STEPCAST_ASSERT(generation >= 1 && generation <= static_cast<int>(rates.size()),
                  "PCIe generation out of range");
  STEPCAST_ASSERT(width > 0, "PCIe width out of range");
  const Rate rate = rates[static_cast<std::size_t>(generation - 1)];
  return rate.gigatransfers / 8 * rate.encoding * width;
}

double default_latency_us(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
    case LinkKind::c2c:
    case LinkKind::pcie: return 0.5;
    case LinkKind::socket: return 0.2;
  }
  return 0;
}

}  // namespace stepcast
