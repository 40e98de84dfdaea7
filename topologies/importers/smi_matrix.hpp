#pragma once
// The text of `nvidia-smi topo -m` as a matrix of distances; what is built from it: smi.cpp.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stepcast {

enum class Near : std::uint8_t { self, pix, pxb, phb, node, sys, nvlink, unknown };

struct SmiCell {
  Near near = Near::unknown;
  int links = 0;  // of NV#
};

struct SmiMatrix {
  std::vector<std::string> names;  // columns
  std::vector<bool> gpu;           // a GPU, else a NIC
  std::vector<std::vector<SmiCell>> cells;
  std::vector<std::string> affinity;          // of GPU rows: CPU and NUMA columns; "": not known
  std::map<std::string, std::string> legend;  // "NIC0": "mlx5_0"
  int header_line = 0;
};

// Complete and symmetric, or an InputError that names the line. `others`: what else the caller
// would have taken, for messages.
SmiMatrix read_smi_matrix(const std::string& text, const std::string& file,
                          const std::string& others = {});

}  // namespace stepcast
