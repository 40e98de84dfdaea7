#pragma once
// Reads golden/*.csv (see golden/README.md).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/collectives/nccl/types.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::golden {

using Row = std::map<std::string, std::string>;

struct Case {
  std::string topo;  // "derived" name of golden/xml, without ".xml"
  int nodes = 1;
  std::string gpus;  // "all", "0+1"
  nccl::CommShape comm;
  nccl::SearchResult search;
  int channels = 0;
  int nvls_channels = 0;
  double max_bw = 0;
  double total_bw = 0;

  std::string name() const { return topo + " x" + std::to_string(nodes) + " gpus " + gpus; }
};

struct Cell {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double a = 0;  // model: latency us; select: time us
  double b = 0;  // model: GB/s; select: channels
  double c = 0;  // select: threads
};

struct Line {
  std::string topo;
  int nodes = 1;
  std::string gpus;
  CollectiveKind function = CollectiveKind::all_reduce;
  std::vector<Cell> cells;
};

// Lines of a file without comments; and a line cut at a separator.
std::vector<std::string> data_lines(const std::string& file);
std::vector<std::string> split(const std::string& text, char separator);

std::vector<Case> cases();
std::vector<Line> lines(const std::string& file);  // "model.csv" or "select.csv"
const Case& find(const std::vector<Case>& all, const Line& line);

}  // namespace stepcast::golden
