#pragma once
// Reads the topology file that NCCL itself reads and writes (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE):
// CPUs, PCIe tree, GPUs with their NVLinks, NICs. The file knows a GPU's compute capability but not
// its memory or peaks: name the GPU to get those too.
//
//   Machine machine = read_nccl_xml("topo.xml", "h100-sxm");
//
// Devices keep the order of the file, on which NCCL's search depends. Tested by
// tests/unit/collectives on real files and by tests/unit/importers on broken ones.

#include <string>

#include "topologies/importers/import.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

// gpu: a name of the GPU catalog, or "" where only the topology matters (then the machine's Gpu has
// a compute capability and nothing else). Throws InputError naming the file, the element and what
// is accepted: for a file that is not XML or not a system, that lists no GPU (partial files of
// cloud providers do), that names a GPU of another compute capability, or whose numbers make no
// sense.
Machine read_nccl_xml(const std::string& path, const std::string& gpu = "");

// As import.hpp says. Files of cloud providers that list only CPUs and PCI devices are completed:
// what is a GPU and what a NIC comes from the PCI class, which GPU from the device id or --gpu, the
// NICs' speed from --nic-speed, the NVLinks from the GPU's form.
Imported read_nccl_xml_text(const std::string& text, const std::string& file,
                            const ImportOptions& options);

// One graph of NCCL_GRAPH_DUMP_FILE: what NCCL's search found.
struct DumpedGraph {
  int id = 0;       // 0 ring, 1 tree, 2 and 4 CollNet, 3 NVLS
  int pattern = 0;  // 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct
  int line = 0;     // of the file
  int declared_channels = -1;             // "nchannels"; -1: not said
  double gbps_intra = 0, gbps_inter = 0;  // per channel
  std::string type_intra, type_inter;
  int cross_nic = 0;
  bool same_channels = false;
  double latency_inter_us = 0;
  struct Channel {
    int line = 0;
    std::vector<int> nics, gpus;
  };
  std::vector<Channel> channels;
};
bool is_nccl_graph(const std::string& text);
// Throws InputError where the text is no graph dump.
std::vector<DumpedGraph> read_nccl_graph(const std::string& text, const std::string& file);

}  // namespace stepcast
