// The matrix of nvidia-smi as logs and pages hand it on, and what its NV# and its GPU say of
// NVSwitches and of the host.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "tests/unit/importers/importing.hpp"
#include "topologies/paths.hpp"

using namespace stepcast;

namespace {

bool noted(const Imported& in, const std::string& part) {
  return std::any_of(in.notes.begin(), in.notes.end(),
                     [&](const std::string& note) { return contains(note, part); });
}

// `gpus` GPUs on one CPU, the same cell between all of them.
std::string alike(int gpus, const std::string& cell) {
  std::string text;
  for (int b = 0; b < gpus; ++b) text += fmt::format("\tGPU{}", b);
  text += "\tCPU Affinity\tNUMA Affinity\n";
  for (int a = 0; a < gpus; ++a) {
    text += fmt::format("GPU{}", a);
    for (int b = 0; b < gpus; ++b) text += "\t" + (a == b ? std::string(" X ") : cell);
    text += "\t0-31\t0\n";
  }
  return text;
}

int nvlinks_of(const Machine& m, std::size_t gpu) {
  int links = 0;
  for (const auto edge : boost::make_iterator_range(boost::out_edges(m.gpus[gpu], m.graph))) {
    if (m.graph[edge].kind == LinkKind::nvlink) links += m.graph[edge].count;
  }
  return links;
}

}  // namespace

TEST_CASE("nvidia-smi: underlines whose ESC a page swallowed or a log wrote out are taken off") {
  for (const std::string esc :
       {"", "\x1b", "^[", "\\x1b", "\\033", "\xef\xbf\xbd", "\xe2\x90\x9b"}) {
    CAPTURE(esc);
    const std::string header = esc + "[4mGPU0\tGPU1\tCPU Affinity" + esc + "[0m\n";
    const std::string last = esc + "[4mGPU0\tGPU1" + esc + "[0m\n";
    const std::string rows = "GPU0\t X \tPIX\t0-15\nGPU1\tPIX\t X \t0-15\n";
    CHECK(import_topology_text("\t" + header + rows, "t", with("l40s")).machine.gpus.size() == 2);
    CHECK(import_topology_text(header + rows, "t", with("l40s")).machine.gpus.size() == 2);
    CHECK(import_topology_text(last + rows, "t", with("l40s")).machine.gpus.size() == 2);
  }
}

TEST_CASE("nvidia-smi: the times of a log before each line are no part of it") {
  const std::string lines[] = {"\tGPU0\tGPU1\tNIC0\tCPU Affinity", "GPU0\t X \tSYS\tPIX\t0-15",
                               "GPU1\tSYS\t X \tSYS\t16-31", "NIC0\tPIX\tSYS\t X ",
                               "  NIC0: mlx5_0"};
  for (const char* before :
       {"2026-11-30T20:00:0{}.123456789Z ", "2026-11-30T20:00:0{}.1Z stdout F ",
        "2026-11-30 20:00:0{},123 INFO ", "2026-11-30 20:00:0{},123 - INFO - ",
        "[2026-11-30 20:00:0{}] ", "[pod/worker-0/main] 2026-11-30T20:00:0{}Z ",
        "2026-11-30T20:00:0{}+00:00 0: "}) {
    CAPTURE(before);
    std::string text;
    int second = 0;
    for (const std::string& line : lines) {
      text += fmt::format(fmt::runtime(before), second++) + line + "\n";
    }
    const Machine m = import_topology_text(text, "t", with("l40s", {200})).machine;
    REQUIRE(m.gpus.size() == 2);
    REQUIRE(m.nics.size() == 1);
    CHECK(find_path(m, m.gpus[0], m.nics[0])->type == PathType::pcie_switch);
    CHECK(find_path(m, m.gpus[0], m.gpus[1])->type == PathType::socket);
    CHECK(m.graph[m.nics[0]].product == "mlx5_0");
  }
}

TEST_CASE(
    "nvidia-smi: a matrix of another machine below the first is refused, -mp below -m is not") {
  const std::string first = alike(4, "NV4");
  CHECK(refused_text(first + first, with("a100-sxm-40gb")) == "accepted");
  CHECK(refused_text(first + alike(4, "PIX"), with("a100-sxm-40gb")) == "accepted");
  CHECK(refused_text(first + alike(2, "PIX"), with("a100-sxm-40gb")) ==
        "t:6: has 2 columns, others than the matrix of line 1: another machine's; accepted: the "
        "matrix of one machine");
  CHECK(refused_text(alike(2, "PIX") + alike(2, "SYS"), with("l40s")) ==
        "t:5: says 'SYS' from GPU0 to GPU1, something else than the matrix of line 1: another "
        "machine's; accepted: the matrix of one machine");
}

