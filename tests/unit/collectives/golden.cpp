#include "tests/unit/collectives/golden.hpp"

#include <sstream>
#include <stdexcept>

#include "base/toml.hpp"

namespace stepcast::golden {
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<std::string> data_lines(const std::string& file) {
  std::vector<std::string> out;
  const std::string text = read_file(std::string(STEPCAST_TEST_DATA) + "/golden/" + file);
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line[0] != '#') out.push_back(line);
  }
  return out;
}

namespace {

nccl::PathType path_type(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(nccl::PathType::dis); ++i) {
    if (to_string(static_cast<nccl::PathType>(i)) == text) return static_cast<nccl::PathType>(i);
  }
  throw std::runtime_error("path type " + text);
}

NcclAlgorithm algorithm(const std::string& text) {
  for (int i = 0; i < nccl::algorithm_count; ++i) {
    if (to_string(static_cast<NcclAlgorithm>(i)) == text) return static_cast<NcclAlgorithm>(i);
  }
  throw std::runtime_error("algorithm " + text);
}

NcclProtocol protocol(const std::string& text) {
  for (int i = 0; i < nccl::protocol_count; ++i) {
    if (to_string(static_cast<NcclProtocol>(i)) == text) return static_cast<NcclProtocol>(i);
  }
  throw std::runtime_error("protocol " + text);
}

CollectiveKind function(const std::string& text) {
  if (text == "AllReduce") return CollectiveKind::all_reduce;
  if (text == "AllGather") return CollectiveKind::all_gather;
  if (text == "ReduceScatter") return CollectiveKind::reduce_scatter;
  if (text == "Broadcast") return CollectiveKind::broadcast;
  if (text == "Reduce") return CollectiveKind::reduce;
  throw std::runtime_error("function " + text);
}

nccl::GraphResult graph(const Row& row, const std::string& prefix) {
  nccl::GraphResult g;
  g.pattern = static_cast<nccl::Pattern>(std::stoi(row.at(prefix + "_pattern")));
  g.channels = std::stoi(row.at(prefix + "_channels"));
  g.bw_intra = std::stod(row.at(prefix + "_bw_intra"));
  g.bw_inter = std::stod(row.at(prefix + "_bw_inter"));
  g.type_intra = path_type(row.at(prefix + "_type_intra"));
  g.type_inter = path_type(row.at(prefix + "_type_inter"));
  g.same_channels = row.at(prefix + "_same") == "1";
  g.cross_nic = std::stoi(row.at(prefix + "_crossnic"));
  return g;
}

}  // namespace

std::vector<Case> cases() {
  const std::vector<std::string> text = data_lines("search.csv");
  const std::vector<std::string> header = split(text.at(0), ',');
  std::vector<Case> out;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const std::vector<std::string> cells = split(text[i], ',');
    Row row;
    for (std::size_t k = 0; k < header.size(); ++k) row[header[k]] = cells.at(k);
    Case c;
    c.topo = row["topo"];
    c.nodes = std::stoi(row["nodes"]);
    c.gpus = row["gpus"];
    c.comm.ranks = std::stoi(row["ranks"]);
    c.comm.nodes = c.nodes;
    c.comm.min_compute_capability = std::stoi(row["cc"]);
    c.comm.max_compute_capability = c.comm.min_compute_capability;
    c.comm.cpu_arch = row["cpu_arch"] == "x86" ? nccl::CpuArch::x86 : nccl::CpuArch::arm;
    c.comm.cpu_vendor = row["cpu_vendor"] == "intel" ? nccl::CpuVendor::intel
                        : row["cpu_vendor"] == "amd" ? nccl::CpuVendor::amd
                                                     : nccl::CpuVendor::other;
    c.comm.max_local_ranks = std::stoi(row["local_ranks"]);
    c.channels = std::stoi(row["comm_channels"]);
    c.nvls_channels = std::stoi(row["comm_nvls_channels"]);
    c.comm.nvls_supported = c.nvls_channels > 0;
    c.max_bw = std::stod(row["max_bw"]);
    c.total_bw = std::stod(row["total_bw"]);
    c.search.ring = graph(row, "ring");
    c.search.tree = graph(row, "tree");
    c.search.nvls = graph(row, "nvls");
    out.push_back(c);
  }
  return out;
}

std::vector<Line> lines(const std::string& file) {
  std::vector<Line> out;
  for (const std::string& text : data_lines(file)) {
    const std::vector<std::string> parts = split(text, ',');
    Line line;
    line.topo = parts.at(0);
    line.nodes = std::stoi(parts.at(1));
    line.gpus = parts.at(2);
    line.function = function(parts.at(3));
    for (std::size_t i = 4; i < parts.size(); ++i) {
      const std::vector<std::string> words = split(parts[i], ' ');
      Cell cell;
      cell.algorithm = algorithm(words.at(0));
      cell.protocol = protocol(words.at(1));
      cell.a = std::stod(words.at(2));
      cell.b = std::stod(words.at(3));
      if (words.size() > 4) cell.c = std::stod(words.at(4));
      line.cells.push_back(cell);
    }
    out.push_back(line);
  }
  return out;
}

const Case& find(const std::vector<Case>& all, const Line& line) {
  for (const Case& c : all) {
    if (c.topo == line.topo && c.nodes == line.nodes && c.gpus == line.gpus) return c;
  }
  throw std::runtime_error("no search for " + line.topo);
}

}  // namespace stepcast::golden
