#include "tests/unit/strategies/schedule_golden.hpp"

#include <doctest/doctest.h>

#include "base/toml.hpp"
#include "sim/schedule/text.hpp"

namespace stepcast::testing {

void check_golden(const Schedule& schedule, const std::string& name) {
  const std::string text = to_text(schedule);
  const std::string path = std::string(STEPCAST_TEST_DATA) + "/golden/" + name + ".txt";
  std::string expected;
  try {
    expected = read_file(path);
  } catch (const InputError&) {
    expected = "there is no such file";
  }
  const bool same = text == expected;  // the texts are too long to print
  if (!same) write_file("golden-" + name + ".txt", text);
  INFO(path << ": the new text is in golden-" << name << ".txt of the working directory");
  CHECK(same);
  CHECK(equal(parse_schedule(text, name), schedule));
}

}  // namespace stepcast::testing