TEST_CASE("nvidia-smi: NVSwitches get as many links of a GPU as the text says") {
  // H800 is an H100 with 8 of its 18 NVLinks: 8 * 7 are more than 18, so they go to switches.
  const Imported h800 = import_topology_text(alike(8, "NV8"), "t", with("h100-sxm"));
  CHECK(h800.machine.has_nvswitch());
  CHECK(nvlinks_of(h800.machine, 5) == 8);
  CHECK(noted(h800, "NV8 between all GPUs, but h100-sxm has 18 NVLinks: the text's 8 taken"));
  CHECK(nvlinks_of(import_topology_text(alike(8, "NV18"), "t", with("h100-sxm")).machine, 0) == 18);
  CHECK(nvlinks_of(import_topology_text(alike(16, "NV6"), "t", with("v100-sxm2-32gb")).machine,
                   15) == 6);
}

TEST_CASE("nvidia-smi: two GPUs with all their links between them have switches, unless bridged") {
  const auto switched = [](const char* cell, const char* gpu) {
    return import_topology_text(alike(2, cell), "t", with(gpu)).machine.has_nvswitch();
  };
  CHECK(switched("NV18", "h100-sxm"));  // two of a container's eight
  CHECK(switched("NV12", "a100-sxm-80gb"));
  CHECK_FALSE(switched("NV12", "a100-pcie-80gb"));  // three bridges
  CHECK_FALSE(switched("NV12", "h100-nvl"));
  CHECK_FALSE(switched("NV4", "rtx-3090"));
  CHECK_FALSE(switched("NV4", "a100-sxm-40gb"));  // two of a board of four
  CHECK_FALSE(switched("NV18", "gh200-96gb"));    // GH200 NVL2
  ImportOptions direct = with("h100-sxm");
  direct.nvlink = "all_to_all";
  const Machine m = import_topology_text(alike(2, "NV18"), "t", direct).machine;
  CHECK_FALSE(m.has_nvswitch());
  CHECK(nvlinks_of(m, 0) == 18);
}

TEST_CASE("nvidia-smi: Grace comes with its GPU, nothing else is assumed then") {
  const Imported in = import_topology_text(alike(4, "NV18"), "t", with("gb200"));
  CHECK_FALSE(noted(in, "AMD"));
  CHECK(in.machine.has_nvswitch());
  int hosts = 0;
  for (const Vertex v : boost::make_iterator_range(boost::vertices(in.machine.graph))) {
    if (in.machine.graph[v].kind != DeviceKind::cpu) continue;
    CHECK(in.machine.graph[v].cpu_arch == "aarch64");
    ++hosts;
  }
  CHECK(hosts == 1);
  CHECK(noted(import_topology_text(alike(2, "SYS"), "t", with("l40s")), "AMD EPYC host assumed"));
}

TEST_CASE(
    "nvidia-smi: C2C goes to the CPU where a NIC's switch is between it and the GPU (GB300)") {
  const std::string text =
      "\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tNV18\tPIX\tNODE\nGPU1\tNV18\t X \tNODE\tPIX\n"
      "NIC0\tPIX\tNODE\t X \tNODE\nNIC1\tNODE\tPIX\tNODE\t X \n";
  const Machine m = import_topology_text(text, "t", with("gb300", {800})).machine;
  int links = 0;
  for (const auto edge : boost::make_iterator_range(boost::out_edges(m.gpus.at(0), m.graph))) {
    if (m.graph[edge].kind != LinkKind::c2c) continue;
    ++links;
    CHECK(m.graph[boost::target(edge, m.graph)].kind == DeviceKind::cpu);
  }
  CHECK(links == 1);
  CHECK(find_path(m, m.gpus[0], m.nics[0])->type == PathType::pcie_switch);
}

TEST_CASE("a partial file's NVLinks: cards of PCIe have none assumed, trays of a rack NVSwitches") {
  const auto file = [](int gpus) {
    std::string text = "<system><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">";
    for (int g = 0; g < gpus; ++g) {
      text += fmt::format("<pci busid=\"0000:0{}:00.0\" class=\"0x030200\" link_width=\"16\"/>", g);
    }
    return text + "</cpu></system>";
  };
  CHECK_FALSE(import_topology_text(file(8), "t", with("h100-nvl")).machine.has_nvswitch());
  CHECK(import_topology_text(file(8), "t", with("h100-sxm")).machine.has_nvswitch());
  CHECK(nvlinks_of(import_topology_text(file(4), "t", with("gb200")).machine, 3) == 18);
}
