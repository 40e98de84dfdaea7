// engines_bench [REPEAT]: wall time of both engines on a synthetic FSDP-like step of 80 layers,
// with the contention of a real one: kernels ask for SMs and HBM, collectives for SMs, HBM and
// NICs. Prints the median of REPEAT (5) runs; no test.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "sim/engines/engine.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast {
namespace {

constexpr int layers = 80;
constexpr int kernel_ops = 7;  // a layer's forward; backward has as many

Schedule build() {
  ScheduleBuilder b("bench", Mesh{1, 64});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex gather = b.stream("all_gather");
  const StreamIndex reduce = b.stream("reduce_scatter");
  const CommIndex shard = b.communicator("shard", Axis::shard);
  b.role("all", 0, 64);
  b.step("steady");
  OpIndex copied = -1;
  OpIndex reduced = -1;
  const auto layer = [&](Phase phase, int i) {
    b.at(phase, b.unit("layers." + std::to_string(i)));
    if (copied >= 0) b.stream_wait(gather, copied);
    const OpIndex gathered = b.collective("all_gather", CollectiveKind::all_gather, shard, gather,
                                          Dtype::bf16, 1 << 20, Reduction::none, {}, {});
    b.stream_wait(compute, gathered);
    copied = b.compute("copy_out", compute, {}, {}, {});
    for (int k = 0; k < kernel_ops; ++k) b.compute("compute", compute, {}, {}, {});
    if (phase != Phase::backward) return;
    if (reduced >= 0) b.stream_wait(compute, reduced);
    b.stream_wait(reduce, b.compute("reduce_copy_in", compute, {}, {}, {}));
    reduced = b.collective("reduce_scatter", CollectiveKind::reduce_scatter, shard, reduce,
                           Dtype::fp32, 1 << 20, Reduction::avg, {}, {});
  };
  for (int i = 0; i < layers; ++i) layer(Phase::forward, i);
  for (int i = layers; i-- > 0;) layer(Phase::backward, i);
  b.stream_wait(compute, reduced);
  return b.take();
}

// Two segments an op of compute (GEMM, elementwise), one a collective or a copy.
CostTable cost(const Schedule& schedule) {
  CostTable costs;
  const ResourceIndex sm = costs.resource("sm");
  const ResourceIndex hbm = costs.resource("hbm");
  const ResourceIndex nic = costs.resource("nic");
  const auto kernels = costs.add(4e-4, {{sm, 4e-4}, {hbm, 1e-4}}, 1e-5, Provenance::assumed, "k");
  costs.costs[static_cast<std::size_t>(kernels)].segments.count = 2;
  costs.costs[static_cast<std::size_t>(kernels)].solo = 5e-4;
  costs.segments.push_back({1e-4, {static_cast<std::int32_t>(costs.demands.size()), 1}});
  costs.demands.push_back({hbm, 1e-4});
  const auto copy = costs.add(5e-5, {{hbm, 5e-5}}, 1e-5, Provenance::assumed, "copy");
  const auto collective = costs.add(3e-3, {{sm, 5e-4}, {hbm, 3e-4}, {nic, 3e-3}}, 1e-5,
                                    Provenance::assumed, "collective");
  auto& of = costs.cost_of.emplace_back().emplace_back();
  for (const Op& op : schedule.roles[0].steps[0].ops) {
    of.push_back(op.kind == OpKind::collective    ? collective
                 : op.kind == OpKind::stream_wait ? -1
                 : op.verb == Name("compute")     ? kernels
                                                  : copy);
  }
  return costs;
}

void measure(Engine& engine, const Schedule& schedule, const CostTable& costs, int repeat) {
  std::vector<double> seconds;
  Timeline timeline;
  for (int i = 0; i <= repeat; ++i) {  // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    timeline = engine.run(schedule, costs);
    const auto end = std::chrono::steady_clock::now();
    if (i > 0) seconds.push_back(std::chrono::duration<double>(end - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::printf("%-8s %zu steps, %zu spans: %9.3f ms, %6.3f us a span, period %.6f s\n",
              engine.name().c_str(), timeline.steps.size(), timeline.spans.size(), median * 1e3,
              median * 1e6 / static_cast<double>(timeline.spans.size()), timeline.period());
}

}  // namespace
}  // namespace stepcast

int main(int argc, char** argv) {
  using namespace stepcast;
  const int repeat = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const Schedule schedule = build();
  const CostTable costs = cost(schedule);
  std::printf("%zu ops a step\n", schedule.roles[0].steps[0].ops.size());
  measure(*make_formula_engine(), schedule, costs, repeat);
  measure(*make_fluid_engine(), schedule, costs, repeat);
}
