// A job file of another framework, read, combined, and written as a scenario that must read back.

#include "sim/jobs/combine.hpp"
#include "sim/jobs/detect.hpp"
#include "sim/jobs/emit.hpp"
#include "sim/jobs/scenario_text.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    const jobs::Job job = jobs::parse_job(text, "fuzz");
    const jobs::Combined combined =
        jobs::combine({job}, Scenario{}, {.ignore_unsupported = true, .ask = true});
    check_ranges(combined.scenario);
    try {
      parse_scenario(jobs::scenario_text(combined), "written");
    } catch (const InputError& error) {
      throw std::logic_error(std::string("written, but not read: ") + error.what());
    }
    if (!combined.scenario.strategy) return;
    for (const std::string& format : jobs::emit_formats()) {
      std::string emitted;
      try {
        emitted = jobs::emit(combined.scenario, format);
      } catch (const InputError&) {
        continue;
      }
      jobs::parse_job(emitted, "emitted");
    }
  });
}
