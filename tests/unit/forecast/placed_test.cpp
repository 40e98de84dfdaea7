#include "sim/forecast/placed.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/forecast/resolve.hpp"

using namespace stepcast;

namespace {

template <typename Work>
std::string refusal(Work&& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::string resolving(const std::string& text) {
  return refusal([&] { resolve(parse_scenario(text, "job.toml")); });
}

}  // namespace

TEST_CASE("a cluster that cannot be is refused at the line that says so") {
  const std::string model = "strategy = \"ddp\"\nmodel = \"gpt2\"\ncluster = \"dgx-h100\"\n";
  CHECK(resolving(model + "nodes = 2\ngpus = 17\n") ==
        "job.toml:5: gpus: 17 do not fit on 2 nodes with 8 used GPUs each; accepted: 1 to 16");
  CHECK(refusal([&] {
          resolve_cluster(parse_scenario(model + "nodes = 2\ngpus = 17\n", "job.toml"));
        }).find("job.toml:5: gpus: 17 do not fit") == 0);
  CHECK(resolving(model + "gpus_per_node = 9\n").find("job.toml:4: gpus_per_node: 9") == 0);
}

TEST_CASE("where a key follows from another, the other's line is named") {
  // Eight GPUs of a machine of two are four nodes, which nobody said.
  const Scenario s = parse_scenario("model = \"gpt2\"\ngpus = 8\n", "job.toml");
  CHECK(std::string(at_its_place(s, InputError("nodes: 4 are too many")).what()) ==
        "job.toml:2: gpus: nodes: 4 are too many");
  const std::string text =
      resolving("strategy = \"ddp\"\nmodel = \"gpt2\"\ncluster = \"rtx-3090-2x\"\ngpus = 8\n");
  CHECK(text.find("job.toml:4: gpus: rtx-3090-2x has no NIC") == 0);
}

TEST_CASE("an error that has its place, or a key that nobody said, stays as it is") {
  const Scenario s = parse_scenario("model = \"gpt2\"\nwrap = \"block\"\n", "job.toml");
  CHECK(std::string(at_its_place(s, InputError("a.toml:3: wrap: no")).what()) ==
        "a.toml:3: wrap: no");
  CHECK(std::string(at_its_place(s, InputError("strange: no")).what()) == "strange: no");
  CHECK(std::string(at_its_place(s, InputError("no key")).what()) == "no key");
  CHECK(std::string(at_its_place(s, InputError("wrap: no")).what()) == "job.toml:2: wrap: no");
}
