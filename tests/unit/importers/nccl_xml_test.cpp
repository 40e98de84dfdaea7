// What the reader of NCCL topology files makes of good, odd and broken input.

#include "topologies/importers/nccl_xml.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "tests/unit/importers/importing.hpp"

using namespace stepcast;

namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("stepcast_nccl_xml_" + std::to_string(::getpid()) + ".xml")) {
    write_file(path_.string(), text);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

const std::string head =
    "<system version=\"1\">\n"
    "  <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n";
const std::string tail = "  </cpu>\n</system>\n";

std::string gpu(const std::string& bus, const std::string& attributes,
                const std::string& inside = "") {
  return "    <pci busid=\"" + bus + "\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n" +
         "      <gpu " + attributes + ">" + inside + "</gpu>\n    </pci>\n";
}

std::string message(const std::string& text, const std::string& name = "") {
  const TemporaryFile file(text);
  try {
    read_nccl_xml(file.path(), name);
  } catch (const InputError& error) {
    const std::string what = error.what();
    CHECK(what.find(file.path()) != std::string::npos);
    CHECK(what.find('\n') == std::string::npos);
    return what;
  }
  return "accepted";
}

ImportOptions options(const std::vector<double>& nic_gbit) {
  ImportOptions options;
  options.gpu = "a100-sxm-40gb";
  options.nic_gbit = nic_gbit;
  return options;
}

}  // namespace

TEST_CASE("two bridged GPUs and a NIC are read with their links") {
  const std::string nic =
      "    <pci busid=\"0000:03:00.0\" link_speed=\"\" link_width=\"0\">\n      <nic>\n"
      "        <net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0x5\" "
      "gdr=\"1\"/>\n"
      "      </nic>\n    </pci>\n";
  const TemporaryFile file(
      head +
      gpu("0000:01:00.0", "dev=\"0\" sm=\"86\"",
          "<nvlink target=\"0000:02:00.0\" count=\"4\" tclass=\"0x030000\"/>") +
      gpu("0000:02:00.0", "dev=\"1\" sm=\"86\"",
          "<nvlink target=\"0000:01:00.0\" count=\"4\" tclass=\"0x030000\"/>") +
      nic + tail);
  const Machine machine = read_nccl_xml(file.path());
  CHECK(machine.gpus.size() == 2);
  REQUIRE(machine.nics.size() == 1);
  CHECK(machine.gpu.compute_capability == 86);
  CHECK(machine.graph[machine.nics[0]].nic_gbps == doctest::Approx(25));
  CHECK_FALSE(machine.has_nvswitch());
  const auto [bridge, found] = boost::edge(machine.gpus[0], machine.gpus[1], machine.graph);
  REQUIRE(found);
  CHECK(machine.graph[bridge].count == 4);  // both ends list it: once
  for (const auto edge :
       boost::make_iterator_range(boost::out_edges(machine.nics[0], machine.graph))) {
    CHECK(machine.graph[edge].pcie_generation == 3);  // an empty speed, as NCCL takes it
    CHECK(machine.graph[edge].pcie_width == 16);
  }
}

TEST_CASE("a GPU of the catalog lends the machine its memory and peaks") {
  const TemporaryFile file(head + gpu("0000:01:00.0", "dev=\"0\" sm=\"90\"") + tail);
  const Machine machine = read_nccl_xml(file.path(), "h100-sxm");
  CHECK(machine.gpu.sm_count == 132);
}

TEST_CASE("what is wrong with a file is said in one line") {
  CHECK(contains(message(""), "not valid XML"));
  CHECK(contains(message("<system><cpu></system>"), "not valid XML"));
  CHECK(contains(message("<graphs version=\"1\"/>"), "NCCL_TOPO_DUMP_FILE"));
  CHECK(contains(message(head + tail), "lists no <gpu>"));
  CHECK(contains(message(head + gpu("a", "dev=\"0\"") + tail), "gpu.sm"));
  CHECK(contains(message(head + gpu("a", "dev=\"0\" sm=\"many\"") + tail), "\"many\""));
  CHECK(contains(message(head + gpu("a", "dev=\"-1\" sm=\"80\"") + tail), "gpu.dev"));
  CHECK(contains(message(head + gpu("a", "dev=\"0\" sm=\"1e99\"") + tail), "gpu.sm"));
  CHECK(contains(
      message(head + gpu("a", "dev=\"0\" sm=\"80\"") + gpu("b", "dev=\"1\" sm=\"90\"") + tail),
      "all GPUs of a machine being alike"));
  CHECK(contains(message(head + gpu("a", "dev=\"0\" sm=\"80\"") + tail, "h100-sxm"), "h100-sxm"));
  CHECK(contains(
      message(head + gpu("a", "dev=\"0\" sm=\"80\"") + gpu("a", "dev=\"1\" sm=\"80\"") + tail),
      "pci.busid: is a, as of another GPU"));
  CHECK(contains(message(head +
                         gpu("a", "dev=\"0\" sm=\"80\"",
                             "<nvlink target=\"b\" count=\"0\" tclass=\"0x068000\"/>") +
                         tail),
                 "nvlink.count"));
}

