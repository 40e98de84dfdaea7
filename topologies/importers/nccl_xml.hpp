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

#include "topologies/topology.hpp"

namespace stepcast {

// gpu: a name of the GPU catalog, or "" where only the topology matters (then the machine's Gpu has
// a compute capability and nothing else). Throws InputError naming the file, the element and what
// is accepted: for a file that is not XML or not a system, that lists no GPU (partial files of
// cloud providers do), that names a GPU of another compute capability, or whose numbers make no
// sense.
Machine read_nccl_xml(const std::string& path, const std::string& gpu = "");

}  // namespace stepcast
