#include "sim/forecast/collective_chunks.hpp"

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

constexpr double kib = 1024;

}  // namespace

double slot_bytes(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::ll: return 32 * kib;
    case NcclProtocol::ll128: return 562.5 * kib;
    case NcclProtocol::simple: return 512 * kib;
  }
  return 512 * kib;
}

ChunkRule ring_chunks(NcclProtocol protocol) {
  const int slots_a_chunk = protocol == NcclProtocol::simple ? 4 : 1;
  return {slots_a_chunk * slot_bytes(protocol), message_slots / slots_a_chunk};
}

double tree_chunk(NcclProtocol protocol, double bytes, int ranks, int nodes) {
  double chunk = slot_bytes(protocol);
  if (protocol != NcclProtocol::ll128) return chunk;
  const double local = static_cast<double>(ranks) / nodes;
  const double steps = 1 + std::floor(std::log2(nodes)) + 0.1 * local;
  while (bytes / chunk < 64 * steps / local && chunk > 128 * kib) chunk /= 2;
  while (bytes / chunk < 16 * steps / local && chunk > 32 * kib) chunk /= 2;
  return chunk;
}

double nvls_chunk(double bytes, int heads) {
  double chunk = 128 * kib;
  if (bytes < 64 * heads * chunk) chunk = 64 * kib;
  if (bytes < 8 * heads * chunk) chunk = 32 * kib;
  if (bytes < 2 * heads * chunk) chunk = 16 * kib;
  return chunk;
}

double nvls_tree_chunk(double bytes, int heads, int nodes) {
  double chunk = (nodes >= 4 ? 64 : 128) * kib;
  if (bytes < 4 * heads * chunk) chunk = std::min(chunk, 64 * kib);
  if (bytes < heads * chunk) chunk = 32 * kib;
  return chunk;
}

}  // namespace stepcast
