// The matrix of `nvidia-smi topo -m` says how far every two devices are apart, not what lies
// between them. A tree that gives the same distances is built from it:
//
//         GPU0  GPU1  GPU2  NIC0   CPU Affinity
//   GPU0   X    NV4   SYS   PXB    0-15            cpu0 ─ switch ┬ switch ─ gpu0
//   GPU1  NV4    X    SYS   SYS    0-15                          └ switch ─ nic0
//   GPU2  SYS   SYS    X    SYS    16-31           cpu0 ─ gpu1    cpu1 ─ gpu2
//   NIC0  PXB   SYS   SYS    X
//
//   * PIX: below one switch. PXB: below switches that share one. PHB and NODE: on one CPU (a NUMA
//     node's host bridges are one to NCCL, so the two are the same here). SYS or SOC: on two CPUs.
//   * NV# hides where two GPUs sit; their affinity columns tell, unless a cell contradicts.
//   * NV#, the same between all of more than two GPUs and as many as a GPU has: NVSwitch. Else it
//     is the number of links between the two.
//
// Drivers print tabs or blanks, underlined headers, NIC columns by number or by name, affinity
// columns or none; people paste prompts, quotes and legends along. The GPU's model and the NICs'
// speeds are not in the text and must be given. Source: docs/sources.md, NVIDIA driver.

#include "topologies/importers/smi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "topologies/machine_builder.hpp"
#include "topologies/paths.hpp"

namespace stepcast {
namespace {

constexpr std::size_t max_columns = 128;  // groups of devices cost its fourth power at worst
constexpr std::size_t max_line = 1 << 16;

enum class Near : std::uint8_t { self, pix, pxb, phb, node, sys, nvlink, unknown };

struct Cell {
  Near near = Near::unknown;
  int links = 0;
};

bool all_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_gpu(const std::string& word) {
  return word.size() > 3 && word.size() < 8 && word.substr(0, 3) == "GPU" &&
         all_digits(word.substr(3));
}

std::optional<Cell> parse_cell(const std::string& word) {
  if (word == "X") return Cell{Near::self, 0};
  if (word == "PIX" || word == "PSB") return Cell{Near::pix, 0};
  if (word == "PXB") return Cell{Near::pxb, 0};
  if (word == "PHB") return Cell{Near::phb, 0};
  if (word == "NODE") return Cell{Near::node, 0};
  if (word == "SYS" || word == "SOC") return Cell{Near::sys, 0};
  if (word.size() > 2 && word.size() < 6 && word.substr(0, 2) == "NV" &&
      all_digits(word.substr(2))) {
    return Cell{Near::nvlink, std::stoi(word.substr(2))};
  }
  return std::nullopt;
}

bool is_peer_status(const std::string& word) {
  for (const char* known : {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}) {
    if (word == known) return true;
  }
  return false;
}

// Words of a line without colours, underlines and what people quote with.
std::vector<std::string> words_of(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {  // ESC [ numbers letter
      while (i + 1 < line.size() && !std::isalpha(static_cast<unsigned char>(line[i + 1]))) ++i;
      ++i;
      continue;
    }
    plain += line[i] == '|' || line[i] == '\r' ? ' ' : line[i];
  }
  std::vector<std::string> words;
  std::string word;
  for (const char c : plain + " ") {
    if (std::isspace(static_cast<unsigned char>(c))) {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  const auto quote = [](const std::string& w) { return w == ">" || w == "#"; };
  words.erase(words.begin(), std::find_if_not(words.begin(), words.end(), quote));
  return words;
}

struct Matrix {
  std::vector<std::string> names;  // columns
  std::vector<bool> gpu;           // a GPU, else a NIC
  std::vector<std::vector<Cell>> cells;
  std::vector<std::string> affinity;  // of GPU rows: CPU and NUMA columns; "" where not known
  std::map<std::string, std::string> legend;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, const ImportOptions& options)
      : text_(text), file_(file), options_(options) {}

  Imported read() {
    parse();
    load_gpu_part();
    choose_nics();
    group();
    Imported out;
    out.machine = build();
    check_distances(out.machine);
    out.machine.source = "nvidia-smi topo -m, " + file_;
    out.machine.network = network();
    out.notes = notes_;
    return out;
  }

 private:
  InputError error(int line, const std::string& message) const {
    return InputError({file_, line, ""}, message);
  }

  void parse() {
    int number = 0;
    std::size_t start = 0;
    while (start <= text_.size()) {
      const std::size_t end = std::min(text_.find('\n', start), text_.size());
      ++number;
      if (end - start > max_line) throw error(number, "is a line of more than 64 KiB");
      take_line(words_of(text_.substr(start, end - start)), number);
      start = end + 1;
    }
    if (m_.names.empty()) {
      throw error(0,
                  "holds neither XML nor a matrix of nvidia-smi topo -m (a header GPU0 GPU1 ...); "
                  "accepted: NCCL_TOPO_DUMP_FILE, nvidia-smi topo -m");
    }
    const std::size_t n = m_.names.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (m_.cells[i].empty()) {
        throw error(header_line_, fmt::format("has a column {} but no row of it", m_.names[i]));
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Cell& a = m_.cells[i][j];
        const Cell& b = m_.cells[j][i];
        if (a.near == b.near && a.links == b.links) continue;
        throw error(header_line_,
                    fmt::format("says one thing from {0} to {1} and another from {1} to {0}",
                                m_.names[i], m_.names[j]));
      }
    }
  }

