#include "sim/collectives/nccl/types.hpp"

namespace stepcast {

std::string_view to_string(NcclAlgorithm algorithm) {
  switch (algorithm) {
    case NcclAlgorithm::tree: return "Tree";
    case NcclAlgorithm::ring: return "Ring";
    case NcclAlgorithm::collnet_direct: return "CollNetDirect";
    case NcclAlgorithm::collnet_chain: return "CollNetChain";
    case NcclAlgorithm::nvls: return "NVLS";
    case NcclAlgorithm::nvls_tree: return "NVLSTree";
    case NcclAlgorithm::pat: return "PAT";
  }
  return "";
}

std::string_view to_string(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::ll: return "LL";
    case NcclProtocol::ll128: return "LL128";
    case NcclProtocol::simple: return "Simple";
  }
  return "";
}

namespace nccl {

std::string_view to_string(PathType type) {
  switch (type) {
    case PathType::loc: return "LOC";
    case PathType::nvl: return "NVL";
    case PathType::nvb: return "NVB";
    case PathType::c2c: return "C2C";
    case PathType::pix: return "PIX";
    case PathType::pxb: return "PXB";
    case PathType::p2c: return "P2C";
    case PathType::pxn: return "PXN";
    case PathType::phb: return "PHB";
    case PathType::sys: return "SYS";
    case PathType::net: return "NET";
    case PathType::dis: return "DIS";
  }
  return "";
}

}  // namespace nccl
}  // namespace stepcast
