#pragma once
// Line rates and delays that follow from a standard, not from a machine.

#include "topologies/topology.hpp"

namespace stepcast {

// GB/s in one direction of a PCIe link after line encoding, before packet headers. Generations 1
// and 2 send 8 bits in 10, 3 to 5 send 128 in 130 (PCI-SIG base specifications): Gen3 x16 is
// 8 GT/s * 16 / 8 * 128 / 130 = 15.75. Generation 6 sends flits of 256 B that hold 236 B of
// packets.
double pcie_gbps(int generation, int width);

// What a link of this kind adds to a message, microseconds, where a machine does not say otherwise.
// These are assumed: round figures within the range of published ping-pong and peer-copy latencies
// (NVLink and PCIe hops some 0.5 us, socket links some 0.1 to 0.3 us).
double default_latency_us(LinkKind kind);

}  // namespace stepcast
