// stepcast topo: reads the machine a user has, shows it, and says what is odd about it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/report/format.hpp"
#include "topologies/describe.hpp"
#include "topologies/drawing.hpp"
#include "topologies/importers/fabric_import.hpp"
#include "topologies/importers/import.hpp"
#include "topologies/importers/nccl_xml.hpp"
#include "topologies/machine_writer.hpp"
#include "topologies/odd_things.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file, output;
  std::string gpu, nic_speed, nics, nvlink, cpu, network;
  bool dot = false;
  bool svg = false;
};

std::vector<double> numbers(const std::string& text) {
  std::vector<double> out;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    double value = 0;
    const std::from_chars_result read = std::from_chars(at, end, value);
    const bool more = read.ec == std::errc{} && read.ptr != end && *read.ptr == ',';
    const bool usable = read.ec == std::errc{} && value >= 0 && value <= 1e6;  // no NaN
    if (!usable || (read.ptr != end && !more) || (more && read.ptr + 1 == end)) {
      throw InputError({"--nic-speed", 0, ""},
                       "'" + text.substr(0, 80) +
                           "' is not accepted; accepted: Gb/s up to 1e6, one for all NICs or one "
                           "each with commas");
    }
    out.push_back(value);
    at = read.ptr + (more ? 1 : 0);
  }
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

ImportOptions import_options(const Options& o, bool gpu_required) {
  ImportOptions options;
  options.gpu = o.gpu;
  options.nic_gbit = numbers(o.nic_speed);
  options.nics = words_of(o.nics);
  options.nvlink = o.nvlink;
  options.cpu = o.cpu;
  options.network = o.network;
  options.gpu_required = gpu_required;
  return options;
}

bool is_catalog_name_or_toml(const std::string& file) {
  return file.ends_with(".toml") ||
         (file.find('/') == std::string::npos && file.find('.') == std::string::npos);
}

// A machine by name, by TOML, or out of a dump.
Machine machine_of(const Options& o) {
  if (is_catalog_name_or_toml(o.file)) return load_machine(o.file);
  Imported imported = import_topology(o.file, import_options(o, false));
  for (const std::string& text : imported.notes) note(text);
  return std::move(imported.machine);
}

std::string nic_count(const Machine& machine) {
  return fmt::format("{} NIC{}", machine.nics.size(), machine.nics.size() == 1 ? "" : "s");
}

// The network between machines, out of Slurm's file or ibnetdiscover's output.
int import_fabric(const Options& o, const std::string& text) {
  for (const auto& [flag, value] :
       {std::pair("--gpu", &o.gpu), std::pair("--nvlink", &o.nvlink), std::pair("--cpu", &o.cpu),
        std::pair("--nic-speed", &o.nic_speed), std::pair("--nics", &o.nics)}) {
    if (value->empty()) continue;
    throw InputError({flag, 0, ""}, "is of a machine, and " + o.file +
                                        " is the network between machines; accepted: without it");
  }
  ImportedFabric fabric = import_fabric_text(text, o.file);
  if (!o.network.empty()) {
    const std::vector<std::string> known = network_classes();
    if (std::find(known.begin(), known.end(), o.network) == known.end()) {
      throw not_accepted({"--network", 0, ""}, o.network, known);
    }
    fabric.network = o.network;
  }
  std::vector<std::string> comments = {"Imported by `stepcast topo import " + o.file + "`.",
                                       describe(fabric) + "."};
  for (const std::string& each : fabric.notes) comments.push_back("Note: " + each + ".");
  const std::string toml = to_toml(fabric, comments);
  parse_scenario(toml, o.output.empty() ? "fabric.toml" : o.output);  // what is written loads
  for (const std::string& each : fabric.notes) note(each);
  if (o.output.empty()) {
    print(toml);
    return 0;
  }
  write_file(o.output, toml);
  print(
      fmt::format("{}; written to {}: keys of a scenario, as in `stepcast simulate {} --model "
                  "llama-3-8b --cluster dgx-h100 --nodes {} --strategy fsdp2`\n",
                  describe(fabric), o.output, o.output, fabric.hosts));
  return 0;
}

int import(const Options& o) {
  const std::string text = read_file(o.file, 64ll << 20);
  if (is_fabric(text)) return import_fabric(o, text);
  ImportOptions options = import_options(o, true);
  options.others = "Slurm's topology.conf and topology.yaml, ibnetdiscover";
  Imported imported = import_topology_text(text, o.file, options);
  if (const std::string stem = std::filesystem::path(o.output).stem().string(); !stem.empty()) {
    imported.machine.full_name = stem;
  }
  std::vector<std::string> comments = {"Imported by `stepcast topo import " + o.file + "`."};
  for (const std::string& each : imported.notes) comments.push_back("Note: " + each + ".");
  const std::string toml = to_toml(imported.machine, comments);
  parse_machine(toml, o.output.empty() ? "machine.toml" : o.output);  // what is written loads
  for (const std::string& each : imported.notes) note(each);
  if (o.output.empty()) {
    print(toml);
  } else {
    write_file(o.output, toml);
    print(
        fmt::format("{}: {} x {}, {}; check it with `stepcast topo check {}`, use it with "
                    "`--cluster {}`\n",
                    o.output, imported.machine.gpus.size(), imported.machine.gpu.name,
                    nic_count(imported.machine), o.output, o.output));
  }
  return 0;
}

std::string pattern_name(const DumpedGraph& graph) {
  static const char* const names[] = {"ring", "tree", "CollNet chain", "NVLS", "CollNet direct"};
  return graph.id >= 0 && graph.id < 5 ? names[graph.id] : fmt::format("graph {}", graph.id);
}

