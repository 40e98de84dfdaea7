#include "sim/forecast/command_line.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

TEST_CASE(
    "a scenario is a command, flags in the order of the keys, quoted where a shell would ask") {
  Scenario s;
  s.model = "gpt2";
  s.nodes = 2;
  s.cluster = "dgx-h100";
  s.reshard_after_forward = YesNoOrCount{false, 0};
  s.unused_parameters = std::vector<std::string>{"*h.3.ln_1.*", "b"};
  CHECK(command_of(s) ==
        "stepcast simulate --model gpt2 --cluster dgx-h100 --nodes 2 --unused-parameters "
        "'*h.3.ln_1.*,b' --reshard-after-forward false");
  CHECK(command_of(Scenario{}, "explain") == "stepcast explain");
}

TEST_CASE("a path of a scenario file is written from where one stands") {
  const Scenario s =
      parse_scenario("model = \"config.json\"\nprofile = \"mine.toml\"\n", "jobs/job.toml");
  CHECK(command_of(s) == "stepcast simulate --model jobs/config.json --profile jobs/mine.toml");
}
