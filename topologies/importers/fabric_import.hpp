#pragma once
// The network between machines, out of what a site has written down: Slurm's topology.conf (plugins
// tree and block) or topology.yaml, and the output of `ibnetdiscover`. Both become a graph of
// switches and hosts, and that becomes the keys of a scenario (fabric, leaf_ports,
// oversubscription, network, nic_gbps).
//
//   if (is_fabric(text)) write_file("fabric.toml", to_toml(import_fabric_text(text, file)));
//
// A switch with hosts on it is a leaf.
//
//   one leaf                                          single_switch
//   each NIC of a host on a leaf of its own           rail_optimised; rail_only where no switch
//                                                     joins the leaves of two rails
//   all NICs of a host on one leaf, one tier above    leaf_spine
//   the same, two tiers above                         fat_tree
//
//   leaf_ports        hosts on a leaf: of the most common size, and the larger of two
//   oversubscription  speed of a leaf's links to hosts over that of its links to switches: the
//                     median leaf, never below 1; Slurm does not say it
//
// Hosts with another number of NICs than most (storage, logins) are left out. What the keys cannot
// express is said in the notes: leaves of several sizes, a tier above rails, leaves joined
// directly, parts that nothing joins.
//
// Cost: linear in the file. Tested by tests/unit/importers/fabric_test.cpp.

#include <optional>
#include <string>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

struct ImportedFabric {
  std::string format;  // "ibnetdiscover", "Slurm topology.conf (tree)"
  int hosts = 0;
  int leaves = 0;
  int levels = 1;  // of switches: 1 a single switch, 2 leaves and spines, 3 with a core
  int rails = 1;   // leaves that a host is on
  FabricKind kind = FabricKind::leaf_spine;
  int leaf_ports = 0;
  std::optional<double> oversubscription;  // none: the file does not say
  std::optional<std::string> network;
  std::optional<double> nic_gbps;  // GB/s a direction
  std::vector<std::string> notes;  // one sentence each
};

bool is_fabric(const std::string& text);
// Throws InputError that names file and line.
ImportedFabric import_fabric_text(const std::string& text, const std::string& file);

// "64 hosts on 4 leaves of 16, 2 levels of switches, 1 rail"
std::string describe(const ImportedFabric& fabric);
// A scenario's keys; `comments` stand at its head.
std::string to_toml(const ImportedFabric& fabric, const std::vector<std::string>& comments = {});

namespace importing {

// What both formats are turned into.
struct FabricGraph {
  struct Switch {
    std::string name;
    std::vector<int> hosts;     // a link each; a host is there several times with several links
    std::vector<int> switches;  // the same
    double down_gbit = 0, up_gbit = 0;  // of those links; 0: not known
  };
  struct Host {
    std::string name;
    std::vector<int> leaves;  // of each of its links
  };
  std::vector<Switch> switches;
  std::vector<Host> hosts;
};

FabricGraph read_slurm_topology(const std::string& text, const std::string& file,
                                ImportedFabric& fabric);
FabricGraph read_ibnetdiscover(const std::string& text, const std::string& file,
                               ImportedFabric& fabric);
bool is_slurm_topology(const std::string& text);
bool is_ibnetdiscover(const std::string& text);

}  // namespace importing
}  // namespace stepcast