TEST_CASE("two GPUs of one number are refused, but where every GPU has the same") {
  const auto numbered = [](const std::vector<const char*>& numbers) {
    std::string text = head, bus = "a";
    for (const char* number : numbers) {
      text += gpu(bus, std::string("dev=\"") + number + "\" sm=\"80\"");
      ++bus[0];
    }
    return text + tail;
  };
  CHECK(message(numbered({"1", "0", "2"})) == "accepted");
  CHECK(contains(message(numbered({"0", "1", "1"})),
                 ".xml:10: gpu.dev: is 1, as of another GPU; accepted: a number each"));
  // A GPU a container: each says 0 of its own.
  const Imported all = read_nccl_xml_text(numbered({"0", "0", "0"}), "x", options({}));
  CHECK(all.machine.gpus.size() == 3);
  REQUIRE(all.notes.size() == 1);
  CHECK(all.notes[0] == "all 3 GPUs say dev=\"0\": they are numbered as in the file");
}

TEST_CASE("a NIC without a speed has 10 Gb/s, as in NCCL, and that is said") {
  const auto imported = [](const std::string& speed, const std::vector<double>& gbit) {
    const std::string net = "<net name=\"mlx5_0\" dev=\"0\"" + speed + " port=\"1\"/>";
    const std::string nic =
        "    <pci busid=\"0000:03:00.0\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n"
        "      <nic>" +
        net + net + "</nic>\n    </pci>\n";
    return read_nccl_xml_text(head + gpu("a", "dev=\"0\" sm=\"80\"") + nic + tail, "x",
                              options(gbit));
  };
  for (const char* speed : {" speed=\"-5\"", " speed=\"0\"", ""}) {
    CAPTURE(speed);
    const Imported i = imported(speed, {});
    CHECK(i.machine.graph[i.machine.nics.at(0)].nic_gbps == doctest::Approx(1.25));
    REQUIRE(i.notes.size() == 1);
    CHECK(i.notes[0] ==
          "2 NICs have no speed above 0 in the file: 10 Gb/s taken, as NCCL does; --nic-speed says "
          "otherwise");
    CHECK(imported(speed, {200}).notes.empty());
  }
  CHECK(imported(" speed=\"200000\"", {}).notes.empty());
}

TEST_CASE("the line of an error is the element's") {
  const std::string text = head + gpu("a", "dev=\"0\" sm=\"many\"") + tail;
  CHECK(contains(message(text), ".xml:4: gpu.sm"));
}

TEST_CASE("a tree of switches without end is refused, a missing file named") {
  std::string deep = head;
  for (int i = 0; i < 100; ++i) deep += "<pci busid=\"" + std::to_string(i) + "\">";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  CHECK(contains(message(deep + tail), "nested too deeply"));
  CHECK_THROWS_AS(read_nccl_xml("/no/such/file.xml"), InputError);
}

TEST_CASE("a file cut anywhere is an error or a smaller machine, never a crash") {
  std::string text = head;
  for (int g = 0; g < 4; ++g) {
    text +=
        gpu("0000:0" + std::to_string(g) + ":00.0", "dev=\"" + std::to_string(g) + "\" sm=\"80\"",
            "<nvlink target=\"fffffff:ff:ff.0\" count=\"12\" tclass=\"0x068000\"/>");
  }
  text += tail;
  for (std::size_t length = 0; length < text.size(); length += 7) {
    const std::string what = message(text.substr(0, length));
    CHECK(what != "accepted");
  }
  CHECK(message(text) == "accepted");
}

namespace {

Imported imported(const std::string& text) {
  ImportOptions options;
  options.gpu_required = false;
  return import_topology_text(text, "x", options);
}

int nvlinks(const Machine& m, std::size_t a, DeviceKind to) {
  int links = 0;
  for (const auto edge : boost::make_iterator_range(boost::out_edges(m.gpus.at(a), m.graph))) {
    const bool there = m.graph[boost::target(edge, m.graph)].kind == to;
    if (there && m.graph[edge].kind == LinkKind::nvlink) links += m.graph[edge].count;
  }
  return links;
}

}  // namespace

