// NCCL_GRAPH_DUMP_FILE, and the same as NCCL_GRAPH_FILE.

#include "sim/collectives/nccl/graph_file.hpp"
#include "tests/fuzz/target.hpp"
#include "topologies/importers/nccl_xml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return stepcast::fuzz::run(data, size, [](const std::string& text) {
    if (stepcast::is_nccl_graph(text)) stepcast::read_nccl_graph(text, "fuzz");
    stepcast::nccl::parse_graph_file(text, "fuzz");
  });
}
