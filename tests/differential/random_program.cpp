#include "tests/differential/random_program.hpp"

#include <algorithm>
#include <random>
#include <string>

#include "sim/schedule/builder.hpp"

namespace stepcast::testing {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomOptions& options)
      : options_(options), random_(seed), b_("random", Mesh{options.roles, 2}) {}

  RandomProgram make() {
    lanes_ = 1 + below(3);
    streams_ = 2 + below(3);
    comms_ = 1 + below(3);
    for (int l = 0; l < lanes_; ++l)
      b_.lane("lane" + std::to_string(l), options_.locks ? "GIL" : "");
    for (int s = 0; s < streams_; ++s) b_.stream("stream" + std::to_string(s));
    for (int c = 0; c < comms_; ++c) {
      b_.communicator("comm" + std::to_string(c), c == 2 ? Axis::shard : Axis::world);
    }
    for (const char* name : {"sm", "hbm", "nic", "storage"}) costs_.resource(name);
    // What all roles have in common: the collectives of each program, -1 for an op of the role's
    // own.
    for (int p = 0; p < options_.programs; ++p) {
      std::vector<int> comms(static_cast<std::size_t>(options_.ops));
      for (int& comm : comms) comm = below(4) == 0 ? below(comms_) : -1;
      skeleton_.push_back(comms);
    }
    for (int r = 0; r < options_.roles; ++r) add_role(r);
    return {b_.take(), std::move(costs_)};
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  double unit() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }
  // From microseconds to milliseconds, as kernels are.
  Seconds seconds() { return 1e-6 + 1e-3 * unit() * unit(); }

  void add_role(int r) {
    b_.role("role" + std::to_string(r), 2 * r, 2);
    costs_.cost_of.emplace_back();
    for (const std::vector<int>& comms : skeleton_) {
      b_.step("step" + std::to_string(costs_.cost_of.back().size()));
      costs_.cost_of.back().emplace_back();
      for (std::size_t i = 0; i < comms.size(); ++i) {
        b_.on_lane(static_cast<LaneIndex>(below(lanes_)));
        b_.at(Phase::forward, b_.unit("u" + std::to_string(i / 8)));
        if (comms[i] >= 0) {
          const auto stream = static_cast<StreamIndex>(comms[i] % streams_);
          b_.collective("collective", CollectiveKind::all_reduce, static_cast<CommIndex>(comms[i]),
                        stream, Dtype::fp32, static_cast<std::int64_t>(i), Reduction::sum, {}, {});
          add_cost(true, 2);
        } else {
          add_own();
        }
      }
    }
  }

  void add_own() {
    const OpIndex count = static_cast<OpIndex>(costs_.cost_of.back().back().size());
    const auto ref = [&] {
      const bool back = below(6) == 0;
      return OpRef{static_cast<OpIndex>(below(std::max(1, back ? options_.ops : count))),
                   static_cast<std::int8_t>(back || count == 0 ? 1 + below(2) : 0)};
    };
    const auto stream = static_cast<StreamIndex>(below(streams_));
    switch (below(10)) {
      case 0:
      case 1:
      case 2: {
        const OpRef refs[] = {ref(), ref()};
        b_.stream_wait(stream,
                       std::span<const OpRef>(refs, 1 + static_cast<std::size_t>(below(2))));
        add_cost(false, below(3) == 0 ? 1 : 0);
        break;
      }
      case 3:
        if (below(3) == 0) {
          b_.storage("read", 1, {}, {});
          add_cost(true, 1);
        } else {
          b_.host_work("work", 1);
          add_cost(false, 1);
        }
        break;
      case 4:
        switch (below(6)) {
          case 0: b_.host_wait_device(); break;
          case 1: b_.host_wait_stream(stream); break;
          default: {
            const OpRef one = ref();
            b_.host_wait(std::span<const OpRef>(&one, 1));
          }
        }
        add_cost(false, below(2));
        break;
      default: b_.compute("compute", stream, {}, {}, {}); add_cost(true, 3);
    }
  }

  // host: 0 nothing, 1 always, else sometimes
  void add_cost(bool runs, int host) {
    OpCost cost;
    cost.segments.first = static_cast<std::int32_t>(costs_.segments.size());
    const int segments = runs ? 1 + (below(4) == 0 ? below(3) : 0) : 0;
    for (int s = 0; s < segments; ++s) {
      Segment segment{below(12) == 0 ? 0.0 : seconds(),
                      {static_cast<std::int32_t>(costs_.demands.size()), 0}};
      for (ResourceIndex d = 0; options_.demands && d < 4; ++d) {
        if (below(2) == 0) continue;
        costs_.demands.push_back({d, segment.solo * (below(3) == 0 ? 1.0 : unit())});
        ++segment.demands.count;
      }
      costs_.segments.push_back(segment);
      ++cost.segments.count;
      cost.solo += segment.solo;
    }
    if (host == 1 || (host > 1 && below(host) == 0)) cost.host = 0.3 * seconds();
    costs_.costs.push_back(cost);
    costs_.cost_of.back().back().push_back(static_cast<std::int32_t>(costs_.costs.size()) - 1);
  }

  RandomOptions options_;
  std::mt19937_64 random_;
  ScheduleBuilder b_;
  CostTable costs_;
  std::vector<std::vector<int>> skeleton_;
  int lanes_ = 1, streams_ = 1, comms_ = 1;
};

}  // namespace

RandomProgram random_program(std::uint64_t seed, const RandomOptions& options) {
  RandomProgram program = Generator(seed, options).make();
  // A third of the ops that run are several launches.
  std::mt19937_64 random(seed + 1);
  for (Role& role : program.schedule.roles) {
    for (StepProgram& step : role.steps) {
      for (Op& op : step.ops) {
        if (op.launches > 0 && random() % 3 == 0) op.launches = 2 + static_cast<int>(random() % 5);
      }
    }
  }
  return program;
}

}  // namespace stepcast::testing