TEST_CASE("C2C goes from the GPU to the CPU, also where its PCIe comes by a switch") {
  // GB300: the GPU and its NIC are below the NIC's own switch.
  const std::string below =
      "  <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
      "link_width=\"16\">\n" +
      gpu("0000:02:00.0", "dev=\"0\" sm=\"90\"", "<c2c bw=\"44712\" count=\"10\"/>") + "  </pci>\n";
  const Machine m =
      imported("<system>\n<cpu numaid=\"0\" arch=\"arm64\">\n" + below + tail).machine;
  int found = 0;
  for (const auto edge : boost::make_iterator_range(boost::out_edges(m.gpus.at(0), m.graph))) {
    if (m.graph[edge].kind != LinkKind::c2c) continue;
    ++found;
    CHECK(m.graph[boost::target(edge, m.graph)].kind == DeviceKind::cpu);
    CHECK(m.graph[edge].gbps == doctest::Approx(447.12));  // 10 of 44,712 MB/s
  }
  CHECK(found == 1);
}

TEST_CASE("several machines in one file are refused, with the line of the second") {
  const std::string one = head + gpu("a", "dev=\"0\" sm=\"80\"") + tail;
  CHECK(contains(message(one + one),
                 ".xml:8: system: is there twice: the file holds several machines; accepted: one"));
}

TEST_CASE("XML behind a prompt or within quotes is read, and errors keep their lines") {
  const std::string one = head + gpu("a", "dev=\"0\" sm=\"80\"") + tail;
  for (const std::string before : {"```xml\n", "$ cat topo.xml\n", "node1:7:7 [0] NCCL INFO x\n"}) {
    CAPTURE(before);
    CHECK(imported(before + one + "```\n").machine.gpus.size() == 1);
    const std::string wrong = before + head + gpu("a", "dev=\"0\" sm=\"many\"") + tail;
    CHECK_THROWS_WITH_AS(imported(wrong), "x:5: gpu.sm: \"many\" is not a number from 0 to 10000",
                         InputError);
  }
}

TEST_CASE("an NVLink without tclass leads to the GPU it names, or else to NVSwitches, as in NCCL") {
  const auto linked = [](const std::string& of_first, const std::string& of_second) {
    return imported(head + gpu("0000:01:00.0", "dev=\"0\" sm=\"90\"", of_first) +
                    gpu("0000:02:00.0", "dev=\"1\" sm=\"90\"", of_second) + tail);
  };
  const Imported peers = linked("<nvlink target=\"0000:02:00.0\" count=\"4\"/>",
                                "<nvlink target=\"0000:01:00.0\" count=\"4\"/>");
  CHECK(nvlinks(peers.machine, 0, DeviceKind::gpu) == 4);
  CHECK_FALSE(peers.machine.has_nvswitch());
  CHECK(peers.notes.empty());
  const std::string out = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\"/>";
  const Imported switched = linked(out, out);
  CHECK(nvlinks(switched.machine, 0, DeviceKind::nvswitch) == 18);
  CHECK(nvlinks(switched.machine, 1, DeviceKind::nvswitch) == 18);
  REQUIRE(switched.notes.size() == 1);
  CHECK(contains(switched.notes[0], "NVLinks without tclass"));
  // A GPU that takes no part is no switch.
  const std::string absent = "<nvlink target=\"0000:09:00.0\" count=\"4\" tclass=\"0x030200\"/>";
  CHECK_FALSE(linked(absent, absent).machine.has_nvswitch());
}

TEST_CASE("an NVLink that one end alone lists is there, and that is said") {
  const std::string to_first = "<nvlink target=\"0000:01:00.0\" count=\"4\" tclass=\"0x030200\"/>";
  const Imported in = imported(head + gpu("0000:01:00.0", "dev=\"0\" sm=\"86\"") +
                               gpu("0000:02:00.0", "dev=\"1\" sm=\"86\"", to_first) + tail);
  CHECK(nvlinks(in.machine, 0, DeviceKind::gpu) == 4);
  REQUIRE(in.notes.size() == 1);
  CHECK(in.notes[0] == "1 NVLink connection is listed by one end alone: taken for both directions");
}

TEST_CASE("a compute capability that is missing is that of the GPU by its PCI id or its name") {
  const std::string text =
      head +
      "    <pci busid=\"0000:01:00.0\" device=\"0x2329\" link_speed=\"32.0 GT/s PCIe\" "
      "link_width=\"255\">\n      <gpu dev=\"0\"/>\n    </pci>\n" +
      tail;
  const Imported in = imported(text);
  CHECK(in.machine.gpu.name == "h20");
  CHECK(in.machine.gpu.compute_capability == 90);
  for (const auto edge :
       boost::make_iterator_range(boost::out_edges(in.machine.gpus.at(0), in.machine.graph))) {
    CHECK(in.machine.graph[edge].pcie_width == 16);  // 255 lanes are Linux's word for not known
  }
  CHECK(message(head + gpu("a", "dev=\"0\"") + tail, "h100-sxm") == "accepted");
}