  void take_line(const std::vector<std::string>& words, int number) {
    if (words.empty()) return;
    if (m_.names.empty()) {
      if (!is_gpu(words[0])) return;
      if (words.size() > 1 && (parse_cell(words[1]) || is_peer_status(words[1]))) {
        throw error(number, "starts with a row; accepted: the header GPU0 GPU1 ... above it");
      }
      take_header(words, number);
      return;
    }
    const auto column = std::find(m_.names.begin(), m_.names.end(), words[0]);
    if (column != m_.names.end() && words.size() > 1) {
      const auto row = static_cast<std::size_t>(column - m_.names.begin());
      if (words[1] == m_.names[0] || !m_.cells[row].empty()) return;  // printed twice
      take_row(words, row, number);
    } else if (words.size() >= 2 && words[0].size() > 1 && words[0].back() == ':') {
      m_.legend[words[0].substr(0, words[0].size() - 1)] = words[1];  // NIC0: mlx5_0
    }
  }

  void take_header(const std::vector<std::string>& words, int number) {
    for (const std::string& word : words) {
      if (word == "CPU" || word == "NUMA" || word == "GPU" || word == "Affinity") break;
      if (std::find(m_.names.begin(), m_.names.end(), word) != m_.names.end()) {
        throw error(number, "names " + word + " twice");
      }
      m_.names.push_back(word);
      m_.gpu.push_back(is_gpu(word));
    }
    if (m_.names.size() > max_columns) {
      throw error(number, fmt::format("has {} columns; accepted: at most {}", m_.names.size(),
                                      max_columns));
    }
    header_line_ = number;
    m_.cells.resize(m_.names.size());
    m_.affinity.resize(m_.names.size());
  }

  void take_row(const std::vector<std::string>& words, std::size_t row, int number) {
    const std::size_t n = m_.names.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (i + 1 >= words.size()) {
        throw error(number, fmt::format("has {} cells; accepted: {}, one a column", i, n));
      }
      const std::optional<Cell> cell = parse_cell(words[i + 1]);
      if (!cell && is_peer_status(words[i + 1])) {
        throw error(number,
                    "is a matrix of peer access (nvidia-smi topo -p2p), not of distances; "
                    "accepted: nvidia-smi topo -m");
      }
      if (!cell || (cell->near == Near::self) != (i == row)) {
        throw error(number,
                    fmt::format("'{}' between {} and {} is not known; accepted: X, NV#, PIX, PXB, "
                                "PHB, NODE, SYS, SOC",
                                words[i + 1].substr(0, 40), m_.names[row], m_.names[i]));
      }
      m_.cells[row].push_back(*cell);
    }
    for (std::size_t i = n + 1; i < words.size() && i < n + 3; ++i) {
      m_.affinity[row] += words[i] + " ";
    }
  }

