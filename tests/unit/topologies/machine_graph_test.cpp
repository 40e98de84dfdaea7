// A machine written device by device reads back the same; what is odd about one is named.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "topologies/drawing.hpp"
#include "topologies/machine_writer.hpp"
#include "topologies/odd_things.hpp"
#include "topologies/topology.hpp"

using namespace stepcast;

namespace {

const std::string head =
    "full_name = \"test\"\ngpu = \"l40s\"\ngpus = 2\nnetwork = \"roce\"\nsource = \"test\"\n"
    "[graph]\ndevices = [\n"
    "  { name = \"cpu0\", arch = \"x86_64\", vendor = \"AuthenticAMD\", family = 25, model = 1 },\n"
    "  { name = \"pcie0\" }, { name = \"gpu0\" }, { name = \"gpu1\" },\n"
    "  { name = \"nic0\", gbit_per_s = 200, guid = \"0x9a70500003ae6d94\" },\n]\nlinks = [\n";
const std::string links =
    "  { a = \"pcie0\", b = \"cpu0\", kind = \"pcie\", generation = 4 },\n"
    "  { a = \"gpu0\", b = \"pcie0\", kind = \"pcie\", generation = 4, width = 16 },\n"
    "  { a = \"gpu1\", b = \"cpu0\", kind = \"pcie\", generation = 4, width = 8 },\n"
    "  { a = \"nic0\", b = \"pcie0\", kind = \"pcie\", generation = 3 },\n";

std::string refusal(const std::string& text) {
  try {
    parse_machine(text, "m.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool says(const std::vector<OddThing>& odd, const std::string& part) {
  for (const OddThing& thing : odd) {
    if (contains(thing.what, part)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("every machine of the catalog, written as a graph, reads back to the same text") {
  for (const std::string& name : catalog_machines()) {
    CAPTURE(name);
    const Machine machine = load_machine(name);
    const std::string text = to_toml(machine);
    const Machine again = parse_machine(text, "again.toml");
    CHECK(to_toml(again) == text);
    CHECK(again.host_memory_bytes == doctest::Approx(machine.host_memory_bytes));
    CHECK(boost::num_edges(again.graph) == boost::num_edges(machine.graph));
  }
}

TEST_CASE("a graph says what the tables cannot: a narrow link, a guid of 64 bits") {
  const Machine m = parse_machine(head + links + "]\n", "m.toml");
  CHECK(m.gpus.size() == 2);
  CHECK(m.host_memory_bytes == 0);  // not known
  CHECK(m.graph[m.nics[0]].nic_guid == 0x9a70500003ae6d94ull);
  for (const auto edge : boost::make_iterator_range(boost::out_edges(m.gpus[1], m.graph))) {
    CHECK(m.graph[edge].gbps == doctest::Approx(15.754).epsilon(0.001));  // Gen4 x8
  }
}

TEST_CASE("what is wrong with a graph is said in one line") {
  CHECK(contains(refusal(head + "]\n"), "hangs on no CPU"));
  CHECK(contains(refusal(head + links +
                         "{ a = \"gpu0\", b = \"cpu0\", kind = \"pcie\", "
                         "generation = 4 },\n]\n"),
                 "hangs below two"));
  CHECK(contains(refusal(head + links +
                         "{ a = \"cpu0\", b = \"gpu0\", kind = \"nvlink\", "
                         "count = 4 },\n]\n"),
                 "cpu0 cannot have such a link"));
  CHECK(contains(refusal(head + "{ a = \"gpu7\", b = \"cpu0\", kind = \"pcie\", generation = 4 },"
                                "\n]\n"),
                 "'gpu7' is not among the devices"));
  CHECK(contains(refusal(head + "{ a = \"gpu0\", b = \"cpu0\", kind = \"pci\", generation = 4 },"
                                "\n]\n"),
                 "did you mean 'pcie'"));
  // Switches that hang on each other.
  CHECK(contains(
      refusal("full_name = \"t\"\ngpu = \"l40s\"\ngpus = 1\nnetwork = \"none\"\nsource = \"t\"\n"
              "[graph]\ndevices = [{ name = \"gpu0\" }, { name = \"pcie0\" }, { name = \"pcie1\" "
              "}]\nlinks = [{ a = \"gpu0\", b = \"pcie0\", kind = \"pcie\", generation = 4 },"
              "{ a = \"pcie0\", b = \"pcie1\", kind = \"pcie\", generation = 4 },"
              "{ a = \"pcie1\", b = \"pcie0\", kind = \"pcie\", generation = 4 }]\n"),
      "hangs on no CPU"));
}

TEST_CASE("odd things are named: narrow and old links, far NICs, no peer access, uneven rails") {
  const std::vector<OddThing> odd = odd_things(parse_machine(head + links + "]\n", "m.toml"));
  CHECK(says(odd, "gpu1 - cpu0: x8 instead of x16"));
  CHECK(says(odd, "nic0: 200 Gb/s on Gen3 x16"));  // 15.75 GB/s = 126 Gb/s
  CHECK(says(odd, "GPU 1: no near NIC, the nearest is PHB away"));
  CHECK(says(odd, "no P2P between GPUs 0-1: PHB away"));
  CHECK(says(odd, "asymmetric rails: GPU 0 PIX of one NIC; GPU 1 PHB of one NIC"));
  CHECK(odd.size() == 5);
}

TEST_CASE("a DGX has nothing odd") {
  CHECK(odd_things(load_machine("dgx-h100")).empty());
  CHECK(odd_things(load_machine("dgx-a100")).empty());
}

TEST_CASE("pictures hold every device once") {
  const Machine m = load_machine("dgx-h100");
  const std::string dot = to_dot(m);
  const std::string svg = to_svg(m);
  for (const char* name : {"gpu7", "nic7", "cpu1", "nvswitch0"}) {
    CAPTURE(name);
    CHECK(contains(dot, std::string("  ") + name + " [label="));
    CHECK(contains(svg, std::string(">") + name));
  }
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  // Two CPUs, eight switches, eight GPUs, eight NICs, one NVSwitch.
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos;
       at = svg.find("<rect", at + 1)) {
    ++boxes;
  }
  CHECK(boxes == 27);
}
