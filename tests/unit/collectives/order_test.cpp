// What must not change what a machine is found to do: the order in which devices and links are
// listed, their names, and the search's short cuts.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <tuple>

#include "base/toml.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "sim/collectives/nccl/tuner.hpp"
#include "tests/unit/collectives/golden.hpp"
#include "topologies/importers/nccl_xml.hpp"

using namespace stepcast;

namespace {

std::vector<int> shuffled(std::size_t count, std::mt19937& random) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// The same machine with its devices and links listed in another order, under other names.
Machine relisted(const Machine& machine, std::mt19937& random) {
  Machine out = machine;
  out.graph = MachineGraph();
  std::vector<Vertex> to(boost::num_vertices(machine.graph));
  for (const int v : shuffled(to.size(), random)) {
    Device device = machine.graph[v];
    device.name = "renamed" + std::to_string(v);
    to[v] = boost::add_vertex(device, out.graph);
  }
  std::vector<boost::graph_traits<MachineGraph>::edge_descriptor> edges(
      boost::edges(machine.graph).first, boost::edges(machine.graph).second);
  for (const int e : shuffled(edges.size(), random)) {
    boost::add_edge(to[boost::source(edges[e], machine.graph)],
                    to[boost::target(edges[e], machine.graph)], machine.graph[edges[e]], out.graph);
  }
  for (Vertex& gpu : out.gpus) gpu = to[gpu];
  for (Vertex& nic : out.nics) nic = to[nic];
  return out;
}

// GPU i becomes GPU order[i].
Machine renumbered(const Machine& machine, std::mt19937& random) {
  Machine out = machine;
  const std::vector<int> order = shuffled(machine.gpus.size(), random);
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.gpus[order[i]] = machine.gpus[i];
    out.graph[machine.gpus[i]].index = order[i];
  }
  return out;
}

bool alike(const nccl::GraphResult& a, const nccl::GraphResult& b) {
  return a.channels == b.channels && a.bw_intra == b.bw_intra && a.bw_inter == b.bw_inter &&
         a.type_intra == b.type_intra && a.type_inter == b.type_inter && a.pattern == b.pattern;
}

bool same_orders(const nccl::GraphResult& a, const nccl::GraphResult& b) {
  if (a.orders.size() != b.orders.size()) return false;
  for (std::size_t i = 0; i < a.orders.size(); ++i) {
    if (a.orders[i].gpus != b.orders[i].gpus || a.orders[i].nic_in != b.orders[i].nic_in ||
        a.orders[i].nic_out != b.orders[i].nic_out) {
      return false;
    }
  }
  return true;
}

nccl::SearchResult search(const Machine& machine, bool across, std::vector<int> gpus = {}) {
  if (gpus.empty()) {
    gpus.resize(machine.gpus.size());
    std::iota(gpus.begin(), gpus.end(), 0);
  }
  const nccl::System system(machine, gpus, {.across_nodes = across});
  return nccl::search_graphs(nccl::constants("2.28.9"), system);
}

std::string golden_xml(const std::string& topo) {
  return std::string(STEPCAST_TEST_DATA) + "/golden/xml/" + topo + ".xml";
}

// "0+1" of a case; none where all GPUs take part.
std::vector<int> gpus_of(const golden::Case& c) {
  std::vector<int> gpus;
  if (c.gpus == "all") return gpus;
  for (const std::string& gpu : golden::split(c.gpus, '+')) gpus.push_back(std::stoi(gpu));
  return gpus;
}

bool alike(const nccl::SearchResult& a, const nccl::SearchResult& b) {
  return alike(a.ring, b.ring) && alike(a.tree, b.tree) && alike(a.nvls, b.nvls);
}

