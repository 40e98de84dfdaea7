// Tables of measured times; a question to each.

#include "sim/collectives/measured.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    const MeasuredTable table = MeasuredTable::from_text(text, "fuzz");
    for (const Bytes bytes : {Bytes{1}, Bytes{4096}, Bytes{1} << 40}) {
      const auto found = table.find(CollectiveKind::all_reduce, 8, 1, bytes);
      if (found && !(found->seconds >= 0)) std::abort();
    }
  });
}
