// The PCIe tree of a machine's TOML: [pcie] with its switches and what hangs on the CPUs directly.
// Every GPU and NIC must have exactly one place in it.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "topologies/machine_reader.hpp"

namespace stepcast::machine_reader {
namespace {

// An array of device numbers below `count`: [0, 1, 2].
std::vector<int> device_numbers(TomlTable& table, const std::string& key, int count) {
  std::vector<int> result;
  for (const double value : table.numbers(key)) {
    if (std::floor(value) != value || value < 0 || value >= count) {
      const std::string accepted = count > 0
                                       ? fmt::format("whole numbers 0 to {}", count - 1)
                                       : fmt::format("none, since this machine has no {}", key);
      throw InputError(table.where(key), fmt::format("{} is not among the {} of this machine; "
                                                     "accepted: {}",
                                                     value, key, accepted));
    }
    result.push_back(static_cast<int>(value));
  }
  return result;
}

// The PCIe tree: [pcie] generation, switches, direct.
class PcieReader {
 public:
  PcieReader(MachineBuilder& builder, const Gpu& gpu, const NicPart& nic, const Cpus& cpus,
             int gpu_count)
      : builder_(builder), gpu_(gpu), nic_(nic), cpus_(cpus), gpu_count_(gpu_count) {}

  void read(TomlTable& root) {
    std::optional<TomlTable> table = root.table("pcie");
    if (!table) throw InputError(root.where("pcie"), "is missing; accepted: a table [pcie]");
    generation_ = static_cast<int>(table->integer("generation", {1, 6}));
    for (TomlTable& entry : table->tables("switches")) {
      const Vertex parent = read_parent(entry, true);
      const auto generation = static_cast<int>(entry.integer_or("generation", generation_, {1, 6}));
      const auto width = static_cast<int>(entry.integer_or("width", 16, {1, 32}));
      const Vertex vertex = builder_.add_pcie_switch(parent, generation, width);
      attach(entry, vertex);
      switches_.push_back(vertex);
      entry.finish();
    }
    for (TomlTable& entry : table->tables("direct")) {
      attach(entry, read_parent(entry, false));
      entry.finish();
    }
    table->finish();
    check_complete(*table);
  }

 private:
  // cpu = N, or for switches under = N, an earlier switch.
  Vertex read_parent(TomlTable& entry, bool may_nest) {
    const auto last_cpu = static_cast<double>(cpus_.vertices.size()) - 1;
    const bool nested = may_nest && entry.has("under");
    if (nested && entry.has("cpu")) {
      throw InputError(entry.where("under"), "contradicts cpu; accepted: one of the two");
    }
    if (!nested) {
      return cpus_.vertices[static_cast<std::size_t>(entry.integer("cpu", {0, last_cpu}))];
    }
    if (switches_.empty()) {
      throw InputError(entry.where("under"), "has no earlier switch to name; accepted: cpu");
    }
    const auto last = static_cast<double>(switches_.size()) - 1;
    return switches_[static_cast<std::size_t>(entry.integer("under", {0, last}))];
  }

  void attach(TomlTable& entry, Vertex parent) {
    // A link runs at the slower of its two ends.
    for (const int index : device_numbers(entry, "gpus", gpu_count_)) {
      if (builder_.has_gpu(index)) {
        throw InputError(entry.where("gpus"), fmt::format("GPU {} is placed twice; accepted: every "
                                                          "GPU once",
                                                          index));
      }
      builder_.add_gpu(index, parent, std::min(generation_, gpu_.pcie_generation), gpu_.pcie_width);
    }
    for (const int index : device_numbers(entry, "nics", nic_.count)) {
      if (builder_.has_nic(index)) {
        throw InputError(entry.where("nics"), fmt::format("NIC {} is placed twice; accepted: every "
                                                          "NIC once",
                                                          index));
      }
      Device device = nic_.device;
      device.nic_port = 1 + index % nic_.ports_per_card;
      device.nic_guid = 0x1000 + static_cast<std::uint64_t>(index / nic_.ports_per_card);
      builder_.add_nic(index, parent, std::move(device),
                       std::min(generation_, nic_.pcie_generation), nic_.pcie_width);
    }
  }

  void check_complete(const TomlTable& table) const {
    for (int i = 0; i < gpu_count_; ++i) {
      if (builder_.has_gpu(i)) continue;
      throw InputError(table.where(), fmt::format("GPU {} is nowhere in switches or direct; "
                                                  "accepted: every GPU once",
                                                  i));
    }
    for (int i = 0; i < nic_.count; ++i) {
      if (builder_.has_nic(i)) continue;
      throw InputError(table.where(), fmt::format("NIC {} is nowhere in switches or direct; "
                                                  "accepted: every NIC once",
                                                  i));
    }
  }

  MachineBuilder& builder_;
  const Gpu& gpu_;
  const NicPart& nic_;
  const Cpus& cpus_;
  int gpu_count_;
  int generation_ = 0;
  std::vector<Vertex> switches_;
};

}  // namespace

void read_pcie(TomlTable& root, const Gpu& gpu, int gpus, const NicPart& nic, const Cpus& cpus,
               MachineBuilder& builder) {
  PcieReader(builder, gpu, nic, cpus, gpus).read(root);
}

}  // namespace stepcast::machine_reader
