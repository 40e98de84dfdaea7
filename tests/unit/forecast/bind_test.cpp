// Seconds and demands of a schedule, worked out by hand from the same kernel model.
#include "sim/forecast/bind.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/forecast/dominated.hpp"
#include "sim/schedule/builder.hpp"

using namespace stepcast;

namespace {

const Kernel big = gemm("g", Dtype::bf16, 8192, 8192, 8192);
const Kernel stream_kernel = memory_bound("m", Dtype::bf16, 1'000'000'000, 0, 2);
const Kernel tiny = memory_bound("t", Dtype::bf16, 16, 16);

struct Bound {
  Schedule schedule;
  CostTable table;
};

template <typename Write>
Bound bind(Write&& write, Mesh mesh = {1, 8}) {
  ScheduleBuilder b("bind", mesh);
  b.lane("main");
  b.role("all", 0, mesh.world_size());
  b.step("steady");
  write(b);
  Bound bound{b.take(), {}};
  ClusterOptions options;
  options.gpus = mesh.world_size();
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), options);
  const Collectives collectives(cluster, mesh);
  bound.table = bind_costs(bound.schedule, cluster, collectives, load_profile("pytorch-eager"));
  return bound;
}

KernelCost alone(const Kernel& kernel) {
  return cost_of(kernel, load_gpu("h100-sxm"), load_profile("pytorch-eager"));
}

}  // namespace

TEST_CASE("kernels of one bound are one segment, and a latency-bound one joins its neighbour") {
  const Kernel list[] = {big, big, tiny, stream_kernel, stream_kernel, big};
  const Bound bound = bind([&](ScheduleBuilder& b) {
    b.compute("compute", b.stream("compute"), b.kernels(list), {}, {});
  });
  const OpCost& cost = bound.table.cost(0, 0, 0);
  REQUIRE(cost.segments.count == 3);
  const Segment* segment = &bound.table.segments[static_cast<std::size_t>(cost.segments.first)];
  CHECK(segment[0].solo == doctest::Approx(2 * alone(big).seconds + alone(tiny).seconds));
  CHECK(segment[1].solo == doctest::Approx(2 * alone(stream_kernel).seconds));
  CHECK(segment[2].solo == doctest::Approx(alone(big).seconds));
  CHECK(cost.solo == doctest::Approx(segment[0].solo + segment[1].solo + segment[2].solo));
  // By the profile's rates: three products; the rest is bound by memory.
  CHECK(cost.by_rate[static_cast<std::size_t>(Rate::gemm)] ==
        doctest::Approx(3 * alone(big).seconds));
  CHECK(cost.by_rate[static_cast<std::size_t>(Rate::memory)] ==
        doctest::Approx(alone(tiny).seconds + 2 * alone(stream_kernel).seconds));
  // Launches: 1 + 1 + 1 + 2 + 2 + 1 at 6 us.
  CHECK(cost.host == doctest::Approx(8 * 6e-6));
  // What the first segment asks of the SMs and of the memory.
  REQUIRE(segment[0].demands.count == 2);
  const Demand* demand = &bound.table.demands[static_cast<std::size_t>(segment[0].demands.first)];
  CHECK(bound.table.resources[static_cast<std::size_t>(demand[0].resource)] == Name("sm"));
  CHECK(demand[0].seconds == doctest::Approx(2 * alone(big).sm_seconds + alone(tiny).sm_seconds));
  CHECK(bound.table.resources[static_cast<std::size_t>(demand[1].resource)] == Name("hbm"));
  CHECK(cost.provenance == Provenance::modelled);
}

TEST_CASE("equal work shares one cost") {
  const Bound bound = bind([&](ScheduleBuilder& b) {
    const Range kernels = b.kernels(std::span<const Kernel>(&big, 1));
    const StreamIndex compute = b.stream("compute");
    for (int i = 0; i < 10; ++i) b.compute("compute", compute, kernels, {}, {});
  });
  CHECK(bound.table.costs.size() == 1);
  CHECK(bound.table.cost_of[0][0].size() == 10);
}

