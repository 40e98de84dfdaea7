#include "sim/calibration/from_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "sim/calibration/known_gpu.hpp"
#include "sim/calibration/repetitions.hpp"
#include "sim/calibration/trace_calls.hpp"
#include "sim/interop/chakra.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

namespace {

using ShapeKey = std::tuple<Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using CollectiveKey = std::tuple<CollectiveKind, int, int, Dtype, Bytes>;  // op, ranks, nodes

class Gather {
 public:
  explicit Gather(const TraceOptions& options) : options_(options) {}

  void add(const TraceCalls& file) {
    const int gpus = options_.gpus_per_node > 0 ? options_.gpus_per_node
                                                : static_cast<int>(file.info.devices.size());
    std::vector<Part> parts;
    std::map<CollectiveKey, std::vector<double>> here;
    for (const TraceCalls::Launched& k : file.kernels) {
      if (k.nccl) {
        ++out.collectives;
        const TraceCollective* c = file.collective_of(k);
        if (c == nullptr) continue;
        ++out.covered_collectives;
        here[{c->op, c->ranks, nodes_of(*c, gpus), c->dtype, c->bytes}].push_back(k.us);
        continue;
      }
      ++out.kernels;
      out.kernel_us += k.us;
      if (const Kernel* shape = file.shape_of(k)) {
        parts.push_back({k.op, shape, k.us, k.tf32});
        out.covered_us += k.us;
      } else {
        const Name* name = file.name_of(k);
        left_out_[name == nullptr ? Name("kernels of no op") : *name] += k.us;
      }
    }
    add_calls(std::move(parts));
    for (const auto& [key, us] : here) collectives_[key].push_back(us);
    launches_.insert(launches_.end(), file.launch_us.begin(), file.launch_us.end());
  }

  void finish() {
    Calibration& c = out.calibration;
    for (const auto& [key, us] : products_) {
      const auto& [dtype, m, n, k, batch] = key;
      const Repeated r = repeated(us);
      c.kernels.shapes.push_back({gemm("trace", dtype, m, n, k, batch), r.median * 1e-6, r.spread});
    }
    MeasuredKernels::Series series;
    for (const auto& [bytes, us] : memory_) {
      const Repeated r = repeated(us);
      series.bytes.push_back(bytes);
      series.seconds.push_back(r.median * 1e-6);
      series.spread.push_back(r.spread);
    }
    if (!series.bytes.empty()) c.kernels.memory.push_back(series);
    add_collectives(c);
    if (!launches_.empty()) c.host.bare_launch_us = repeated(launches_).median;
    for (const auto& [name, us] : left_out_) order_.emplace_back(us, name);
    std::sort(order_.begin(), order_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    for (std::size_t i = 0; i < order_.size() && i < 8; ++i) {
      const double part = 100 * order_[i].first / out.kernel_us;
      if (part < 0.5) break;
      std::string name = order_[i].second.str();
      if (name.size() > 44) name = name.substr(0, 41) + "...";  // torch.compile's
      out.left_out.push_back(fmt::format("{} {:.0f} %", name, part));
    }
  }

  TraceCalibration out;

 private:
  // A kernel of a call.
  struct Part {
    std::int64_t op = -1;
    const Kernel* shape = nullptr;
    double us = 0;
    bool tf32 = false;
  };

  // All kernels of one op are one call.
  void add_calls(std::vector<Part> parts) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.op < b.op; });
    for (std::size_t i = 0; i < parts.size();) {
      Part call = parts[i];
      while (++i < parts.size() && parts[i].op == call.op) {
        call.us += parts[i].us;
        call.tf32 = call.tf32 || parts[i].tf32;
      }
      const Kernel& shape = *call.shape;
      if (shape.kind == KernelKind::memory) {
        memory_[shape.bytes_read + shape.bytes_written].push_back(call.us);
      } else {
        const Dtype dtype = call.tf32 ? Dtype::tf32 : shape.dtype;
        products_[{dtype, shape.m, shape.n, shape.k, shape.batch}].push_back(call.us);
      }
    }
  }

  static int nodes_of(const TraceCollective& c, int gpus_per_node) {
    if (gpus_per_node < 1) return 1;
    if (c.members.empty()) return static_cast<int>(ceil_div(c.ranks, gpus_per_node));
    std::vector<int> nodes;
    for (const int rank : c.members) nodes.push_back(rank / gpus_per_node);
    std::sort(nodes.begin(), nodes.end());
    return static_cast<int>(std::unique(nodes.begin(), nodes.end()) - nodes.begin());
  }

  // The calls of one size, as if no rank had waited.
  static Repeated without_waiting(const std::vector<std::vector<double>>& by_rank) {
    const bool aligned =
        by_rank.size() > 1 && std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& calls) {
          return calls.size() == by_rank.front().size();
        });
    if (aligned) {
      std::vector<double> shortest = by_rank.front();
      for (const std::vector<double>& calls : by_rank) {
        for (std::size_t i = 0; i < calls.size(); ++i) {
          shortest[i] = std::min(shortest[i], calls[i]);
        }
      }
      return repeated(shortest);
    }
    std::vector<double> all;
    for (const std::vector<double>& calls : by_rank)
      all.insert(all.end(), calls.begin(), calls.end());
    Repeated r = repeated(all);
    r.median = *std::min_element(all.begin(), all.end());
    return r;
  }

  void add_collectives(Calibration& c) {
    std::vector<MeasuredTable::Series> all;
    for (const auto& [key, by_rank] : collectives_) {
      const auto& [op, ranks, nodes, dtype, bytes] = key;
      const bool same = !all.empty() && all.back().op == op && all.back().ranks == ranks &&
                        all.back().nodes == nodes && all.back().dtype == dtype;
      if (!same) {
        MeasuredTable::Series& series = all.emplace_back();
        series.op = op;
        series.ranks = ranks;
        series.nodes = nodes;
        series.dtype = dtype;
        series.source = out.calibration.origin.source;
      }
      const Repeated r = without_waiting(by_rank);
      all.back().bytes.push_back(bytes);  // the map's order: rising
      all.back().time_us.push_back(r.median);
      all.back().spread.push_back(r.spread);
    }
    for (MeasuredTable::Series& series : all) c.collectives.add(std::move(series));
  }

  const TraceOptions& options_;
  std::map<ShapeKey, std::vector<double>> products_;
  std::map<Bytes, std::vector<double>> memory_;
  std::map<CollectiveKey, std::vector<std::vector<double>>> collectives_;
  std::vector<double> launches_;
  std::map<Name, double> left_out_;
  std::vector<std::pair<double, Name>> order_;
};