  void load_gpu_part() {
    gpus_ = static_cast<int>(std::count(m_.gpu.begin(), m_.gpu.end(), true));
    for (std::size_t i = 0; i < m_.names.size(); ++i) {
      if (m_.gpu[i]) devices_.push_back(i);
    }
    if (options_.gpu.empty()) {
      throw error(header_line_, fmt::format("lists {} GPUs without their model; give --gpu {}",
                                            gpus_, importing::gpus_for(0)));
    }
    gpu_ = load_gpu(options_.gpu);
  }

  void choose_nics() {
    std::vector<std::size_t> nics;
    for (std::size_t i = 0; i < m_.names.size(); ++i) {
      if (!m_.gpu[i]) nics.push_back(i);
    }
    if (nics.empty()) return;
    if (options_.nic_gbit.empty()) {
      throw error(header_line_,
                  fmt::format("lists {} NICs without their speed; give --nic-speed GBIT (one for "
                              "all, or one each with commas; 0 leaves a NIC out)",
                              nics.size()));
    }
    for (std::size_t k = 0; k < nics.size(); ++k) {
      const double gbit = importing::nic_gbit_of(options_, file_, k, nics.size());
      if (gbit <= 0) {
        notes_.push_back(fmt::format("{} is left out (speed 0)", nic_name(nics[k])));
        continue;
      }
      devices_.push_back(nics[k]);
      gbit_[nics[k]] = gbit;
    }
  }

  std::string nic_name(std::size_t i) const {
    const auto named = m_.legend.find(m_.names[i]);
    return named == m_.legend.end() ? m_.names[i] : named->second;
  }

  std::string network() {
    if (gbit_.empty()) return "none";
    for (const auto& [i, gbit] : gbit_) {
      const std::string by_name = importing::network_of(nic_name(i));
      if (!by_name.empty()) return by_name;
    }
    if (options_.network.empty()) {
      notes_.push_back(
          "the NICs' names do not say which network: infiniband assumed; --network "
          "says otherwise");
    }
    return "infiniband";
  }

  // ---- groups: devices on one CPU, below one set of switches, below one switch
  static std::size_t root(std::vector<std::size_t>& parent, std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  }

