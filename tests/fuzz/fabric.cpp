// Slurm's topology.conf and ibnetdiscover's output; what is read is written as a scenario's keys
// that load.

#include "sim/forecast/scenario.hpp"
#include "tests/fuzz/target.hpp"
#include "topologies/importers/fabric_import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    is_fabric(text);
    const ImportedFabric fabric = import_fabric_text(text, "fuzz");
    std::vector<std::string> comments = fabric.notes;
    comments.push_back(describe(fabric));
    parse_scenario(to_toml(fabric, comments), "written.toml");
  });
}
