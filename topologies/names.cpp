#include <algorithm>

#include "topologies/topology.hpp"

namespace stepcast {

std::string_view to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu: return "gpu";
    case DeviceKind::nvswitch: return "nvswitch";
    case DeviceKind::pcie_switch: return "pcie_switch";
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::nic: return "nic";
  }
  return "";
}

std::string_view to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "nvlink";
    case LinkKind::c2c: return "c2c";
    case LinkKind::pcie: return "pcie";
    case LinkKind::socket: return "socket";
  }
  return "";
}

std::string_view to_string(FabricKind kind) {
  switch (kind) {
    case FabricKind::single_switch: return "single_switch";
    case FabricKind::leaf_spine: return "leaf_spine";
    case FabricKind::rail_optimised: return "rail_optimised";
    case FabricKind::rail_only: return "rail_only";
    case FabricKind::fat_tree: return "fat_tree";
    case FabricKind::dragonfly: return "dragonfly";
  }
  return "";
}

FabricKind parse_fabric_kind(std::string_view text, const Where& asked) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  if (name == "rail_optimized") name = "rail_optimised";
  std::vector<std::string> accepted;
  for (const FabricKind kind :
       {FabricKind::rail_optimised, FabricKind::leaf_spine, FabricKind::single_switch,
        FabricKind::rail_only, FabricKind::fat_tree, FabricKind::dragonfly}) {
    if (name == to_string(kind)) return kind;
    accepted.emplace_back(to_string(kind));
  }
  throw not_accepted(asked, text, accepted);
}

}  // namespace stepcast