  template <typename Joined>
  std::vector<std::size_t> join(const Joined& joined) const {
    std::vector<std::size_t> parent(m_.names.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    for (const std::size_t a : devices_) {
      for (const std::size_t b : devices_) {
        if (a != b && joined(m_.cells[a][b].near)) parent[root(parent, a)] = root(parent, b);
      }
    }
    for (std::size_t i = 0; i < parent.size(); ++i) parent[i] = root(parent, i);
    return parent;
  }

  void group() {
    below_one_switch_ = join([](Near n) { return n == Near::pix; });
    below_switches_ = join([](Near n) { return n == Near::pix || n == Near::pxb; });
    on_cpu_ = join([](Near n) {
      return n == Near::pix || n == Near::pxb || n == Near::phb || n == Near::node;
    });
    // GPUs whose distance NVLink hides: the affinity columns, where no cell says SYS.
    for (const std::size_t a : devices_) {
      for (const std::size_t b : devices_) {
        if (a >= b || !m_.gpu[a] || !m_.gpu[b] || on_cpu_[a] == on_cpu_[b]) continue;
        const bool hidden = m_.cells[a][b].near == Near::nvlink;
        if (hidden && m_.affinity[a] == m_.affinity[b] && !apart(on_cpu_[a], on_cpu_[b])) {
          const std::size_t from = on_cpu_[a];
          const std::size_t to = on_cpu_[b];
          std::replace(on_cpu_.begin(), on_cpu_.end(), from, to);
        }
      }
    }
  }

  bool apart(std::size_t group_a, std::size_t group_b) const {
    for (const std::size_t a : devices_) {
      for (const std::size_t b : devices_) {
        if (on_cpu_[a] == group_a && on_cpu_[b] == group_b && m_.cells[a][b].near == Near::sys) {
          return true;
        }
      }
    }
    return false;
  }

  bool shares(const std::vector<std::size_t>& groups, std::size_t i) const {
    return std::any_of(devices_.begin(), devices_.end(),
                       [&](std::size_t other) { return other != i && groups[other] == groups[i]; });
  }

  // ---- the machine
  Machine build() {
    MachineBuilder builder(gpu_);
    std::map<std::size_t, Vertex> cpus, outer, inner;
    int next_gpu = 0;
    int next_nic = 0;
    Device cpu;
    const std::string host = options_.cpu.empty() ? "amd" : options_.cpu;
    if (options_.cpu.empty()) {
      notes_.push_back(
          "the CPU is not in the text: an AMD EPYC host assumed; --cpu says otherwise");
    }
    importing::set_host(cpu, host);
    cpu.pcie_p2p = gpu_.pcie_p2p;
    const int generation = gpu_.pcie_generation;
    notes_.push_back(fmt::format("PCIe links are not in the text: Gen{} x{} assumed, as {} has",
                                 generation, gpu_.pcie_width, gpu_.name));
    for (const std::size_t i : devices_) {
      const std::size_t group = on_cpu_[i];
      if (cpus.count(group) == 0) cpus[group] = builder.add_cpu(cpu);
      Vertex parent = cpus[group];
      const bool one = shares(below_one_switch_, i);
      const bool several = std::any_of(devices_.begin(), devices_.end(), [&](std::size_t other) {
        return below_switches_[other] == below_switches_[i] &&
               below_one_switch_[other] != below_one_switch_[i];
      });
      if (several) {
        const std::size_t key = below_switches_[i];
        if (outer.count(key) == 0) outer[key] = builder.add_pcie_switch(parent, generation, 16);
        parent = outer[key];
      }
      if (one || several) {
        const std::size_t key = below_one_switch_[i];
        if (inner.count(key) == 0) inner[key] = builder.add_pcie_switch(parent, generation, 16);
        parent = inner[key];
      }
      if (m_.gpu[i]) {
        builder.add_gpu(next_gpu++, parent, generation, gpu_.pcie_width);
      } else {
        Device nic;
        nic.product = nic_name(i);
        nic.nic_gbps = gbit_.at(i) / 8;
        nic.nic_guid = 0x1000 + static_cast<std::uint64_t>(next_nic);
        nic.gpudirect_rdma = importing::network_of(nic.product) != "ethernet";
        builder.add_nic(next_nic++, parent, std::move(nic), generation, 16);
      }
    }
    add_nvlinks(builder);
    return builder.finish(0);
  }

  void add_nvlinks(MachineBuilder& builder) {
    int links = 0;
    bool equal = gpus_ > 2;
    bool any = false;
    for (int a = 0; a < gpus_; ++a) {
      for (int b = 0; b < gpus_; ++b) {
        if (a == b) continue;
        const Cell& cell = m_.cells[devices_[a]][devices_[b]];
        any = any || cell.links > 0;
        links = std::max(links, cell.links);
        equal = equal && cell.links == m_.cells[devices_[0]][devices_[1]].links && cell.links > 0;
      }
    }
    const bool asked = options_.nvlink == "nvswitch" || options_.nvlink == "all_to_all";
    if (!options_.nvlink.empty() && !asked && options_.nvlink != "none") {
      throw not_accepted({"--nvlink", 0, ""}, options_.nvlink, {"nvswitch", "all_to_all", "none"});
    }
    if (options_.nvlink == "none" || (!any && !asked)) return;
    if (gpu_.nvlinks == 0) {
      throw InputError({"--gpu", 0, ""},
                       fmt::format("{} has no NVLink, but {} shows NV{}", gpu_.name, file_, links));
    }
    if (links > gpu_.nvlinks) {
      throw InputError({"--gpu", 0, ""},
                       fmt::format("{} has {} NVLinks, but {} shows NV{}; accepted: a GPU of at "
                                   "least {}",
                                   gpu_.name, gpu_.nvlinks, file_, links, links));
    }
    // As many links between each two as a GPU has in all: every GPU's links go to a switch.
    if (options_.nvlink == "nvswitch" ||
        (options_.nvlink.empty() && equal && links * (gpus_ - 1) > gpu_.nvlinks)) {
      if (links != gpu_.nvlinks) {
        notes_.push_back(
            fmt::format("NV{} between all GPUs, but {} has {} NVLinks: all of them "
                        "taken, on NVSwitches",
                        links, gpu_.name, gpu_.nvlinks));
      }
      builder.add_nvswitch();
      return;
    }
    for (int a = 0; a < gpus_; ++a) {
      for (int b = a + 1; b < gpus_; ++b) {
        const int count = m_.cells[devices_[a]][devices_[b]].links;
        if (count == 0) continue;
        for (const int end : {a, b}) {
          if (builder.nvlinks_of(end) + count <= gpu_.nvlinks) continue;
          throw InputError({"--gpu", 0, ""},
                           fmt::format("GPU {} of {} has more NVLinks than the {} of {}", end,
                                       file_, gpu_.nvlinks, gpu_.name));
        }
        builder.link_nvlinks(a, b, count);
      }
    }
  }

  // The tree gives back the matrix, or says where it does not.
  void check_distances(const Machine& machine) {
    const auto vertex = [&](std::size_t k) {
      return k < machine.gpus.size() ? machine.gpus[k] : machine.nics[k - machine.gpus.size()];
    };
    int different = 0;
    std::string first;
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = a + 1; b < devices_.size(); ++b) {
        const Cell& cell = m_.cells[devices_[a]][devices_[b]];
        if (cell.near == Near::nvlink) continue;
        const std::optional<Path> path = find_path(machine, vertex(a), vertex(b));
        if (path && same(cell.near, path->type)) continue;
        if (++different == 1) {
          first = fmt::format("{} and {}", m_.names[devices_[a]], m_.names[devices_[b]]);
        }
      }
    }
    if (different == 0) return;
    notes_.push_back(
        fmt::format("no tree has all of these distances: {} differ, the first between "
                    "{}",
                    different, first));
  }

  static bool same(Near near, PathType type) {
    switch (near) {
      case Near::pix: return type == PathType::pcie_switch;
      case Near::pxb: return type == PathType::pcie_switches;
      case Near::phb:
      case Near::node: return type == PathType::host_bridge || type == PathType::c2c_pcie;
      case Near::sys: return type == PathType::socket;
      case Near::self:
      case Near::nvlink:
      case Near::unknown: return true;
    }
    return true;
  }

  const std::string& text_;
  const std::string& file_;
  const ImportOptions& options_;
  Matrix m_;
  int header_line_ = 0;
  int gpus_ = 0;
  Gpu gpu_;
  std::vector<std::size_t> devices_;  // columns taken: GPUs, then NICs
  std::map<std::size_t, double> gbit_;
  std::vector<std::size_t> below_one_switch_, below_switches_, on_cpu_;
  std::vector<std::string> notes_;
};

}  // namespace

Imported read_smi_text(const std::string& text, const std::string& file,
                       const ImportOptions& options) {
  return Reader(text, file, options).read();
}

}  // namespace stepcast