TEST_CASE("a collective takes what the collective model says and asks for its links") {
  const Bound bound = bind([&](ScheduleBuilder& b) {
    b.collective("all_gather", CollectiveKind::all_gather, b.communicator("shard", Axis::shard),
                 b.stream("all_gather"), Dtype::bf16, 200'000'000, Reduction::none, {}, {});
    // Something that asks for the SMs alone, so that they are not dropped beside NVLink.
    b.compute("compute", b.stream("compute"), b.kernels(std::span<const Kernel>(&big, 1)), {}, {});
  });
  ClusterOptions options;
  options.gpus = 8;
  const Collectives collectives(make_cluster(load_machine("dgx-h100"), options), {1, 8});
  const CollectiveCost expected = collectives.cost(Axis::shard, CollectiveKind::all_gather,
                                                   400'000'000, Dtype::bf16, Reduction::none);
  const OpCost& cost = bound.table.cost(0, 0, 0);
  CHECK(cost.solo == doctest::Approx(expected.seconds));
  CHECK(cost.host == doctest::Approx(40e-6));
  const Segment& segment = bound.table.segments[static_cast<std::size_t>(cost.segments.first)];
  bool nvlink = false, sm = false;
  for (std::int32_t i = 0; i < segment.demands.count; ++i) {
    const Demand& d = bound.table.demands[static_cast<std::size_t>(segment.demands.first + i)];
    const Name name = bound.table.resources[static_cast<std::size_t>(d.resource)];
    CHECK(d.seconds <= cost.solo * (1 + 1e-12));
    if (name == Name("nvlink")) nvlink = true;
    if (name == Name("sm")) {
      sm = true;
      CHECK(d.seconds == doctest::Approx(expected.sm_share * expected.seconds));
    }
  }
  CHECK(nvlink);
  CHECK(sm);
}

TEST_CASE("host work costs what the profile says and an unknown one is an error") {
  const Bound bound = bind([&](ScheduleBuilder& b) { b.host_work("ddp_grad_hook", 12); });
  CHECK(bound.table.cost(0, 0, 0).host == doctest::Approx(12 * 8e-6));
  CHECK(bound.table.cost(0, 0, 0).solo == 0);
  CHECK_THROWS_WITH_AS(bind([&](ScheduleBuilder& b) { b.host_work("ddp_grad_hok", 1); }),
                       doctest::Contains("did you mean 'ddp_grad_hook'"), InputError);
}

TEST_CASE("an input copy crosses PCIe at 0.8 of the link") {
  const Bound bound = bind([&](ScheduleBuilder& b) {
    b.copy("inputs", CopyKind::host_to_device, b.stream("compute"), 63'008'000, {}, {});
  });
  // PCIe 5 x16: 16 * 3.938 GB/s * 0.8 = 50.4064 GB/s: 1.25 ms, and the engine's start.
  CHECK(bound.table.cost(0, 0, 0).solo == doctest::Approx(1.25e-3 + 5e-6));
}

TEST_CASE("a resource that another one always outweighs is dropped, one that ever binds is kept") {
  // x: nic 3, nvlink 2, hbm 1; y: hbm 2; z: nic 1, nvlink 1.
  CostTable table;
  const ResourceIndex nic = table.resource("nic"), nvlink = table.resource("nvlink"),
                      hbm = table.resource("hbm");
  table.add(3, {{nic, 3}, {nvlink, 2}, {hbm, 1}}, 0, Provenance::modelled, "x");
  table.add(2, {{hbm, 2}}, 0, Provenance::modelled, "y");
  table.add(1, {{nic, 1}, {nvlink, 1}}, 0, Provenance::modelled, "z");
  drop_dominated(table);
  CHECK(table.resources == std::vector<Name>{"nic", "hbm"});
  REQUIRE(table.segments[0].demands.count == 2);
  CHECK(table.demands[0].seconds == 3);
  CHECK(table.demands[1].seconds == 1);
  CHECK(table.resources[static_cast<std::size_t>(table.demands[1].resource)] == Name("hbm"));
  REQUIRE(table.segments[2].demands.count == 1);
  CHECK(table.demands[static_cast<std::size_t>(table.segments[2].demands.first)].seconds == 1);
}
