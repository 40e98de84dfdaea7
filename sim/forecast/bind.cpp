#include "sim/forecast/bind.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "sim/forecast/dominated.hpp"

namespace stepcast {

namespace {

// Host-to-device copies from pinned memory reach about 0.8 of a PCIe link's raw rate: TLP headers
// of 128 or 256 byte payloads and flow control (PCIe base specification).
constexpr double pcie_efficiency = 0.8;
constexpr Seconds copy_floor = 5e-6;  // a copy engine's start, as nvprof shows it; assumed

// GB/s a direction of one lane by PCIe generation, 1 to 6 (8b/10b, then 128b/130b, then FLIT).
constexpr double pcie_lane_gbps[] = {0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

double pcie_gbps(const Gpu& gpu) {
  const int generation = std::clamp(gpu.pcie_generation, 1, 6);
  return pcie_lane_gbps[generation - 1] * gpu.pcie_width * pcie_efficiency;
}

class Binder {
 public:
  Binder(const Schedule& schedule, const Cluster& cluster, const Collectives& collectives,
         const SoftwareProfile& profile, const LoaderRates& loader, const MeasuredDevice& device)
      : schedule_(schedule),
        collectives_(collectives),
        profile_(profile),
        loader_(loader),
        kernels_(KernelModel(cluster.machine.gpu, profile),
                 device.kernels ? *device.kernels : MeasuredKernels{}),
        op_overhead_(device.op_overhead),
        pcie_rate_(pcie_gbps(cluster.machine.gpu) * 1e9),
        sm_(table_.resource("sm")),
        hbm_(table_.resource("hbm")) {}

  CostTable run() {
    for (const Role& role : schedule_.roles) {
      auto& programs = table_.cost_of.emplace_back();
      for (const StepProgram& step : role.steps) {
        auto& ops = programs.emplace_back();
        ops.reserve(step.ops.size());
        for (const Op& op : step.ops) ops.push_back(cost_of(op));
      }
    }
    drop_dominated(table_);
    return std::move(table_);
  }

 private:
  std::int32_t cost_of(const Op& op) {
    switch (op.kind) {
      case OpKind::compute:
        return cached(
            kernel_costs_,
            std::tuple(op.kernels.first, op.kernels.count, op.launches, sharers(op), slowness(op)),
            [&] { return compute(op); });
      case OpKind::collective: {
        const Axis axis = schedule_.communicators[static_cast<std::size_t>(op.comm)].axis;
        return cached(
            collective_costs_,
            std::tuple(axis, op.collective, bytes_of(op), op.dtype, op.reduction, sharers(op)),
            [&] { return collective(op, axis); });
      }
      case OpKind::copy:
        return cached(copy_costs_, std::tuple(op.copy, op.bytes, op.launches, sharers(op)),
                      [&] { return copy(op); });
      case OpKind::host_work:
        return cached(host_costs_, std::tuple(op.cost, op.count, sharers(op)),
                      [&] { return host_work(op); });
      case OpKind::storage: return cached(storage_costs_, op.bytes, [&] { return storage(op); });
      case OpKind::stream_wait:
      case OpKind::host_wait:
      case OpKind::alloc:
      case OpKind::free: return -1;
    }
    return -1;
  }

  template <typename Key, typename Make>
  std::int32_t cached(std::map<Key, std::int32_t>& cache, const Key& key, Make&& make) {
    const auto found = cache.find(key);
    if (found != cache.end()) return found->second;
    const std::int32_t cost = make();
    cache.emplace(key, cost);
    return cost;
  }

  // Threads that share a lock get 1/k of the interpreter each.
  int sharers(const Op& op) const {
    return schedule_.lanes.empty() ? 1 : schedule_.lanes[static_cast<std::size_t>(op.lane)].sharers;
  }

  bool of_head(const Op& op) const {
    static const Name head("head");
    return op.phase == Phase::loss ||
           (op.unit >= 0 && schedule_.units[static_cast<std::size_t>(op.unit)] == head);
  }

  // The profile's word on the time of an op's kernels, beside what they are.
  double slowness(const Op& op) const {
    if (op.phase == Phase::optimizer) return 1 / profile_.optimizer_efficiency;
    return of_head(op) ? 1 / profile_.head_efficiency : 1;
  }

  Rate rate_of(const Op& op, const Kernel& kernel) const {
    if (op.phase == Phase::optimizer) return Rate::memory;
    if (of_head(op)) return Rate::head;
    switch (kernel.kind) {
      case KernelKind::gemm: return Rate::gemm;
      case KernelKind::convolution: return Rate::convolution;
      case KernelKind::attention_forward:
      case KernelKind::attention_backward: return Rate::attention;
      case KernelKind::memory: return Rate::memory;
    }
    return Rate::memory;
  }

  Seconds launches(const Op& op) const {
    return op.launches * sharers(op) * profile_.launch_us * 1e-6;
  }

  void demand(ResourceIndex resource, Seconds seconds) {
    if (seconds > 0) table_.demands.push_back({resource, seconds});
  }

  // A cost of several segments; segments and demands are appended by the caller in between.
  std::int32_t finish(OpCost cost, std::size_t first_segment) {
    cost.segments = {static_cast<std::int32_t>(first_segment),
                     static_cast<std::int32_t>(table_.segments.size() - first_segment)};
    cost.solo = 0;
    for (std::size_t i = first_segment; i < table_.segments.size(); ++i) {
      cost.solo += table_.segments[i].solo;
    }
    table_.costs.push_back(cost);
    return static_cast<std::int32_t>(table_.costs.size()) - 1;
  }

  void segment(Seconds solo, Seconds sm, Seconds hbm) {
    const auto first = static_cast<std::int32_t>(table_.demands.size());
    demand(sm_, sm);
    demand(hbm_, hbm);
    const auto count = static_cast<std::int32_t>(table_.demands.size()) - first;
    table_.segments.push_back({solo, {first, count}});
  }

  std::int32_t compute(const Op& op) {
    static const Name roofline("roofline");
    static const Name measured("measured");
    const std::size_t first_segment = table_.segments.size();
    OpCost cost;
    cost.host = launches(op);
    cost.provenance = Provenance::measured;  // the best; every kernel can only worsen it
    cost.detail = roofline;
    const double slower = slowness(op);
    KernelCost run;  // of the segment that is open
    bool open = false;
    for (const Kernel& kernel : schedule_.at_kernels(op.kernels)) {
      CalibratedKernels::Cost k = kernels_.cost(kernel);
      if (!k.how) {  // what was measured here needs no profile
        k.seconds *= slower;
        k.sm_seconds *= slower;
        k.hbm_seconds *= slower;
      }
      cost.provenance = worse(cost.provenance, k.provenance);
      cost.by_rate[static_cast<std::size_t>(rate_of(op, kernel))] += k.seconds;
      if (k.how) cost.detail = measured;
      const bool joins = open && (k.bound == run.bound || k.bound == KernelBound::latency ||
                                  run.bound == KernelBound::latency);
      if (!joins && open) segment(run.seconds, run.sm_seconds, run.hbm_seconds);
      if (!joins) {
        run = k;
        open = true;
        continue;
      }
      if (run.bound == KernelBound::latency) run.bound = k.bound;
      run.seconds += k.seconds;
      run.sm_seconds += k.sm_seconds;
      run.hbm_seconds += k.hbm_seconds;
    }
    if (open) segment(run.seconds + op_overhead_, run.sm_seconds, run.hbm_seconds);
    return finish(cost, first_segment);
  }

  std::int32_t collective(const Op& op, Axis axis) {
    static const Name work("collective");
    CollectiveCost c = collectives_.cost(axis, op.collective, bytes_of(op), op.dtype, op.reduction);
    const double slower = c.measured ? 1 : 1 / profile_.collective_efficiency;
    c.seconds *= slower;
    for (LinkLoad& load : c.loads) load.seconds *= slower;
    const double takes = profile_.overlap_interference;
    const std::size_t first_segment = table_.segments.size();
    const auto first = static_cast<std::int32_t>(table_.demands.size());
    demand(sm_, std::min(1.0, c.sm_share * takes) * c.seconds);
    // A collective that its model says takes `seconds` alone moves its bytes in that time.
    demand(hbm_, c.hbm_share ? *c.hbm_share * c.seconds
                             : std::min(c.seconds,
                                        takes * c.hbm_bytes / kernels_.memory_bytes_per_second()));
    for (const LinkLoad& load : c.loads) demand(table_.resource(load.resource), load.seconds);
    table_.segments.push_back(
        {c.seconds, {first, static_cast<std::int32_t>(table_.demands.size()) - first}});
    OpCost cost;
    cost.host = profile_.host_cost_us(work) * 1e-6 * sharers(op);
    cost.provenance = c.provenance;
    cost.detail = words(c.choice);
    return finish(cost, first_segment);
  }

  std::int32_t copy(const Op& op) {
    static const Name memory("copy/hbm");
    static const Name pcie("copy/pcie");
    const std::size_t first_segment = table_.segments.size();
    OpCost cost;
    cost.host = launches(op);
    cost.provenance = Provenance::assumed;
    const auto bytes = static_cast<double>(op.bytes);
    if (op.copy == CopyKind::device_to_device) {
      const Seconds seconds = 2 * bytes / kernels_.memory_bytes_per_second();
      segment(copy_floor + seconds + op_overhead_, 0, seconds);
      cost.detail = memory;
    } else {  // peer copies too: without NVLink they cross PCIe
      const Seconds seconds = bytes / pcie_rate_;
      const auto first = static_cast<std::int32_t>(table_.demands.size());
      demand(table_.resource("pcie"), seconds);
      const auto count = static_cast<std::int32_t>(table_.demands.size()) - first;
      table_.segments.push_back({copy_floor + seconds + op_overhead_, {first, count}});
      cost.detail = pcie;
    }
    return finish(cost, first_segment);
  }

  std::int32_t storage(const Op& op) {
    static const Name loader("loader");
    const std::size_t first_segment = table_.segments.size();
    OpCost cost;
    cost.provenance = Provenance::assumed;  // the user's figures
    cost.detail = loader;
    segment(loader_.batch_seconds(op.bytes), 0, 0);
    return finish(cost, first_segment);
  }

  std::int32_t host_work(const Op& op) {
    OpCost cost;
    cost.host = profile_.host_cost_us(op.cost) * 1e-6 * op.count * sharers(op);
    cost.provenance = profile_.provenance;
    cost.detail = profile_.name;
    return finish(cost, table_.segments.size());
  }

  const Schedule& schedule_;
  const Collectives& collectives_;
  const SoftwareProfile& profile_;
  const LoaderRates& loader_;
  CalibratedKernels kernels_;
  Seconds op_overhead_;
  double pcie_rate_;
  CostTable table_;
  ResourceIndex sm_, hbm_;
  std::map<std::tuple<std::int32_t, std::int32_t, int, int, double>, std::int32_t> kernel_costs_;
  std::map<std::tuple<Axis, CollectiveKind, Bytes, Dtype, Reduction, int>, std::int32_t>
      collective_costs_;
  std::map<std::tuple<CopyKind, Bytes, int, int>, std::int32_t> copy_costs_;
  std::map<std::tuple<Name, std::int32_t, int>, std::int32_t> host_costs_;
  std::map<Bytes, std::int32_t> storage_costs_;
};

}  // namespace

Seconds LoaderRates::batch_seconds(Bytes bytes) const {
  const auto size = static_cast<double>(bytes);
  const Seconds read = bytes_per_second > 0 ? size / bytes_per_second : 0;
  const Seconds work = size / static_cast<double>(sample_bytes) * sample_seconds;
  if (workers == 0) return read + work;
  return std::max(read, (read + work) / workers);
}

CostTable bind_costs(const Schedule& schedule, const Cluster& cluster,
                     const Collectives& collectives, const SoftwareProfile& profile,
                     const LoaderRates& loader, const MeasuredDevice& device) {
  return Binder(schedule, cluster, collectives, profile, loader, device).run();
}

}  // namespace stepcast
