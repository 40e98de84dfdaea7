// Schedules in their text form: what is read is written and reads the same.

#include "sim/schedule/problems.hpp"
#include "sim/schedule/text.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    const Schedule schedule = parse_schedule(text, "fuzz");
    const std::string written = to_text(schedule);
    if (to_text(parse_schedule(written, "written")) != written) std::abort();
    problems(schedule);
  });
}