// What NCCL would choose of both at every size.
bool same_choices(const golden::Case& c, const nccl::SearchResult& a, const nccl::SearchResult& b) {
  const nccl::Constants& constants = nccl::constants("2.28.9");
  const nccl::Tuner mine(constants, c.comm, a);
  const nccl::Tuner theirs(constants, c.comm, b);
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::broadcast}) {
    const Reduction reduction =
        kind == CollectiveKind::all_reduce ? Reduction::sum : Reduction::none;
    for (Bytes bytes = 64; bytes <= gib; bytes *= 4) {
      const nccl::Choice x = mine.choose(kind, bytes, Dtype::fp32, reduction);
      const nccl::Choice y = theirs.choose(kind, bytes, Dtype::fp32, reduction);
      if (x.algorithm != y.algorithm || x.protocol != y.protocol || x.time_us != y.time_us ||
          x.launch.channels != y.launch.channels) {
        return false;
      }
    }
  }
  return true;
}

// Every PCI device under another bus id and every NIC under another name, NVLinks' ends included.
std::string renamed_devices(const std::string& xml) {
  std::map<std::string, std::string> names;
  std::string out;
  const std::regex named("(busid|target|name)=\"([^\"]+)\"");
  auto at = xml.begin();
  for (std::sregex_iterator it(xml.begin(), xml.end(), named), end; it != end; ++it) {
    const std::smatch& m = *it;
    out.append(at, xml.begin() + m.position());
    // Virtual machines' NVSwitches are known by this id.
    std::string& name = names[m.str(2)];
    if (m.str(2).starts_with("fffffff:")) name = m.str(2);
    if (name.empty()) {
      char text[32];
      std::snprintf(text, sizeof text, "%04x:%02x:00.0", 0x1000,
                    255 - static_cast<int>(names.size()));
      name = text;
    }
    out += m.str(1) + "=\"" + name + "\"";
    at = xml.begin() + m.position() + m.length();
  }
  out.append(at, xml.end());
  return out;
}

}  // namespace

TEST_CASE("the order in which a machine lists its devices and links changes nothing") {
  std::mt19937 random(7);
  int compared = 0;
  for (const std::string& name : catalog_machines()) {
    const Machine machine = load_machine(name);
    for (const bool across : {false, true}) {
      if (across ? machine.nics.empty() : machine.gpus.size() == 1) continue;
      const nccl::SearchResult plain = search(machine, across);
      for (int round = 0; round < 3; ++round) {
        const nccl::SearchResult other = search(relisted(machine, random), across);
        CAPTURE(name);
        CAPTURE(across);
        CHECK(alike(plain.ring, other.ring));
        CHECK(alike(plain.tree, other.tree));
        CHECK(alike(plain.nvls, other.nvls));
        ++compared;
      }
    }
  }
  CHECK(compared > 100);
}

void check_same(const golden::Case& c, const nccl::SearchResult& a, const nccl::SearchResult& b) {
  CAPTURE(c.name());
  CHECK(alike(a, b));
  CHECK(same_orders(a.ring, b.ring));
  CHECK(same_orders(a.tree, b.tree));
  CHECK(same_choices(c, a, b));
}

// The same for the machines whose answers NCCL itself gave, for all and for some of their GPUs,
// down to the channels GPU by GPU and to what is chosen at every size: names and places in a list
// are no part of a machine.
TEST_CASE("renamed and relisted, NCCL's own cases get the same channels and choices") {
  std::mt19937 random(23);
  int compared = 0;
  std::set<std::tuple<std::string, bool, std::string>> seen;
  for (const golden::Case& c : golden::cases()) {
    if (!seen.emplace(c.topo, c.nodes > 1, c.gpus).second) continue;
    const Machine machine = read_nccl_xml(golden_xml(c.topo));
    const bool across = c.nodes > 1;
    const nccl::SearchResult a = search(machine, across, gpus_of(c));
    const nccl::SearchResult b = search(relisted(machine, random), across, gpus_of(c));
    check_same(c, a, b);
    ++compared;
  }
  CHECK(compared >= 90);
}

TEST_CASE("under other bus ids and NIC names, NCCL's own cases get the same channels and choices") {
  int compared = 0;
  std::set<std::pair<std::string, bool>> seen;
  for (const golden::Case& c : golden::cases()) {
    if (c.gpus != "all" || !seen.emplace(c.topo, c.nodes > 1).second) continue;
    const std::string xml = read_file(golden_xml(c.topo));
    const std::string other = renamed_devices(xml);
    REQUIRE(other != xml);
    ImportOptions options;
    options.gpu_required = false;
    const bool across = c.nodes > 1;
    const nccl::SearchResult a = search(read_nccl_xml_text(xml, c.topo, options).machine, across);
    const nccl::SearchResult b = search(read_nccl_xml_text(other, c.topo, options).machine, across);
    check_same(c, a, b);
    ++compared;
  }
  CHECK(compared >= 40);
}

