#include "sim/calibration/from_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/error.hpp"
#include "sim/calibration/known_gpu.hpp"
#include "sim/calibration/repetitions.hpp"
#include "sim/interop/trace_ops.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

namespace {

// What the kernels of one file need to be joined to their ops; text is gone by now.
struct Launched {
  std::int64_t external_id = -1;
  std::int64_t correlation = -1;
  double start_us = 0;
  double us = 0;
  bool nccl = false;
  bool tf32 = false;
  std::int32_t own = -1;  // a collective that the kernel itself names
};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

class File {
 public:
  explicit File(const std::string& path) {
    info = read_kineto(path, [&](const KinetoEvent& event) { take(event); });
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const Launched& a, const Launched& b) { return a.start_us < b.start_us; });
  }

  KinetoInfo info;
  std::vector<Launched> kernels;                                // by start
  std::unordered_map<std::int64_t, std::int32_t> op_of_id;      // external id -> ops
  std::unordered_map<std::int64_t, std::int64_t> id_of_launch;  // correlation -> external id
  std::vector<Kernel> ops;
  std::vector<Name> names;  // of all ops that launch something
  std::unordered_map<std::int64_t, std::int32_t> name_of_id;
  std::vector<TraceCollective> collectives;
  std::unordered_map<std::int64_t, std::int32_t> collective_of_id;
  std::vector<double> launch_us;
  std::vector<double> step_us;

  std::int64_t id_of(const Launched& kernel) const {
    if (kernel.external_id >= 0) return kernel.external_id;
    const auto known = id_of_launch.find(kernel.correlation);
    return known == id_of_launch.end() ? -1 : known->second;
  }

 private:
  void take(const KinetoEvent& event) {
    if (event.phase != "X") return;
    if (event.category == "kernel") return kernel(event);
    if (event.category == "cpu_op" || event.category == "operator") return op(event);
    const bool runtime = event.category == "cuda_runtime" || event.category == "cuda_driver" ||
                         event.category == "runtime";
    if (runtime) {
      if (event.correlation >= 0 && event.external_id >= 0) {
        id_of_launch.emplace(event.correlation, event.external_id);
      }
      if (event.name == "cudaLaunchKernel" || event.name == "hipLaunchKernel") {
        launch_us.push_back(event.duration_us);
      }
      return;
    }
    if (event.category == "user_annotation" && event.name.starts_with("ProfilerStep")) {
      step_us.push_back(event.duration_us);
    }
  }

  void kernel(const KinetoEvent& event) {
    if (!(event.duration_us > 0)) return;
    Launched k;
    k.external_id = event.external_id;
    k.correlation = event.correlation;
    k.start_us = event.start_us;
    k.us = event.duration_us;
    k.nccl = event.name.starts_with("nccl") || event.name.starts_with("void nccl");
    k.tf32 = contains(event.name, "tf32") || contains(event.name, "_s1688gemm");
    if (k.nccl) {
      if (const std::optional<TraceCollective> c = collective_of(event)) {
        k.own = static_cast<std::int32_t>(collectives.size());
        collectives.push_back(*c);
      }
    }
    kernels.push_back(k);
  }

  void op(const KinetoEvent& event) {
    if (event.external_id < 0) return;
    if (const std::optional<TraceCollective> c = collective_of(event)) {
      collective_of_id[event.external_id] = static_cast<std::int32_t>(collectives.size());
      collectives.push_back(*c);
      return;
    }
    const Name name(event.name);
    if (names.empty() || names.back() != name) names.push_back(name);
    name_of_id[event.external_id] = static_cast<std::int32_t>(names.size()) - 1;
    if (const std::optional<Kernel> shape = kernel_of_op(event)) {
      op_of_id[event.external_id] = static_cast<std::int32_t>(ops.size());
      ops.push_back(*shape);
    }
  }
};

using ShapeKey = std::tuple<Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using CollectiveKey = std::tuple<CollectiveKind, int, int, Dtype, Bytes>;  // op, ranks, nodes

class Gather {
 public:
  explicit Gather(const TraceOptions& options) : options_(options) {}

  void add(const File& file) {
    const int gpus = options_.gpus_per_node > 0 ? options_.gpus_per_node
                                                : static_cast<int>(file.info.devices.size());
    struct Call {
      double us = 0;
      bool tf32 = false;
    };
    std::map<std::int64_t, Call> calls;  // by external id: all kernels of one op
    std::map<CollectiveKey, std::vector<double>> here;
    for (const Launched& k : file.kernels) {
      const std::int64_t id = file.id_of(k);
      if (k.nccl) {
        ++out.collectives;
        const auto known = file.collective_of_id.find(id);
        const std::int32_t which = k.own >= 0                             ? k.own
                                   : known == file.collective_of_id.end() ? -1
                                                                          : known->second;
        if (which < 0) continue;
        ++out.covered_collectives;
        const TraceCollective& c = file.collectives[static_cast<std::size_t>(which)];
        here[{c.op, c.ranks, nodes_of(c, gpus), c.dtype, c.bytes}].push_back(k.us);
        continue;
      }
      ++out.kernels;
      out.kernel_us += k.us;
      if (id >= 0 && file.op_of_id.count(id) > 0) {
        Call& call = calls[id];
        call.us += k.us;
        call.tf32 = call.tf32 || k.tf32;
        out.covered_us += k.us;
      } else {
        const auto name = file.name_of_id.find(id);
        left_out_[name == file.name_of_id.end()
                      ? Name("kernels of no op")
                      : file.names[static_cast<std::size_t>(name->second)]] += k.us;
      }
    }
    for (const auto& [id, call] : calls) {
      const Kernel& shape = file.ops[static_cast<std::size_t>(file.op_of_id.at(id))];
      if (shape.kind == KernelKind::memory) {
        memory_[shape.bytes_read + shape.bytes_written].push_back(call.us);
      } else {
        const Dtype dtype = call.tf32 ? Dtype::tf32 : shape.dtype;
        products_[{dtype, shape.m, shape.n, shape.k, shape.batch}].push_back(call.us);
      }
    }
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
  Gather gather(options);
  CalibrationOrigin& origin = gather.out.calibration.origin;
  const std::string first = files.front().substr(files.front().rfind('/') + 1);
  origin.source =
      files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
  for (const std::string& path : files) {
    const File file(path);
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
