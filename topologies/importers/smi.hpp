#pragma once
// Reads what `nvidia-smi topo -m` prints: see smi.cpp.

#include <string>

#include "topologies/importers/import.hpp"

namespace stepcast {

Imported read_smi_text(const std::string& text, const std::string& file,
                       const ImportOptions& options);

}  // namespace stepcast
