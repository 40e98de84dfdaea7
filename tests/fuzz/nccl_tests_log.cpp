// Logs of nccl-tests, text and JSON: what is read becomes a table that is written and read again.

#include "sim/collectives/nccl_tests_log.hpp"

#include "sim/collectives/measured.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    MeasuredTable table;
    for (const NcclTestsLog& log :
         read_nccl_tests_log(text, "fuzz", {.ranks = 8, .nodes = 1, .op = "all_reduce"})) {
      table.add(log);
    }
    const std::string toml = table.to_toml();
    if (MeasuredTable::from_text(toml, "written.toml").to_toml() != toml) std::abort();
  });
}
