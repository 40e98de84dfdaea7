#pragma once
// A topology imported from a text, and what its refusal says.

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "topologies/importers/import.hpp"

namespace stepcast {

inline ImportOptions with(const std::string& gpu, std::vector<double> nic_gbit = {}) {
  ImportOptions options;
  options.gpu = gpu;
  options.nic_gbit = std::move(nic_gbit);
  return options;
}

// "accepted" where it is taken.
inline std::string refused_text(const std::string& text, const ImportOptions& options) {
  try {
    import_topology_text(text, "t", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace stepcast
