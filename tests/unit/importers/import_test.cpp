// Every topology file at hand imports, or is refused with the true reason; what is imported can be
// written and read back.

#include "topologies/importers/import.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/toml.hpp"
#include "tests/unit/importers/importing.hpp"
#include "topologies/importers/nccl_xml.hpp"
#include "topologies/machine_writer.hpp"
#include "topologies/paths.hpp"

using namespace stepcast;

namespace {

const std::string here = STEPCAST_TEST_DATA "/data/";
const std::string golden = STEPCAST_SOURCE_DIR "/tests/unit/collectives/golden/xml/";

std::string refusal(const std::string& path, const ImportOptions& options) {
  try {
    import_topology(path, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// Devices and links as sorted lines, whatever order a file has them in.
std::multiset<std::string> graph_of(const Machine& m) {
  std::multiset<std::string> lines;
  const std::string toml = to_toml(m);
  std::size_t start = toml.find("[graph]");
  REQUIRE(start != std::string::npos);
  while (start < toml.size()) {
    const std::size_t end = std::min(toml.find('\n', start), toml.size());
    lines.insert(toml.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

void check_round_trip(const Machine& machine) {
  const Machine again = parse_machine(to_toml(machine, {"a comment"}), "again.toml");
  CHECK(graph_of(again) == graph_of(machine));
  CHECK(again.network == machine.network);
  CHECK(again.gpu.name == machine.gpu.name);
  REQUIRE(again.gpus.size() == machine.gpus.size());
  REQUIRE(again.nics.size() == machine.nics.size());
  for (std::size_t a = 0; a < machine.gpus.size(); ++a) {
    for (std::size_t b = 0; b < machine.nics.size(); ++b) {
      const auto before = find_path(machine, machine.gpus[a], machine.nics[b]);
      const auto after = find_path(again, again.gpus[a], again.nics[b]);
      REQUIRE(before.has_value());
      REQUIRE(after.has_value());
      CHECK(before->type == after->type);
      CHECK(before->gbps == doctest::Approx(after->gbps));
    }
  }
}

int nvlinks_of(const Machine& m, std::size_t gpu) {
  int links = 0;
  for (const auto edge : boost::make_iterator_range(boost::out_edges(m.gpus[gpu], m.graph))) {
    if (m.graph[edge].kind == LinkKind::nvlink) links += m.graph[edge].count;
  }
  return links;
}

}  // namespace

TEST_CASE("partial files of cloud providers are completed from --gpu and --nic-speed") {
  struct Row {
    const char* file;
    const char* gpu;
    double nic_gbit;
    std::size_t gpus, nics;
    const char* network;
    int nvlinks;  // of each GPU, to NVSwitches
  };
  const Row rows[] = {{"azure-ndv4-8xA100-topo.xml", "a100-sxm-40gb", 200, 8, 8, "infiniband", 12},
                      {"azure-ndv5-8xH100-topo.xml", "h100-sxm", 400, 8, 8, "infiniband", 18},
                      {"aws-p4d-8xA100-topo.xml", "", 100, 8, 4, "efa", 12},
                      {"aws-p4de-8xA100-topo.xml", "", 100, 8, 4, "efa", 12},
                      {"oci-bm-gpu-b4-8-8xA100-topo.xml", "a100-sxm-40gb", 100, 8, 8, "roce", 12},
                      {"oci-bm-gpu4-8-8xA100-topo.xml", "a100-sxm-40gb", 100, 8, 8, "roce", 12}};
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const Imported in = import_topology(here + "xml/" + row.file, with(row.gpu, {row.nic_gbit}));
    CHECK(in.machine.gpus.size() == row.gpus);
    CHECK(in.machine.nics.size() == row.nics);
    CHECK(in.machine.network == row.network);
    CHECK(in.machine.has_nvswitch());
    CHECK(nvlinks_of(in.machine, 3) == row.nvlinks);
    CHECK(in.machine.graph[in.machine.nics[0]].nic_gbps == doctest::Approx(row.nic_gbit / 8));
    // The NVLinks are assumed, and that is said.
    CHECK(std::any_of(in.notes.begin(), in.notes.end(), [](const std::string& note) {
      return contains(note, "NVLinks are not in the file");
    }));
    check_round_trip(in.machine);
  }
}

TEST_CASE("a partial file without classes is completed from --gpu, --nic-speed and --nics") {
  // Eight GPUs on root ports, four a NUMA node, and the NIC beside the last four: AWS's file has
  // bus ids and nothing else.
  const std::string g5 = here + "xml/aws-g5-8xA10G-topo.xml";
  ImportOptions options = with("a10g", {100});
  options.nics = {"0000:00:15.0"};
  const Imported in = import_topology(g5, options);
  const Machine& m = in.machine;
  REQUIRE(m.gpus.size() == 8);
  REQUIRE(m.nics.size() == 1);
  CHECK(m.graph[m.nics[0]].nic_gbps == doctest::Approx(12.5));
  CHECK(m.network == "ethernet");
  CHECK(find_path(m, m.gpus[0], m.gpus[3])->type == PathType::host_bridge);
  CHECK(find_path(m, m.gpus[0], m.gpus[4])->type == PathType::socket);
  CHECK(find_path(m, m.gpus[7], m.nics[0])->type == PathType::host_bridge);
  // Gen4 x16, as A10G has: 16 lanes of 16 GT/s, 128 of 130 bits.
  CHECK(find_path(m, m.gpus[0], m.gpus[3])->gbps == doctest::Approx(31.508).epsilon(1e-4));
  const auto said = [&](const char* part) {
    return std::any_of(in.notes.begin(), in.notes.end(),
                       [&](const std::string& note) { return contains(note, part); });
  };
  CHECK(said("9 PCIe links have no speed in the file: Gen4 taken, as a10g has"));
  CHECK(said("ethernet taken; --network says otherwise"));
  CHECK(said("2 CPUs have no vendor in the file: AMD EPYC hosts assumed"));
  check_round_trip(m);

  CHECK(contains(refusal(g5, with("a10g", {100})), "accepted: --nics BUSID,..."));
  options.nics = {"0000:00:14.0"};
  CHECK(contains(refusal(g5, options), "--nics: '0000:00:14.0' is not accepted"));
  options.nics = {"0000:00:15.0"};
  options.gpu = "";
  CHECK(contains(refusal(g5, options), "--gpu NAME"));
  options = with("a10g");
  options.nics = {"0000:00:15.0"};
  CHECK(contains(refusal(g5, options), "--nic-speed GBIT"));
  options.nics = {"none"};
  CHECK(import_topology(g5, options).machine.gpus.size() == 9);
  options = with("a100-sxm-40gb", {200});
  options.nics = {"0000:00:15.0"};
  CHECK(contains(refusal(here + "xml/azure-ndv4-8xA100-topo.xml", options),
                 "has no PCI device without a class"));
}

TEST_CASE("what a partial file lacks is named with the option that gives it") {
  const std::string ndv4 = here + "xml/azure-ndv4-8xA100-topo.xml";
  CHECK(contains(refusal(ndv4, {}), "--gpu NAME and --nic-speed GBIT"));
  CHECK(contains(refusal(ndv4, with("a100-sxm-40gb")), "--nic-speed GBIT"));
  CHECK(contains(refusal(ndv4, with("a100-sxm-40gb", {200, 200})), "2 speeds"));
  CHECK(contains(refusal(here + "xml/aws-g5-8xA10G-topo.xml", with("l40s", {100})),
                 "nothing says whether 0000:00:16.0 is a GPU or a NIC"));
}

TEST_CASE("whole NCCL topologies import with a named GPU and read back the same") {
  struct Row {
    const char* file;
    const char* gpu;  // "" where the PCI id says it
    std::size_t gpus, nics;
  };
  const Row rows[] = {{"a100-8xA100-4x100G-p4d-like.xml", "a100-sxm-40gb", 8, 4},
                      {"azure-ncv4-4xA100PCIe-topo.xml", "", 4, 1},
                      {"dgx-a100-8xA100-8x200G.xml", "a100-sxm-80gb", 8, 8},
                      {"dgx-h100-8xH100-8x400G.xml", "h100-sxm", 8, 8},
                      {"gh200-1gpu-200G.xml", "gh200-96gb", 1, 1},
                      {"h20-h100-8gpu-4x400G.xml", "h100-sxm", 8, 4},
                      {"hgx-b200-8xB200-8x400G.xml", "b200", 8, 8},
                      {"oci-bm-gpu-h100-8-k8s-topo.xml", "", 8, 16},
                      {"oci-bm-gpu-h100-8-topo.xml", "", 8, 16},
                      {"one-gpu-a100-200G-pix.xml", "a100-sxm-80gb", 1, 1},
                      {"one-gpu-rtx4090-10Gsocket-phb.xml", "rtx-4090", 1, 1},
                      {"one-gpu-v100-100G-phb.xml", "v100-sxm2-16gb", 1, 1},
                      {"pcie-2xRTX3090-nonvlink-amd.xml", "rtx-3090", 2, 0},
                      {"pcie-2xRTX3090-nv4.xml", "rtx-3090", 2, 0},
                      {"pcie-2xRTX4090-amd.xml", "rtx-4090", 2, 0},
                      {"pcie-2xRTX4090-intel.xml", "rtx-4090", 2, 0},
                      {"pcie-4xA100-amd.xml", "a100-pcie-40gb", 4, 0},
                      {"pcie-8xL40S-intel-2perswitch-1x200G.xml", "l40s", 8, 1},
                      {"pcie-8xL40S-intel-4perswitch-1x200G.xml", "l40s", 8, 1},
                      {"pcie-8xRTX4090-amd-2socket.xml", "rtx-4090", 8, 0},
                      {"pcie-8xRTX4090-intel-icx-2socket.xml", "rtx-4090", 8, 0},
                      {"proteus-dgx1-8xV100-1ib-topo.xml", "", 8, 1},
                      {"proteus-dgx1-8xV100-2ib-topo.xml", "", 8, 2},
                      {"simllm-perlmutter-4xA100-topo.xml", "", 4, 4},
                      {"simllm-vastai-8xH200-topo.xml", "", 8, 2}};
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const Imported in = import_topology(golden + row.file, with(row.gpu));
    CHECK(in.machine.gpus.size() == row.gpus);
    CHECK(in.machine.nics.size() == row.nics);
    CHECK(in.machine.gpu.sm_count > 0);
    check_round_trip(in.machine);
  }
  // Parts the catalog does not have.
  CHECK(
      contains(refusal(golden + "proteus-8xGTX1080Ti-1ib-topo.xml", {}), "compute capability 6.1"));
  CHECK(contains(refusal(golden + "hgx-b300-8xB300-8x800G.xml", {}), "compute capability 10.3"));
  CHECK(contains(refusal(golden + "dgx-h100-8xH100-8x400G.xml", {}), "give --gpu gh200-96gb"));
}

TEST_CASE("an NCCL graph is refused as a machine and read as a graph") {
  for (const char* file : {"azure-ncv4-4xA100PCIe-graph.xml", "simllm-perlmutter-4xA100-graph.xml",
                           "simllm-vastai-8xH200-graph.xml"}) {
    CAPTURE(file);
    CHECK(contains(refusal(here + "xml/" + file, {}), "is a graph that NCCL found"));
    CHECK(is_nccl_graph(read_file(here + "xml/" + file)));
  }
  const std::string path = here + "xml/simllm-perlmutter-4xA100-graph.xml";
  const auto graphs = read_nccl_graph(read_file(path), path);
  REQUIRE(graphs.size() >= 2);
  CHECK(graphs[0].pattern == 4);
  CHECK(graphs[0].channels.size() == 12);
  CHECK(graphs[0].gbps_intra == 20);
  CHECK(graphs[0].channels[0].gpus == std::vector<int>{0, 3, 2, 1});  // "0", "0x3", "0x2", "0x1"
}

TEST_CASE("every nvidia-smi text gives a machine with the distances it prints") {
  struct Row {
    const char* file;
    const char* gpu;
    std::size_t gpus, nics;
    bool nvswitch;
    int nvlinks;  // of GPU 0
  };
  // DGX-1: GPU 0 has NV1 + NV1 + NV2 + NV2 = 6 links.
  const Row rows[] = {{"2xRTX3090-nvlink-bridge-NV4.txt", "rtx-3090", 2, 0, false, 4},
                      {"2xRTX3090-sys-tabs-numa-NA.txt", "rtx-3090", 2, 0, false, 0},
                      {"4gpu-two-nv4-pairs-1nic.txt", "rtx-3090", 4, 1, false, 4},
                      {"4xA100-SXM4-nv4-direct-2nic.txt", "a100-sxm-40gb", 4, 2, false, 12},
                      {"4xL40S-2nic.txt", "l40s", 4, 2, false, 0},
                      {"8xRTX4090-node-sys.txt", "rtx-4090", 8, 0, false, 0},
                      {"dgx1-8xV100-nvlink-hcm.txt", "v100-sxm2-32gb", 8, 1, false, 6},
                      {"h100-8gpu-nonic-ht.txt", "h100-sxm", 8, 0, true, 18},
                      {"hgx-8xA100-10nic.txt", "a100-sxm-80gb", 8, 10, true, 12},
                      {"hgx-8xH100-1nic.txt", "h100-sxm", 8, 1, true, 18},
                      {"mixed-2x4090-A6000-5090-phb.txt", "rtx-4090", 4, 0, false, 0},
                      {"old-format-6gpu-SOC.txt", "titan-rtx", 6, 0, false, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const Imported in =
        import_topology(here + "smi/" + row.file, with(row.gpu, {row.nics > 0 ? 200.0 : 0}));
    CHECK(in.machine.gpus.size() == row.gpus);
    CHECK(in.machine.nics.size() == row.nics);
    CHECK(in.machine.has_nvswitch() == row.nvswitch);
    CHECK(nvlinks_of(in.machine, 0) == row.nvlinks);
    for (const std::string& note : in.notes) CHECK_FALSE(contains(note, "no tree has all"));
    check_round_trip(in.machine);
  }
}

TEST_CASE("nvidia-smi: distances by hand") {
  const Machine m =
      import_topology(here + "smi/4gpu-two-nv4-pairs-1nic.txt", with("rtx-3090", {100})).machine;
  const auto type = [&](std::size_t gpu) { return find_path(m, m.gpus[gpu], m.nics[0])->type; };
  CHECK(type(0) == PathType::socket);
  CHECK(type(2) == PathType::pcie_switches);  // PXB
  CHECK(type(3) == PathType::pcie_switch);    // PIX
  CHECK(find_path(m, m.gpus[0], m.gpus[1])->type == PathType::nvlink);
  CHECK(m.graph[m.nics[0]].product == "mlx5_0");  // of the NIC legend
  CHECK(m.graph[m.nics[0]].nic_gbps == 12.5);
}

TEST_CASE("nvidia-smi: colours, prompts, quotes and missing columns are read") {
  const std::string text =
      "user@host:~$ nvidia-smi topo -m\r\n"
      "\t\x1b[4mGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\x1b[0m\r\n"
      "GPU0\t X \tPIX\tNODE\t0-15\t0\r\n"
      "GPU1\tPIX\t X \tNODE\t0-15\t0\r\n"
      "mlx5_0\tNODE\tNODE\t X \r\n";
  const Machine m = import_topology_text(text, "t", with("l40s", {200})).machine;
  CHECK(m.gpus.size() == 2);
  CHECK(m.nics.size() == 1);
  CHECK(m.network == "infiniband");
  CHECK(find_path(m, m.gpus[0], m.gpus[1])->type == PathType::pcie_switch);
  // A NIC of speed 0 is left out.
  CHECK(import_topology_text(text, "t", with("l40s", {0})).machine.nics.empty());
}

TEST_CASE("nvidia-smi: prefixes of launchers are taken off, another node's lines left out") {
  for (const std::string prefix : {"0: ", " 0:  ", "[1,0]<stdout>:", "node1: ", "[default0]:"}) {
    CAPTURE(prefix);
    const std::string text =
        prefix + "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" + prefix +
        "GPU0\t X \tSYS\tPIX\t0-31,64-95\t0\t\tN/A\n" +
        "1:       GPU0 GPU1 NIC0\n1: GPU0 X PIX PIX\n" + prefix +
        "GPU1\tSYS\t X \tSYS\t32-63,96-127\t1\t\tN/A\n" + prefix + "NIC0\tPIX\tSYS\t X \t\t\t\t\n" +
        prefix + "\n" + prefix + "NIC Legend:\n" + prefix + "  NIC0: bnxt_re0\n";
    const Machine m = import_topology_text(text, "t", with("l40s", {200})).machine;
    CHECK(find_path(m, m.gpus[0], m.gpus[1])->type == PathType::socket);
    CHECK(find_path(m, m.gpus[0], m.nics[0])->type == PathType::pcie_switch);
    CHECK(m.graph[m.nics[0]].product == "bnxt_re0");
    CHECK(m.network == "roce");
  }
}

TEST_CASE("nvidia-smi: lines that a narrow terminal broke are joined") {
  const std::string text =
      "        GPU0    GPU1    GPU2\n"
      "NIC0    mlx5_bond_0     CPU Affinity    NUMA Affinity\n"
      "GPU0     X      NV4     SYS\nPIX     SYS     0-15\n0\n"
      "GPU1    NV4      X      SYS\nSYS     SYS     0-15    0\n"
      "GPU2    SYS     SYS      X \nSYS     PXB     16-31   1\n"
      "NIC0    PIX     SYS     SYS\n X      SYS\n"
      "mlx5_bond_0     SYS     SYS\nPXB     SYS      X\n";
  const Machine m = import_topology_text(text, "t", with("rtx-3090", {200})).machine;
  REQUIRE(m.gpus.size() == 3);
  REQUIRE(m.nics.size() == 2);
  CHECK(find_path(m, m.gpus[2], m.nics[1])->type == PathType::pcie_switches);
  CHECK(find_path(m, m.gpus[0], m.nics[0])->type == PathType::pcie_switch);
  CHECK(nvlinks_of(m, 0) == 4);
  CHECK(contains(refused_text("GPU0 GPU1\nGPU0 X\nfoo\nGPU1 SYS X\n", with("l40s")), "1 cell;"));
}

TEST_CASE("nvidia-smi: affinities that a narrow terminal broke off still tell the CPUs apart") {
  // NV12 hides where the GPUs sit. Only the second row is too long for its line.
  const auto same_cpu = [](const std::string& numa) {
    const std::string text =
        "     GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X NV12 0-47 0\n"
        "GPU1 NV12 X 0-47\n" +
        numa + " N/A\n\nLegend:\n\n  X    = Self\n";
    ImportOptions options = with("a100-sxm-40gb");
    options.nvlink = "none";
    const Machine m = import_topology_text(text, "t", options).machine;
    return find_path(m, m.gpus[0], m.gpus[1])->type != PathType::socket;
  };
  CHECK(same_cpu("0"));
  CHECK_FALSE(same_cpu("1"));
}

TEST_CASE("nvidia-smi: a matrix of peer access before the one of distances is passed over") {
  const std::string text =
      "$ nvidia-smi topo -p2p r\n GPU0 GPU1\n GPU0 X CNS\n GPU1 CNS X\n\nLegend:\n\n  X = Self\n"
      "$ nvidia-smi topo -m\n GPU0 GPU1 CPU Affinity\nGPU0 X PHB 0-15\nGPU1 PHB X 0-15\n";
  const Machine m = import_topology_text(text, "t", with("l40s")).machine;
  CHECK(find_path(m, m.gpus[0], m.gpus[1])->type == PathType::host_bridge);
}

TEST_CASE("nvidia-smi topo -mp hides NVLink: said, and given by --nvlink") {
  const std::string text =
      "GPU0 GPU1 GPU2 GPU3\nGPU0 X PIX SYS SYS\nGPU1 PIX X SYS SYS\n"
      "GPU2 SYS SYS X PIX\nGPU3 SYS SYS PIX X\n";
  ImportOptions options = with("a100-sxm-40gb");
  const Imported none = import_topology_text(text, "t", options);
  CHECK(nvlinks_of(none.machine, 0) == 0);
  CHECK(std::any_of(none.notes.begin(), none.notes.end(),
                    [](const std::string& note) { return contains(note, "topo -mp"); }));
  options.nvlink = "all_to_all";  // 12 links over 3 peers
  const Machine direct = import_topology_text(text, "t", options).machine;
  CHECK(nvlinks_of(direct, 0) == 12);
  CHECK_FALSE(direct.has_nvswitch());
  options.nvlink = "nvswitch";
  CHECK(import_topology_text(text, "t", options).machine.has_nvswitch());
  options.nvlink = "mesh";
  CHECK(contains(refused_text(text, options), "nvswitch, all_to_all, none"));
}

TEST_CASE("nvidia-smi: what is wrong is said in one line") {
  const std::string header = "GPU0 GPU1 CPU Affinity\n";
  const ImportOptions l40s = with("l40s");
  CHECK(refused_text("", l40s) == "t: is empty; accepted: NCCL_TOPO_DUMP_FILE, nvidia-smi topo -m");
  CHECK(contains(refused_text("a: 1\n", l40s), "holds neither XML nor a matrix"));
  CHECK(contains(refused_text("hello\n", l40s), "holds neither XML nor a matrix"));
  CHECK(contains(refused_text(header, l40s), "no row"));
  CHECK(contains(refused_text(header + "GPU0 X\n", l40s), "1 cell;"));
  CHECK(contains(refused_text(header + "GPU0 X FOO\n", l40s), "'FOO'"));
  CHECK(contains(refused_text(header + "GPU0 X OK\nGPU1 OK X\n", l40s), "topo -p2p"));
  CHECK(contains(refused_text(header + "GPU0 X SYS\nGPU1 PIX X\n", l40s), "one thing"));
  CHECK(contains(refused_text(header + "GPU0 X SYS\nGPU1 SYS X\n", {}), "give --gpu"));
  CHECK(contains(refused_text(header + "GPU0 X NV4\nGPU1 NV4 X\n", l40s), "l40s has no NVLink"));
  CHECK(contains(refused_text(header + "GPU0 X NV18\nGPU1 NV18 X\n", with("a100-sxm-40gb")),
                 "12 NVLinks"));
  CHECK(contains(refused_text("GPU0 X\n", l40s), "starts with a row"));
}

TEST_CASE("a dump of several hosts is refused") {
  const std::string text =
      "<system version=\"1\"><cpu host_hash=\"0x1\" arch=\"x86_64\"/>"
      "<cpu host_hash=\"0x2\" arch=\"x86_64\"/></system>";
  CHECK(contains(refused_text(text, {}), "several hosts"));
}

TEST_CASE("cut anywhere, a text is an error or a machine, never a crash") {
  for (const char* file : {"smi/hgx-8xA100-10nic.txt", "xml/azure-ndv4-8xA100-topo.xml"}) {
    const std::string text = read_file(here + file);
    for (std::size_t length = 0; length < text.size(); length += 11) {
      const std::string what = refused_text(text.substr(0, length), with("a100-sxm-40gb", {200}));
      CHECK_FALSE(what.empty());
    }
  }
}

TEST_CASE("a graph's numbers are numbers, or the line and the attribute are named") {
  const auto graph = [](const std::string& attribute, const std::string& dev) {
    return "<graphs version=\"1\">\n<graph id=\"0\" " + attribute + ">\n<channel>\n<gpu dev=\"" +
           dev + "\"/></channel></graph></graphs>";
  };
  const auto refused = [](const std::string& text) -> std::string {
    try {
      read_nccl_graph(text, "g");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  // Host 3, device 5.
  const auto read = read_nccl_graph(graph("speedintra=\"20\"", "0x0300000000000005"), "g");
  CHECK(read.at(0).gbps_intra == 20);
  CHECK(read.at(0).channels.at(0).gpus == std::vector<int>{5});
  CHECK(refused(graph("speedintra=\"fast\"", "0")) ==
        "g:2: graph.speedintra: \"fast\" is not a number from 0 to 1000000");
  CHECK(contains(refused(graph("speedintra=\"nan\"", "0")), "g:2: graph.speedintra"));
  CHECK(contains(refused(graph("pattern=\"1e30\"", "0")), "g:2: graph.pattern"));
  for (const char* dev : {"", "x", "-1", "0x80000000"}) {
    CAPTURE(dev);
    CHECK(contains(refused(graph("", dev)), "g:4: gpu.dev"));
  }
}

TEST_CASE("what would take minutes or gigabytes is refused at once") {
  // Every two CPUs are linked: 4000 of them would be 8 million links.
  std::string xml = "<system>\n";
  for (int i = 0; i < 4000; ++i) xml += "<cpu/>\n";
  CHECK(contains(refused_text(xml + "</system>", with("a100-sxm-80gb")),
                 "t:130: cpu: more than 128 CPUs"));
  std::string header;
  for (int i = 0; i < 129; ++i) header += "GPU" + std::to_string(i) + " ";
  CHECK(contains(refused_text(header + "\n", with("a100-sxm-80gb")), "accepted: at most 128"));
  // A line of 32 thousand quotes, as people paste, is an empty one.
  std::string quotes;
  for (int i = 0; i < 32000; ++i) quotes += "> ";
  CHECK(contains(refused_text(quotes, with("a100-sxm-80gb")), "holds neither XML nor a matrix"));
}
