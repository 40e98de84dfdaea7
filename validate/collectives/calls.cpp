#include "validate/collectives/calls.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "topologies/topology.hpp"

namespace stepcast::validate {
namespace {

// One process that launches on n GPUs launches one after the other: 2 to 3 us each, and the
// collective begins with the last. Logs made so lie 15 to 25 us over others with eight GPUs.
constexpr double launch_us_per_gpu = 2.5;

struct Site {
  std::string cluster;
  std::optional<std::string> network, nccl;
  std::string apart;  // why, of all ranks or of apart_ranks
  bool single_process = false;
  Dtype dtype = Dtype::fp32;
  std::vector<double> apart_ranks;
};

constexpr const char* calls_file = "calls.csv";
constexpr const char* machines_file = "machines.toml";
constexpr const char* left_out_file = "left-out.toml";

std::string_view text_of(std::string_view name) {
  for (const embedded::File& file : embedded::published_calls()) {
    if (file.name == name) return file.text;
  }
  STEPCAST_ASSERT(false, "a file of published calls is not embedded");
  return {};
}

std::map<std::string, Site> read_sites() {
  TomlTable t = TomlTable::from_text(text_of(machines_file), machines_file);
  std::map<std::string, Site> sites;
  for (TomlTable& row : t.tables("machine")) {
    Site site;
    site.cluster = row.string("cluster");
    site.network = row.optional_string("network");
    site.nccl = row.optional_string("nccl");
    site.single_process = row.boolean_or("single_process", false);
    const std::string dtype = row.string_or("dtype", "fp32");
    site.dtype = dtype == "fp16" ? Dtype::fp16 : dtype == "bf16" ? Dtype::bf16 : Dtype::fp32;
    site.apart_ranks = row.numbers("apart_ranks");
    site.apart = row.string_or("apart", "");
    row.string("source");
    row.optional_string("notes");
    const std::string name = row.string("name");
    row.finish();
    sites[name] = std::move(site);
  }
  t.finish();
  return sites;
}

template <class Number>
Number number(const std::string& text, const Where& where) {
  Number value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || value <= 0) {
    throw InputError(where, "'" + text + "' is not accepted; accepted: a positive number");
  }
  return value;
}

void assign_roles(std::vector<PublishedCall>* calls) {
  std::map<std::string, std::set<std::string>> machines;  // by class, in alphabetical order
  for (const PublishedCall& call : *calls) {
    if (call.role != SiteRole::apart) machines[call.network_class].insert(call.machine);
  }
  for (PublishedCall& call : *calls) {
    if (call.role == SiteRole::apart) continue;
    const std::set<std::string>& all = machines[call.network_class];
    const auto place = std::distance(all.begin(), all.find(call.machine));
    if (call.network_class.empty()) {
      call.why_apart = "links of no class";
    } else if (all.size() < 2) {
      call.why_apart = "the only machine of " + call.network_class;
      if (is_busy(call.network_class)) call.why_apart += ", which is fitted on it";
    }
    call.role = !call.why_apart.empty() ? SiteRole::apart
                : place % 2 == 1        ? SiteRole::fit
                                        : SiteRole::check;
  }
}

}  // namespace

bool is_busy(const std::string& network_class) { return network_class.ends_with("-busy"); }

std::string idle_class(const std::string& network_class) {
  return network_class.substr(0, network_class.rfind("-busy"));
}

bool fitted_on(const PublishedCall& call) {
  return call.role == SiteRole::fit || is_busy(call.network_class);
}

std::vector<LeftOut> left_out() {
  TomlTable t = TomlTable::from_text(text_of(left_out_file), left_out_file);
  std::vector<LeftOut> all;
  for (TomlTable& row : t.tables("source")) {
    LeftOut left;
    left.source = row.string("name");
    left.rows = static_cast<int>(row.integer("rows", {.min = 1, .max = 1e6}));
    left.why = row.string("why");
    row.string("source");
    all.push_back(std::move(left));
    row.finish();
  }
  t.finish();
  return all;
}

std::vector<PublishedCall> published_calls() {
  const std::map<std::string, Site> sites = read_sites();
  std::istringstream text{std::string(text_of(calls_file))};
  std::map<std::string, std::unique_ptr<Collectives>> made;  // by machine, nodes and ranks
  std::vector<PublishedCall> calls;
  std::string line;
  std::getline(text, line);  // the names of the columns
  for (int at = 2; std::getline(text, line); ++at) {
    std::vector<std::string> cells;
    std::istringstream cut(line);
    for (std::string cell; std::getline(cut, cell, ',');) cells.push_back(cell);
    const Where where{calls_file, at, ""};
    if (cells.size() != 7) throw InputError(where, "accepted: 7 cells");
    const auto found = sites.find(cells[0]);
    if (found == sites.end())
      throw InputError(where, "machine '" + cells[0] + "' is not described");
    const Site& site = found->second;
    const int nodes = number<int>(cells[2], where);
    const int ranks = number<int>(cells[3], where);
    std::unique_ptr<Collectives>& collectives = made[cells[0] + '/' + cells[2] + '/' + cells[3]];
    if (!collectives) {
      ClusterOptions cluster;
      cluster.nodes = nodes;
      cluster.gpus_per_node = ranks / nodes;
      cluster.network = site.network;
      CollectiveOptions options;
      if (site.nccl) options.environment.set_all(*site.nccl, where);
      collectives = std::make_unique<Collectives>(make_cluster(load_machine(site.cluster), cluster),
                                                  Mesh{.replicate = ranks, .shard = 1}, options);
    }
    const CollectiveKind kind = parse_collective(cells[4], where);
    const bool reduces = kind == CollectiveKind::all_reduce ||
                         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce;
    PublishedCall call;
    call.machine = cells[0];
    call.id = cells[1];
    call.bytes = number<std::int64_t>(cells[5], where);
    call.measured_us = number<double>(cells[6], where);
    const std::vector<double>& of_ranks = site.apart_ranks;
    if (!site.apart.empty() &&
        (of_ranks.empty() || std::count(of_ranks.begin(), of_ranks.end(), ranks) > 0)) {
      call.role = SiteRole::apart;
      call.why_apart = site.apart;
    }
    if (site.single_process) call.harness_us = launch_us_per_gpu * ranks;
    const CollectiveCost cost = collectives->cost(Axis::world, kind, call.bytes, site.dtype,
                                                  reduces ? Reduction::sum : Reduction::none);
    call.predicted = cost.predicted;
    call.network_class = cost.network_class;
    calls.push_back(std::move(call));
  }
  assign_roles(&calls);
  return calls;
}

}  // namespace stepcast::validate
