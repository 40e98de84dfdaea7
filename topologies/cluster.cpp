// A cluster: some nodes of one machine on a fabric. Options override what the machine says; what
// contradicts itself is refused here, so that nobody behind has to check again.

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/catalog.hpp"
#include "topologies/topology.hpp"

namespace stepcast {
namespace {

constexpr std::string_view networks_file = "networks.toml";

double hop_latency_us(const std::string& network) {
  TomlTable root = TomlTable::from_text(catalog::embedded_text(networks_file),
                                        "catalog/" + std::string(networks_file));
  std::optional<TomlTable> table = root.table(network);
  STEPCAST_ASSERT(table.has_value(), "network class without a table: " + network);
  table->string("source");
  return table->number("hop_latency_us", {0, 1e6});
}

void require(bool good, const std::string& key, const std::string& message) {
  if (!good) throw InputError({"", 0, key}, message);
}

void apply(const ClusterOptions& options, Fabric& fabric) {
  if (options.fabric) fabric.kind = *options.fabric;
  if (options.oversubscription) {
    const double value = *options.oversubscription;
    require(std::isfinite(value) && value >= 1, "oversubscription",
            fmt::format("{} is out of range; accepted: 1 or more (downlink over uplink)", value));
    fabric.oversubscription = value;
  }
  if (options.gpudirect_rdma) fabric.gpudirect_rdma = *options.gpudirect_rdma;
  if (options.nic_gbps) {
    const double value = *options.nic_gbps;
    require(std::isfinite(value) && value > 0, "nic_gbps",
            fmt::format("{} is out of range; accepted: more than 0 GB/s", value));
    fabric.nic_gbps = value;
  }
  if (options.leaf_ports) {
    require(
        *options.leaf_ports >= 1, "leaf_ports",
        fmt::format("{} is out of range; accepted: 1 or more nodes a leaf", *options.leaf_ports));
    fabric.leaf_ports = *options.leaf_ports;
  }
  require(fabric.kind != FabricKind::single_switch || fabric.oversubscription == 1,
          "oversubscription", "is above 1 on a single switch; accepted: 1, or another fabric");
  require(fabric.kind != FabricKind::rail_only || fabric.oversubscription == 1, "oversubscription",
          "is above 1 on rails that nothing joins; accepted: 1, or another fabric");
}

// nodes, gpus_per_node and world_size from whichever of them is given.
void size_cluster(const ClusterOptions& options, Cluster& cluster) {
  constexpr int max_nodes = 1 << 20;
  const auto present = static_cast<int>(cluster.machine.gpus.size());
  const std::string& name = cluster.machine.name;
  require(options.nodes >= 0 && options.nodes <= max_nodes, "nodes",
          fmt::format("{} is out of range; accepted: 1 to {}", options.nodes, max_nodes));
  require(options.gpus >= 0, "gpus",
          fmt::format("{} is out of range; accepted: 1 or more", options.gpus));
  require(options.gpus_per_node >= 0 && options.gpus_per_node <= present, "gpus_per_node",
          fmt::format("{} is out of range; accepted: 1 to {}, the GPUs of {}",
                      options.gpus_per_node, present, name));
  const int per_node = options.gpus_per_node > 0 ? options.gpus_per_node : present;
  cluster.gpus_per_node = per_node;
  cluster.nodes = options.nodes;
  if (options.nodes == 0) {
    cluster.nodes = options.gpus > 0 ? static_cast<int>(ceil_div(options.gpus, per_node)) : 1;
    require(cluster.nodes <= max_nodes, "gpus",
            fmt::format("{} needs {} nodes; accepted: at most {} nodes", options.gpus,
                        cluster.nodes, max_nodes));
  }
  const std::int64_t places = static_cast<std::int64_t>(cluster.nodes) * per_node;
  require(places <= std::int64_t{1} << 30, "nodes",
          fmt::format("{} nodes hold {} GPUs; accepted: at most 2^30 GPUs", cluster.nodes, places));
  cluster.world_size = options.gpus > 0 ? options.gpus : static_cast<int>(places);
  require(cluster.world_size <= places, "gpus",
          fmt::format("{} do not fit on {} node{} with {} used GPUs each; accepted: 1 to {}",
                      cluster.world_size, cluster.nodes, cluster.nodes == 1 ? "" : "s", per_node,
                      places));
  require(
      cluster.world_size > places - per_node, "nodes",
      fmt::format("{} nodes are more than {} GPUs need with {} a node; accepted: {}", cluster.nodes,
                  cluster.world_size, per_node, ceil_div(cluster.world_size, per_node)));
}

}  // namespace

std::vector<std::string> network_classes() {
  return TomlTable::from_text(catalog::embedded_text(networks_file),
                              "catalog/" + std::string(networks_file))
      .keys();
}

Cluster make_cluster(Machine machine, const ClusterOptions& options) {
  Cluster cluster;
  cluster.machine = std::move(machine);
  size_cluster(options, cluster);

  const bool has_nic = !cluster.machine.nics.empty();
  require(cluster.nodes == 1 || has_nic, options.nodes > 0 ? "nodes" : "gpus",
          fmt::format("{} has no NIC, so it cannot be one of {} nodes; accepted: 1 node ({} GPUs), "
                      "or a machine with NICs",
                      cluster.machine.name, cluster.nodes, cluster.machine.gpus.size()));
  const std::string no_nic =
      fmt::format("{} has no NIC; accepted: a machine with NICs", cluster.machine.name);
  require(has_nic || !options.nic_gbps, "nic_gbps", no_nic);
  require(has_nic || !options.network, "network", no_nic);

  Fabric& fabric = cluster.fabric;
  fabric.network = cluster.machine.network;
  if (options.network) {
    const std::vector<std::string> known = network_classes();
    bool found = false;
    for (const std::string& name : known) found = found || name == *options.network;
    if (!found) throw not_accepted({"", 0, "network"}, *options.network, known);
    fabric.network = *options.network;
  }
  apply(options, fabric);
  if (fabric.network != "none") fabric.hop_latency_us = hop_latency_us(fabric.network);
  if (fabric.nic_gbps > 0) {
    for (const Vertex nic : cluster.machine.nics) {
      cluster.machine.graph[nic].nic_gbps = fabric.nic_gbps;
    }
  }
  return cluster;
}

}  // namespace stepcast