std::string gpu_of(const KinetoInfo& info) {
  if (info.devices.empty()) return "unknown-gpu";
  const KinetoInfo::Device& device = info.devices.front();
  return known_gpu({device.name, device.memory_bytes, device.compute_capability, device.sm_count});
}

}  // namespace

TraceCalibration calibration_of_traces(const std::vector<std::string>& files,
                                       const TraceOptions& options) {
  STEPCAST_ASSERT(!files.empty(), "no trace to read");
  // Kernels of a GPU that nothing knows would be passed over without a word. A path may be of a
  // file that is yet to be written.
  const std::vector<std::string> known = catalog_gpus();
  const bool is_path = options.gpu.find_first_of("./") != std::string::npos;
  if (!options.gpu.empty() && !is_path &&
      std::find(known.begin(), known.end(), options.gpu) == known.end()) {
    throw not_accepted({"--gpu", 0, ""}, options.gpu, known);
  }
  Gather gather(options);
  CalibrationOrigin& origin = gather.out.calibration.origin;
  const std::string first = files.front().substr(files.front().rfind('/') + 1);
  origin.source =
      files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
  for (const std::string& path : files) {
    const bool chakra = is_chakra_file(path);
    if (chakra && options.gpu.empty()) {
      throw InputError({"--gpu", 0, ""}, fmt::format("is missing: {} is a Chakra trace, which does "
                                                     "not name its GPU; accepted: a name of "
                                                     "`stepcast list gpus`",
                                                     path));
    }
    const TraceCalls file = chakra ? calls_of_chakra(path) : calls_of_kineto(path);
    if (file.kernels.empty() && chakra) {
      throw InputError({path, 0, ""},
                       "has no nodes of a GPU that take time; accepted: an execution trace linked "
                       "with the profiler's (chakra_trace_link)");
    }
    if (file.kernels.empty()) {
      throw InputError({path, 0, "traceEvents"},
                       "has no kernels of a GPU; accepted: a trace with ProfilerActivity.CUDA");
    }
    gather.add(file);
    if (++gather.out.ranks > 1) continue;
    gather.out.info = file.info;
    gather.out.step_us = file.step_us;
  }
  const KinetoInfo& info = gather.out.info;
  origin.device = info.devices.empty() ? "unknown GPU" : info.devices.front().name;
  origin.name = origin.device;
  origin.gpu = options.gpu.empty() ? gpu_of(info) : options.gpu;
  origin.driver = info.driver;
  origin.executor = "pytorch";
  if (!info.runtime.empty()) origin.versions.push_back("CUDA runtime " + info.runtime);
  if (!info.nccl_version.empty()) origin.versions.push_back("NCCL " + info.nccl_version);
  gather.finish();
  return std::move(gather.out);
}

}  // namespace stepcast