std::string graph_text(const std::vector<DumpedGraph>& graphs) {
  std::string out;
  for (const DumpedGraph& graph : graphs) {
    out += fmt::format("{}: {} channels x {:g} GB/s within, {:g} between nodes; paths {}, {}\n",
                       pattern_name(graph), graph.channels.size(), graph.gbps_intra,
                       graph.gbps_inter, graph.type_intra, graph.type_inter);
    for (const DumpedGraph::Channel& channel : graph.channels) {
      out += fmt::format("  GPUs {}", fmt::join(channel.gpus, " "));
      if (!channel.nics.empty()) out += fmt::format("  NICs {}", fmt::join(channel.nics, " "));
      out += '\n';
    }
  }
  return out;
}

// What NCCL's search makes of the machine, alone and as one of two nodes.
std::string nccl_text(const Machine& machine) {
  std::string out = "\nNCCL's channels\n";
  for (const int nodes : {1, 2}) {
    if (nodes > 1 && machine.nics.empty()) break;
    if (nodes == 1 && machine.gpus.size() < 2) continue;
    const Cluster cluster = make_cluster(machine, {.nodes = nodes});
    const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1});
    out += "  " + collectives.describe(Axis::world);
  }
  return out;
}

int show(const Options& o) {
  if (!is_catalog_name_or_toml(o.file)) {
    const std::string text = read_file(o.file, 16ll << 20);
    if (is_nccl_graph(text)) {
      print(graph_text(read_nccl_graph(text, o.file)));
      return 0;
    }
  }
  if (o.dot && o.svg)
    throw InputError({"--dot", 0, ""}, "contradicts --svg; accepted: one of them");
  const Machine machine = machine_of(o);
  std::string text;
  if (o.dot) {
    text = to_dot(machine);
  } else if (o.svg) {
    text = to_svg(machine);
  } else {
    text = describe(machine) + nccl_text(machine);
  }
  if (o.output.empty()) {
    print(text);
  } else {
    write_file(o.output, text);
  }
  return 0;
}

int check(const Options& o) {
  const Machine machine = machine_of(o);
  const std::vector<OddThing> odd = odd_things(machine);
  std::string text = fmt::format("{}: {} GPU{}, {}; ", machine.name, machine.gpus.size(),
                                 machine.gpus.size() == 1 ? "" : "s", nic_count(machine));
  text += odd.empty() ? "nothing odd\n"
                      : fmt::format("{} odd thing{}\n", odd.size(), odd.size() == 1 ? "" : "s");
  for (const OddThing& thing : odd) {
    text += fmt::format("  {}\n      {}\n", thing.what, thing.why);
  }
  print(text);
  return 0;
}

void add_file_options(CLI::App& verb, Options& o, const char* file_help) {
  verb.allow_extras();
  verb.add_option("file", o.file, file_help)->required()->option_text("FILE");
  verb.add_option("--gpu", o.gpu, "GPU of the machine: catalog name or GPU TOML")
      ->option_text("NAME");
  verb.add_option("--nic-speed", o.nic_speed,
                  "Gb/s of the NICs: one for all, or one each with commas (0 leaves one out)")
      ->option_text("GBIT");
  verb.add_option("--nics", o.nics,
                  "bus ids of the NICs where PCI devices have no class: the others are GPUs")
      ->option_text("BUSID,...");
  verb.add_option("--nvlink", o.nvlink, "nvswitch, all_to_all or none, where the file is silent")
      ->option_text("LAYOUT");
  verb.add_option("--cpu", o.cpu,
                  fmt::format("host, where the file is silent: {}", fmt::join(host_names(), ", ")))
      ->option_text("NAME");
  verb.add_option("--network", o.network,
                  fmt::format("network class: {}", fmt::join(network_classes(), ", ")))
      ->option_text("NAME");
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  const char* any = "catalog name, machine TOML, NCCL topology XML or nvidia-smi topo -m text";
  CLI::App* import_verb = command.add_subcommand(
      "import", "a machine TOML from a dump, fabric keys from a cluster's files");
  add_file_options(
      *import_verb, *o,
      "NCCL topology XML, nvidia-smi topo -m; Slurm topology.conf and .yaml, ibnetdiscover");
  import_verb->add_option("-o,--output", o->output, "the TOML to write (default: stdout)")
      ->option_text("FILE");
  CLI::App* show_verb =
      command.add_subcommand("show", "devices, links, paths and NCCL's channels; or a picture");
  add_file_options(*show_verb, *o, any);
  show_verb->add_flag("--dot", o->dot, "as Graphviz text");
  show_verb->add_flag("--svg", o->svg, "as an SVG picture");
  show_verb->add_option("-o,--output", o->output, "file to write (default: stdout)")
      ->option_text("FILE");
  CLI::App* check_verb = command.add_subcommand("check", "what is odd about a machine");
  add_file_options(*check_verb, *o, any);
  return [o, import_verb, show_verb, check_verb] {
    if (import_verb->parsed()) return import(*o);
    if (show_verb->parsed()) return show(*o);
    if (check_verb->parsed()) return check(*o);
    throw InputError({"topo", 0, ""}, "no verb given; accepted: import, show, check");
  };
}

}  // namespace

const Command topo_command{
    "topo", "read, show and check a machine's topology",
    "  stepcast topo import /tmp/nccl-topo.xml --gpu h100-sxm -o node.toml\n"
    "  stepcast topo import topo-m.txt --gpu a100-sxm-80gb --nic-speed 200 -o node.toml\n"
    "  stepcast topo import /etc/slurm/topology.conf -o fabric.toml\n"
    "  stepcast topo show dgx-h100 --svg -o dgx-h100.svg\n"
    "  stepcast topo check node.toml",
    add};

}  // namespace stepcast::cli
