// Jitter: order statistics by hand, and folded ranks against a vector of them.

#include "sim/engines/jitter.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/schedule/builder.hpp"

using namespace stepcast;

namespace {

enum class Style { ddp, fsdp, hsdp };

// `units` kernels forward and twice as many backward, 1 ms each. DDP reduces behind them, once for
// every fourth; FSDP gathers before each unit, the next one while a unit computes, and reduces
// behind it; HSDP does so in groups of 8 and reduces over all at the end.
struct Program {
  Schedule schedule;
  CostTable costs;
};
Program program(Style style, int ranks, int units) {
  const Mesh mesh = style == Style::hsdp   ? Mesh{ranks / 8, 8}
                    : style == Style::fsdp ? Mesh{1, ranks}
                                           : Mesh{ranks, 1};
  ScheduleBuilder b("jitter", mesh);
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex gather = b.stream("gather");
  const StreamIndex reduce = b.stream("reduce");
  const bool sharded = style != Style::ddp;
  const CommIndex shard = b.communicator("shard", sharded ? Axis::shard : Axis::replicate);
  const CommIndex all = b.communicator("all", Axis::replicate);
  b.role("all", 0, ranks);
  b.step("steady");
  std::vector<OpIndex> computed;
  const auto run = [&](Phase phase, int unit) {
    b.at(phase, b.unit("u" + std::to_string(unit)));
    if (sharded) {
      // At most one unit ahead of the computation.
      if (computed.size() >= 2) b.stream_wait(gather, computed[computed.size() - 2]);
      const OpIndex gathered = b.collective("all_gather", CollectiveKind::all_gather, shard, gather,
                                            Dtype::bf16, 8, Reduction::sum, {}, {});
      b.stream_wait(compute, gathered);
    }
    computed.push_back(b.compute("kernel", compute, {}, {}, {}));
    if (phase == Phase::backward) {
      b.stream_wait(reduce, computed.back());
      if (sharded) {
        b.collective("reduce_scatter", CollectiveKind::reduce_scatter, shard, reduce, Dtype::bf16,
                     8, Reduction::sum, {}, {});
      } else if (unit % 4 == 0) {
        b.collective("all_reduce", CollectiveKind::all_reduce, all, reduce, Dtype::bf16, 8,
                     Reduction::sum, {}, {});
      }
    }
  };
  for (int i = 0; i < units; ++i) run(Phase::forward, i);
  for (int i = 2 * units - 1; i >= 0; --i) run(Phase::backward, i);
  OpIndex last = -1;
  if (style == Style::hsdp) {
    last = b.collective("all_reduce", CollectiveKind::all_reduce, all, reduce, Dtype::bf16, 8,
                        Reduction::sum, {}, {});
  } else {
    last = b.collective("norm", CollectiveKind::all_reduce, sharded ? shard : all, reduce,
                        Dtype::bf16, 8, Reduction::sum, {}, {});
  }
  b.stream_wait(compute, last);
  b.stream_wait(gather, b.compute("optimizer", compute, {}, {}, {}));
  Program made{b.take(), {}};
  made.costs = costs_by(made.schedule, [](const Op& op) {
    return op.kind == OpKind::compute ? 1e-3 : op.kind == OpKind::collective ? 0.3e-3 : 0.0;
  });
  return made;
}

void compare(Style style, int ranks, int units, Jitter jitter) {
  const Program p = program(style, ranks, units);
  const Seconds still = jitter_folded(p.schedule, p.costs, {});
  const Seconds folded = jitter_folded(p.schedule, p.costs, jitter);
  const int draws = ranks <= 16 ? 40 : 1;  // few ranks differ much from draw to draw
  Seconds drawn = 0;
  for (int i = 0; i < draws; ++i) {
    jitter.seed = static_cast<std::uint64_t>(i) + 1;
    drawn += jitter_of_ranks(p.schedule, p.costs, jitter) / draws;
  }
  CAPTURE(static_cast<int>(style));
  CAPTURE(ranks);
  CAPTURE(still);
  CAPTURE(drawn / still);
  CHECK(folded == doctest::Approx(drawn).epsilon(0.02));
  CHECK(folded > still);
}

}  // namespace