// GPU i becomes GPU order[i]. NCCL's searches begin with GPU 0 and count their visits, so on a
// hybrid cube mesh (DGX-1), whose GPUs are not alike, other numbers may find fewer channels or
// other GPUs first, there as in NCCL. On every other machine that NCCL answered for they change
// nothing.
TEST_CASE("with their GPUs numbered otherwise, NCCL's own cases get the same choices") {
  std::mt19937 random(31);
  int compared = 0;
  std::set<std::pair<std::string, bool>> seen;
  for (const golden::Case& c : golden::cases()) {
    if (c.gpus != "all" || !seen.emplace(c.topo, c.nodes > 1).second) continue;
    const Machine machine = read_nccl_xml(golden_xml(c.topo));
    const bool across = c.nodes > 1;
    const bool cube_mesh = c.topo.find("dgx1") != std::string::npos;
    const nccl::SearchResult a = search(machine, across);
    for (int round = 0; round < 6; ++round) {
      const nccl::SearchResult b = search(renumbered(machine, random), across);
      CAPTURE(c.name());
      if (cube_mesh) {
        CHECK(b.ring.channels * b.ring.bw_intra <= a.ring.channels * a.ring.bw_intra);
        CHECK(b.ring.channels > 0);
      } else {
        CHECK(alike(a, b));
        CHECK(same_choices(c, a, b));
      }
      ++compared;
    }
  }
  CHECK(compared >= 240);
}

// NCCL's budgeted search starts at GPU 0, so on a hybrid cube mesh (DGX-1) other numbers may find
// fewer rings, there as in NCCL; where GPUs are alike they must not.
TEST_CASE("numbering the GPUs otherwise changes nothing where all GPUs are alike") {
  std::mt19937 random(11);
  for (const char* name : {"dgx-a100", "dgx-h100", "hgx-b200", "hgx-a100-4x100g", "dgx-2",
                           "rtx-4090-8x", "l40s-8x", "rtx-3090-2x"}) {
    const Machine machine = load_machine(name);
    const nccl::SearchResult plain = search(machine, false);
    for (int round = 0; round < 5; ++round) {
      const nccl::SearchResult other = search(renumbered(machine, random), false);
      CAPTURE(machine.name);
      CHECK(alike(plain.ring, other.ring));
      CHECK(alike(plain.tree, other.tree));
      CHECK(alike(plain.nvls, other.nvls));
    }
  }
}

TEST_CASE("leaving out what cannot matter finds what every visit finds, for random GPU subsets") {
  std::mt19937 random(3);
  int compared = 0;
  for (const char* name : {"dgx-1v", "dgx-a100", "dgx-h100", "hgx-b200", "hgx-a100-4x100g",
                           "l40s-8x", "rtx-4090-8x", "gcp-a3-high"}) {
    const Machine machine = load_machine(name);
    for (int round = 0; round < 8; ++round) {
      std::vector<int> gpus = shuffled(machine.gpus.size(), random);
      gpus.resize(1 + random() % gpus.size());
      std::sort(gpus.begin(), gpus.end());
      const bool across = !machine.nics.empty() && round % 2 == 0;
      if (!across && gpus.size() == 1) continue;
      const nccl::System system(machine, gpus, {.across_nodes = across});
      const nccl::Constants& constants = nccl::constants("2.28.9");
      const nccl::SearchResult quick = search_graphs(constants, system);
      const nccl::SearchResult full = search_graphs(constants, system, nccl::Effort::every_visit);
      CAPTURE(machine.name);
      CAPTURE(gpus.size());
      CAPTURE(across);
      CHECK(alike(quick.ring, full.ring));
      CHECK(alike(quick.tree, full.tree));
      CHECK(alike(quick.nvls, full.nvls));
      ++compared;
    }
  }
  CHECK(compared > 40);
}
