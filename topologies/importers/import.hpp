#pragma once
// One door for every file that describes a node: NCCL's topology XML (whole, or the partial files
// of cloud providers) and the text of `nvidia-smi topo -m`. What a file cannot know is given beside
// it; what is then still assumed is said in the notes.
//
//   Imported in = import_topology("topo.txt", {.gpu = "h100-sxm", .nic_gbit = {400}});
//   write_file("node.toml", to_toml(in.machine, in.notes));
//
// A file says what it is by its first character: '<' is XML. Tested by tests/unit/importers on
// every real file that is at hand and on broken ones.

#include <optional>
#include <string>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

struct ImportOptions {
  std::string gpu;               // catalog name or GPU TOML; "": as the file says, if it does
  std::vector<double> nic_gbit;  // Gb/s: one for all NICs, or one each; 0 leaves that NIC out
  // Bus ids of the NICs in an XML file whose PCI devices have no class: the others are GPUs. "none"
  // alone: there is no NIC.
  std::vector<std::string> nics = {};
  std::string nvlink;        // nvswitch, all_to_all or none; "": as the file or the GPU says
  std::string cpu;           // host_names(); "": as the file says
  std::string network;       // a network class; "": by the names of the NICs
  bool gpu_required = true;  // false: a GPU nobody named is its compute capability only
  std::string others = {};   // what the caller accepts besides, for messages
};

struct Imported {
  Machine machine;
  std::vector<std::string> notes;  // what was assumed or left out, one sentence each
};

// Throws InputError that names the file, the line, and the true reason: what is missing and which
// option gives it, or what the file is instead (a graph, a peer access matrix, a log).
Imported import_topology(const std::string& path, const ImportOptions& options = {});
// The same from memory; `file` is what errors name. For fuzzing, too.
Imported import_topology_text(const std::string& text, const std::string& file,
                              const ImportOptions& options = {});

// Hosts that ImportOptions::cpu may name: they differ in what NCCL takes for the link between
// sockets and for the cost of posting to the network.
std::vector<std::string> host_names();

namespace importing {

// The catalog's name of a GPU by its PCI device id (0x2330: "h100-sxm"); "" where not known.
std::string gpu_of_pci_id(unsigned device_id);
// Names of the catalog's GPUs of a compute capability (0: all), for messages.
std::string gpus_for(int compute_capability);
// Sets vendor, family and model of a host; `name` is one of host_names() or throws.
void set_host(Device& cpu, const std::string& name);
// The host that a GPU comes with, or else the most common one.
std::string usual_host(const Gpu& gpu);
// The network class that a NIC's name betrays ("mlx5_0": infiniband, "eth0": ethernet, ...).
std::string network_of(const std::string& nic_name);
// Gb/s of NIC `index` of `count`; throws where the list is neither one nor `count` long.
double nic_gbit_of(const ImportOptions& options, const std::string& file, std::size_t index,
                   std::size_t count);

// Whether every board of it joins its GPUs by NVLink; cards may have bridges.
bool always_linked(const Gpu& gpu);

enum class NvlinkLayout { none, nvswitch, all_to_all };
// How the GPUs of a node that does not say so are joined; adds a note for what it assumes.
NvlinkLayout nvlink_layout(const ImportOptions& options, const std::string& file, const Gpu& gpu,
                           int gpus, std::vector<std::string>& notes);

}  // namespace importing
}  // namespace stepcast
