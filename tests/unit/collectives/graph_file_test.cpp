// NCCL_GRAPH_FILE: a graph that a real machine dumped, given back, changes nothing, for the search
// finds the same; with half the speeds it counts as what it says.

#include "sim/collectives/nccl/graph_file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "topologies/importers/nccl_xml.hpp"

using namespace stepcast;

namespace {

const std::string data = STEPCAST_TEST_DATA;
const std::string xml = data + "/golden/xml/";
const std::string dumps = data + "/../importers/data/xml/";

constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::broadcast};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Seconds of four kinds of collectives from 8 KiB to 512 MiB, on every rank.
std::vector<double> times_of(const Machine& machine, int nodes, const nccl::GraphFile& graphs) {
  const Cluster cluster = make_cluster(machine, {.nodes = nodes});
  CollectiveOptions options;
  options.environment.paths.graphs = graphs;
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
  std::vector<double> times;
  for (const CollectiveKind kind : kinds) {
    for (Bytes bytes = 8 << 10; bytes <= 512 << 20; bytes *= 4) {
      times.push_back(
          collectives.cost(Axis::world, kind, bytes, Dtype::fp32, Reduction::sum).seconds);
    }
  }
  return times;
}

// What NCCL_GRAPH_DUMP_FILE would hold of a search, with NICs that take longer.
std::string dump(const nccl::System& system, const nccl::SearchResult& found, double more_us = 0) {
  std::string text = "<graphs version=\"1\">\n";
  const nccl::GraphResult* const graphs[] = {&found.ring, &found.tree, &found.nvls};
  const int ids[] = {0, 1, 3};
  for (int i = 0; i < 3; ++i) {
    const nccl::GraphResult& g = *graphs[i];
    text += fmt::format(
        "<graph id=\"{}\" pattern=\"{}\" crossnic=\"{}\" nchannels=\"{}\" speedintra=\"{}\" "
        "speedinter=\"{}\" latencyinter=\"{}\" typeintra=\"{}\" typeinter=\"{}\" "
        "samechannels=\"{}\">\n",
        ids[i], static_cast<int>(g.pattern), g.cross_nic, g.channels, g.bw_intra, g.bw_inter,
        g.latency_inter_us + more_us, to_string(g.type_intra), to_string(g.type_inter),
        static_cast<int>(g.same_channels));
    for (int c = 0; c < g.channels; ++c) {
      text += "<channel>";
      const auto net = [&](int nic) {
        if (!system.nets.empty()) {
          text += fmt::format("<net dev=\"{:#x}\"/>", system.graph[system.nets[nic]].device);
        }
      };
      net(g.orders[c].nic_in);
      for (const int gpu : g.orders[c].gpus) {
        text += fmt::format("<gpu dev=\"{:#x}\"/>", system.graph[system.gpus[gpu]].device);
      }
      net(g.orders[c].nic_out);
      text += "</channel>\n";
    }
    text += "</graph>\n";
  }
  return text + "</graphs>\n";
}

// One ring of two GPUs.
std::string ring_of(const std::string& attributes, const std::string& channel) {
  return "<graphs version=\"1\">\n<graph id=\"0\" " + attributes + ">\n<channel>\n" + channel +
         "</channel>\n</graph>\n</graphs>\n";
}
const std::string good =
    R"(pattern="4" speedintra="20" speedinter="20" typeintra="NVL" typeinter="PIX")";
const std::string both = R"(<gpu dev="0"/><gpu dev="0x1"/>)";

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string parse_error(const std::string& text) {
  return refusal([&] { nccl::parse_graph_file(text, "g.xml"); });
}

std::string run_error(const std::string& text, int nodes = 1) {
  const Cluster cluster =
      make_cluster(load_machine("dgx-h100"), {.nodes = nodes, .gpus_per_node = 2});
  CollectiveOptions options;
  options.environment.paths.graphs = nccl::parse_graph_file(text, "g.xml");
  return refusal([&] {
    const Collectives collectives(cluster, {.replicate = 2 * nodes, .shard = 1}, options);
    collectives.cost(Axis::world, CollectiveKind::all_reduce, 1 << 20, Dtype::fp32, Reduction::sum);
  });
}

}  // namespace

TEST_CASE("graphs that real machines dumped, given back, leave every time as it was, bit for bit") {
  for (const auto& [topo, graph, gpu] :
       {std::tuple{"simllm-vastai-8xH200-topo.xml", "simllm-vastai-8xH200-graph.xml", "h200"},
        std::tuple{"simllm-perlmutter-4xA100-topo.xml", "simllm-perlmutter-4xA100-graph.xml",
                   "a100-sxm-40gb"}}) {
    CAPTURE(std::string(topo));
    const Machine machine = read_nccl_xml(xml + topo, gpu);
    const std::vector<double> searched = times_of(machine, 1, {});
    CHECK(times_of(machine, 1, nccl::read_graph_file(dumps + graph)) == searched);
  }
}

