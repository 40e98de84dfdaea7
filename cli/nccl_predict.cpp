// stepcast nccl predict: a table as nccl-tests prints it, forecast.

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "base/byte_size.hpp"
#include "base/error.hpp"
#include "cli/collective_json.hpp"
#include "cli/command.hpp"
#include "cli/json_text.hpp"
#include "cli/nccl.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast::cli {

namespace {

using Json = nlohmann::ordered_json;

Reduction parse_redop(const std::string& name, CollectiveKind op) {
  const bool reduces = op == CollectiveKind::all_reduce || op == CollectiveKind::reduce_scatter ||
                       op == CollectiveKind::reduce;
  if (!reduces) {
    if (name.empty()) return Reduction::none;
    throw InputError({"--redop", 0, ""},
                     fmt::format("{} reduces nothing; accepted: without --redop, or --op "
                                 "all_reduce, reduce_scatter, reduce",
                                 to_string(op)));
  }
  if (name.empty() || name == "sum") return Reduction::sum;
  if (name == "avg") return Reduction::avg;
  if (name == "max" || name == "min") return Reduction::max;
  throw not_accepted({"--redop", 0, ""}, name, {"sum", "avg", "max", "min"});
}

std::vector<Bytes> sizes_of(const NcclOptions& o) {
  const Bytes begin = parse_byte_size(o.begin, {"-b", 0, ""});
  const Bytes end = parse_byte_size(o.end, {"-e", 0, ""});
  double factor = 0;
  const std::from_chars_result read =
      std::from_chars(o.factor.data(), o.factor.data() + o.factor.size(), factor);
  if (read.ec != std::errc{} || read.ptr != o.factor.data() + o.factor.size() ||
      !(factor >= 1.01) || !(factor <= 1e6)) {
    throw InputError({"-f", 0, ""}, "'" + o.factor + "' is not accepted; accepted: 1.01 to 1e6");
  }
  if (end < begin) throw InputError({"-e", 0, ""}, "is less than -b");
  std::vector<Bytes> sizes;
  for (double size = static_cast<double>(begin); size <= static_cast<double>(end) * 1.0001;
       size *= factor) {
    const auto rounded = static_cast<Bytes>(std::llround(size));
    if (sizes.empty() || sizes.back() != rounded) sizes.push_back(rounded);  // 1, 1.1, ... bytes
  }
  return sizes;
}

struct Prediction {
  CollectiveKind op = CollectiveKind::all_reduce;
  std::string dtype, redop;  // as nccl-tests names them; redop "": reduces nothing
  int ranks = 0, nodes = 0;
  std::string machine;
  std::string search;                                  // what NCCL's search found, in words
  std::vector<std::pair<Bytes, CollectiveCost>> rows;  // none for one rank: it has no algorithm
};

// nccl-tests' algbw: the size over the time.
double algbw_gbps(Bytes size, const CollectiveCost& cost) {
  return cost.seconds > 0 ? static_cast<double>(size) / cost.seconds * 1e-9 : 0;
}

std::string to_text(const Prediction& p) {
  std::string text = fmt::format("# {}, {}{}: {} rank{} on {} x {}\n# {}\n", to_string(p.op),
                                 p.dtype, p.redop.empty() ? "" : " " + p.redop, p.ranks,
                                 p.ranks == 1 ? "" : "s", p.nodes, p.machine, p.search);
  if (p.rows.empty())
    return text + "nothing to communicate: one rank's NCCL copies within the GPU\n";
  text += fmt::format("# {:>12} {:>8} {:>7} {:>4} {:>10} {:>8} {:>8}  {}\n", "size", "algo",
                      "proto", "ch", "time", "algbw", "busbw", "from");
  text += fmt::format("# {:>12} {:>8} {:>7} {:>4} {:>10} {:>8} {:>8}\n", "(B)", "", "", "", "(us)",
                      "(GB/s)", "(GB/s)");
  for (const auto& [size, c] : p.rows) {
    text += fmt::format("{:>14} {:>8} {:>7} {:>4} {:>10} {:>8.2f} {:>8.2f}  {}\n", size,
                        to_string(c.choice.algorithm), to_string(c.choice.protocol),
                        c.choice.channels, nccl_time_text(c.seconds * 1e6), algbw_gbps(size, c),
                        c.busbw_gbps, nccl_provenance_text(c));
  }
  return text;
}

std::string to_json(const Prediction& p) {
  Json rows = Json::array();
  for (const auto& [size, cost] : p.rows) {
    Json row = {{"bytes", size}};
    row.update(collective_json(cost));
    row["algbw_gbps"] = algbw_gbps(size, cost);
    rows.push_back(std::move(row));
  }
  return json_text({{"schema", "stepcast.nccl-prediction/1"},
                    {"op", to_string(p.op)},
                    {"dtype", p.dtype},
                    {"reduction", p.redop.empty() ? Json() : Json(p.redop)},
                    {"ranks", p.ranks},
                    {"nodes", p.nodes},
                    {"machine", p.machine},
                    {"search", p.search},
                    {"rows", rows}});
}

}  // namespace

int nccl_predict(const NcclOptions& o, const Scenario& scenario) {
  Prediction p;
  p.op = parse_collective(o.op, {"--op", 0, ""});
  const Dtype dtype = parse_nccl_type(o.dtype);
  const Reduction reduction = parse_redop(o.redop, p.op);
  const std::vector<Bytes> sizes = sizes_of(o);
  const Cluster cluster = resolve_cluster(scenario);
  const CollectiveOptions options = resolve_collectives(scenario);
  note_unheeded(options);
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
  p.dtype = o.dtype;
  if (reduction != Reduction::none) p.redop = o.redop.empty() ? "sum" : o.redop;
  p.ranks = cluster.world_size;
  p.nodes = cluster.nodes;
  p.machine = cluster.machine.name;
  p.search = collectives.describe(Axis::world);
  while (p.search.ends_with('\n')) p.search.pop_back();
  for (const Bytes size : sizes) {
    if (p.ranks == 1) break;
    p.rows.emplace_back(size, collectives.cost(Axis::world, p.op, size, dtype, reduction));
  }
  print(o.json ? to_json(p) : to_text(p));
  return 0;
}

}  // namespace stepcast::cli