TEST_CASE("the largest of n normals: 1/sqrt(pi) of two, 3/(2 sqrt(pi)) of three, 1.4236 of eight") {
  CHECK(largest_of_normals(1).mean == doctest::Approx(0).epsilon(1e-9));
  CHECK(largest_of_normals(1).deviation == doctest::Approx(1).epsilon(1e-9));
  CHECK(largest_of_normals(2).mean == doctest::Approx(1 / std::sqrt(M_PI)).epsilon(1e-9));
  CHECK(largest_of_normals(2).deviation == doctest::Approx(std::sqrt(1 - 1 / M_PI)).epsilon(1e-9));
  CHECK(largest_of_normals(3).mean == doctest::Approx(1.5 / std::sqrt(M_PI)).epsilon(1e-9));
  CHECK(largest_of_normals(8).mean == doctest::Approx(1.42360).epsilon(1e-5));
}

TEST_CASE(
    "a step of 100 kernels and an all-reduce on 8 ranks: luck evens out, a slow GPU does not") {
  ScheduleBuilder b("step", Mesh{8, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const CommIndex world = b.communicator("world", Axis::world);
  b.role("all", 0, 8);
  b.step("steady");
  b.at(Phase::backward, b.unit("u"));
  for (int i = 0; i < 100; ++i) b.compute("kernel", compute, {}, {}, {});
  b.collective("all_reduce", CollectiveKind::all_reduce, world, compute, Dtype::fp32, 1,
               Reduction::sum, {}, {});
  const Schedule schedule = b.take();
  const CostTable costs =
      costs_by(schedule, [](const Op& op) { return op.kind == OpKind::compute ? 1e-3 : 5e-3; });
  CHECK(jitter_folded(schedule, costs, {}) == doctest::Approx(0.105));
  // 2 ms for good and 0.5 ms by chance: 2.0616 ms, of which the largest of 8 is 1.4236.
  CHECK(jitter_folded(schedule, costs, {0.02, 0.05}) ==
        doctest::Approx(0.105 + 1.42360 * std::hypot(2e-3, 0.5e-3)).epsilon(1e-6));
  CHECK(jitter_folded(schedule, costs, {0, 0.05}) ==
        doctest::Approx(0.105 + 1.42360 * 0.5e-3).epsilon(1e-6));
  // Many draws of the vector have that mean.
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    sum += jitter_of_ranks(schedule, costs, {0.02, 0.05, seed});
  }
  CHECK(sum / 200 == doctest::Approx(0.105 + 1.42360 * std::hypot(2e-3, 0.5e-3)).epsilon(0.003));
}

TEST_CASE("jitter folded against a vector of 8, 512 and 16,384 ranks: within 2 %") {
  for (const Jitter jitter : {Jitter{0.02, 0.0}, Jitter{0.0, 0.05}, Jitter{0.01, 0.05}}) {
    for (const Style style : {Style::ddp, Style::fsdp, Style::hsdp}) {
      compare(style, 512, 16, jitter);
      compare(style, 16384, 4, jitter);
    }
    compare(Style::ddp, 8, 16, jitter);
    compare(Style::fsdp, 8, 16, jitter);
    compare(Style::hsdp, 16, 16, jitter);
  }
}

TEST_CASE("without jitter both are the step as it is") {
  for (const Style style : {Style::ddp, Style::fsdp, Style::hsdp}) {
    const Program p = program(style, 64, 4);
    CHECK(jitter_of_ranks(p.schedule, p.costs, {}) ==
          doctest::Approx(jitter_folded(p.schedule, p.costs, {})).epsilon(1e-12));
  }
}

TEST_CASE("the same seed draws the same, another one another") {
  const Program p = program(Style::ddp, 64, 4);
  const auto drawn = [&](std::uint64_t seed) {
    return jitter_of_ranks(p.schedule, p.costs, {0.02, 0.05, seed});
  };
  CHECK(drawn(3) == drawn(3));
  CHECK(drawn(3) != drawn(4));
}