TEST_CASE("a graph of half the speed makes what is bound by bandwidth take twice as long") {
  const Machine machine = read_nccl_xml(xml + "simllm-perlmutter-4xA100-topo.xml", "a100-sxm-40gb");
  std::string text = read_file(dumps + "simllm-perlmutter-4xA100-graph.xml");
  text = replaced(text, "speedintra=\"20\"", "speedintra=\"10\"");
  text = replaced(text, "speedinter=\"20\"", "speedinter=\"10\"");
  const std::vector<double> searched = times_of(machine, 1, {});
  const std::vector<double> half = times_of(machine, 1, nccl::parse_graph_file(text, "g.xml"));
  for (std::size_t i = 0; i < half.size(); ++i) CHECK(half[i] >= searched[i]);
  // 512 MiB of each kind.
  const std::size_t sizes = half.size() / std::size(kinds);
  for (std::size_t k = 1; k <= std::size(kinds); ++k) {
    CHECK(half[k * sizes - 1] / searched[k * sizes - 1] == doctest::Approx(2).epsilon(0.02));
  }
}

TEST_CASE("on several nodes the NICs of the file are taken, and latency and crossing with them") {
  for (const char* name : {"dgx-h100", "dgx-a100"}) {
    CAPTURE(std::string(name));
    const Machine machine = load_machine(name);
    std::vector<int> gpus(machine.gpus.size());
    std::iota(gpus.begin(), gpus.end(), 0);
    const nccl::System system(machine, gpus, {.across_nodes = true});
    const nccl::SearchResult found = nccl::search_graphs(nccl::constants("2.28.9"), system);
    const std::vector<double> searched = times_of(machine, 2, {});
    const auto given = [&](double more_us) {
      return times_of(machine, 2, nccl::parse_graph_file(dump(system, found, more_us), "g.xml"));
    };
    CHECK(given(0) == searched);
    // NCCL adds a NIC's latency to every step between nodes, one or more, but for broadcast.
    const std::vector<double> late = given(50);
    const std::size_t sizes = late.size() / std::size(kinds);
    for (std::size_t i = 0; i < 3 * sizes; ++i) CHECK(late[i] > searched[i] + 49.9e-6);
  }
}

TEST_CASE("a pattern that the file lacks is searched") {
  const Machine machine = read_nccl_xml(xml + "simllm-vastai-8xH200-topo.xml", "h200");
  std::string rings = read_file(dumps + "simllm-vastai-8xH200-graph.xml");
  rings = rings.substr(0, rings.find("<graph id=\"1\"")) + "</graphs>";
  CHECK(nccl::parse_graph_file(rings, "g.xml").graphs.size() == 1);
  CHECK(times_of(machine, 1, nccl::parse_graph_file(rings, "g.xml")) == times_of(machine, 1, {}));
}

TEST_CASE("a graph file that no search can have written is refused by line and attribute") {
  CHECK(parse_error(ring_of(good, both)) == "accepted");
  CHECK(parse_error("") == "g.xml: is no graph; accepted: NCCL_GRAPH_DUMP_FILE");
  CHECK(parse_error("<graphs/>") ==
        "g.xml: has no channels of rings (graph 0), trees (1) or NVLS (3)");
  CHECK(parse_error(ring_of(replaced(good, "\"4\"", "\"5\""), both)) ==
        "g.xml:2: graph.pattern: 5 is not accepted for graph 0; accepted: 4 (ring)");
  CHECK(parse_error(ring_of(replaced(good, "speedinter=\"20\"", "speedinter=\"0\""), both)) ==
        "g.xml:2: graph.speedinter: is missing or 0; accepted: GB/s of a channel, above 0");
  CHECK(parse_error(ring_of(replaced(good, "NVL", "NVLINK"), both))
            .rfind("g.xml:2: graph.typeintra: ", 0) == 0);
  CHECK(parse_error(ring_of(good + " nchannels=\"2\"", both)) ==
        "g.xml:2: graph.nchannels: is 2, but the graph has 1");
  CHECK(parse_error(ring_of(good + " samechannels=\"2\"", both)) ==
        "g.xml:2: graph.samechannels: \"2\" is not a number from 0 to 1");
}

TEST_CASE("channels must be the communicator's") {
  CHECK(run_error(ring_of(good, both)) == "accepted");
  CHECK(
      run_error(ring_of(good, R"(<gpu dev="0"/><gpu dev="0x7"/>)")) ==
      "g.xml:3: gpu.dev: GPU 7 is not in the communicator; accepted: 0, 1 (NCCL_GRAPH_FILE counts "
      "for every communicator)");
  CHECK(run_error(ring_of(good, R"(<gpu dev="0"/><gpu dev="0"/>)")) ==
        "g.xml:3: gpu.dev: GPU 0 is named twice");
  CHECK(run_error(ring_of(good, R"(<gpu dev="0"/>)")) ==
        "g.xml:3: channel: names 1 GPUs of a communicator of GPUs 0, 1; accepted: each once");
  CHECK(
      run_error(ring_of(good, both), 2) ==
      "g.xml:3: channel: names 0 NICs; accepted: 2, of entry and of exit, for the communicator is "
      "on several nodes");
  CHECK(run_error(ring_of(good, R"(<net dev="0"/>)" + both + R"(<net dev="0x63"/>)"), 2) ==
        "g.xml:3: net.dev: NIC 99 is not on the machine; accepted: 0, 1, 2, 3, 4, 5, 6, 7");
}
