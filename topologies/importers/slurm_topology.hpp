#pragma once
// Slurm's topology.conf and topology.yaml as the same declarations, so that what they refuse is the
// same. slurm_conf.cpp and slurm_yaml.cpp read them, slurm_topology.cpp makes the graph.

#include <map>
#include <string>
#include <vector>

#include "topologies/importers/fabric_import.hpp"

namespace stepcast::importing {

// A switch or a block. Keys are topology.conf's, in lower case.
struct Declaration {
  int line = 0;
  std::map<std::string, std::string> values;
  std::string first;  // key
};

bool is_slurm_conf(const std::string& text);
std::vector<Declaration> slurm_conf_declarations(const std::string& text, const std::string& file);

bool is_slurm_yaml(const std::string& text);
// Of the topology that is the cluster's default; what was chosen goes into the notes.
std::vector<Declaration> slurm_yaml_declarations(const std::string& text, const std::string& file,
                                                 ImportedFabric& fabric);

}  // namespace stepcast::importing
