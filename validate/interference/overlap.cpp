#include "validate/interference/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/engines/engine.hpp"
#include "sim/kernels/kernel_cost.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast::embedded {
std::span<const File> interference();
}

namespace stepcast::validate {
namespace {

// Two streams of one rank and what they ask of its SMs and memory.
class TwoStreams {
 public:
  TwoStreams() {
    builder_.lane("main");
    kernels_ = builder_.stream("kernels");
    collectives_ = builder_.stream("collectives");
    world_ = builder_.communicator("world", Axis::world);
    builder_.role("all", 0, 2);
    builder_.step("steady");
    builder_.at(Phase::backward, builder_.unit("u"));
    costs_.cost_of = {{{}}};
    sm_ = costs_.resource("sm");
    hbm_ = costs_.resource("hbm");
  }

  OpIndex kernel(Seconds seconds, double sm, double hbm) {
    add(costs_.add(seconds, {{sm_, sm * seconds}, {hbm_, hbm * seconds}}, 0, Provenance::measured,
                   "by hand"));
    return builder_.compute("kernel", kernels_, {}, {}, {});
  }
  OpIndex collective(Seconds seconds, double sm, double hbm) {
    add(costs_.add(seconds, {{sm_, sm * seconds}, {hbm_, hbm * seconds}}, 0, Provenance::measured,
                   "by hand"));
    return builder_.collective("all_reduce", CollectiveKind::all_reduce, world_, collectives_,
                               Dtype::bf16, 1, Reduction::sum, {}, {});
  }
  void collectives_wait_for(OpIndex kernel) {
    add(-1);
    builder_.stream_wait(collectives_, kernel);
  }

  // The end of each stream's last op.
  struct Ends {
    Seconds kernels = 0, collectives = 0;
  };
  Ends run() {
    const Schedule schedule = builder_.take();
    const Timeline timeline =
        make_fluid_engine()->run(schedule, costs_, {.programs = {0}, .memory = false});
    Ends ends;
    for (const Span& span : timeline.spans) {
      const Op& op = schedule.roles[0].steps[0].ops[static_cast<std::size_t>(span.op)];
      Seconds& last = op.stream == kernels_ ? ends.kernels : ends.collectives;
      last = std::max(last, span.end);
    }
    return ends;
  }

 private:
  void add(std::int32_t cost) { costs_.cost_of[0][0].push_back(cost); }

  ScheduleBuilder builder_{"overlap", Mesh{2, 1}};
  CostTable costs_;
  StreamIndex kernels_ = 0, collectives_ = 0;
  CommIndex world_ = 0;
  ResourceIndex sm_ = 0, hbm_ = 0;
};

double off(Seconds forecast, Seconds measured) { return 100 * (forecast / measured - 1); }

}  // namespace

Overlaps published_overlaps() {
  const embedded::File& file = embedded::interference().front();
  TomlTable root = TomlTable::from_text(file.text, std::string(file.name));
  Overlaps all;
  std::vector<TomlTable> samples = root.tables("sample");
  for (TomlTable& row : samples) {
    OverlapSample& s = all.samples.emplace_back();
    s.name = row.string("name");
    row.string("source");
    s.fitted_on = row.string("split") == "fit";
    s.sms = static_cast<int>(row.integer("sms", {1, 1000}));
    s.channels = static_cast<int>(row.integer("channels", {1, 64}));
    s.products = static_cast<int>(row.integer("products", {1, 1000}));
    s.all_reduces = static_cast<int>(row.integer("all_reduces", {1, 1000}));
    s.product = row.number("product_us", {1, 1e6}) * 1e-6;
    s.product_beside = row.number("product_beside_us", {1, 1e6}) * 1e-6;
    s.all_reduce = row.number("all_reduce_us", {1, 1e6}) * 1e-6;
    s.all_reduce_beside = row.number("all_reduce_beside_us", {1, 1e6}) * 1e-6;
    row.finish();
  }
  for (TomlTable& row : root.tables("step")) {
    row.string("name");
    row.string("source");
    all.machine = row.string("machine");
    all.gather_bytes = row.integer("gather_bytes", {1, 1ll << 40});
    row.finish();
  }
  for (TomlTable& row : root.tables("kernel")) {
    KernelBeside& k = all.kernels.emplace_back();
    k.name = row.string("name");
    k.memory_bound = row.string("bound") == "memory";
    k.alone = row.number("alone_ms", {1e-3, 1e3}) * 1e-3;
    k.beside = row.number("beside_ms", {1e-3, 1e3}) * 1e-3;
    row.finish();
  }
  root.finish();
  return all;
}

OverlapForecast forecast_overlap(const OverlapSample& sample, double factor, BlockOrder order) {
  const double share = std::min(1.0, factor * static_cast<double>(sample.channels) / sample.sms);
  TwoStreams both;
  const int rounds = std::max(sample.products, sample.all_reduces);
  for (int i = 0; i < rounds; ++i) {
    // A collective that is ready while a product runs begins behind it.
    if (i < sample.all_reduces) both.collective(sample.all_reduce, share, 0);
    if (i >= sample.products) continue;
    const OpIndex product = both.kernel(sample.product, 1, 0);
    if (order == BlockOrder::in_turn && i + 1 < sample.all_reduces) {
      both.collectives_wait_for(product);
    }
  }
  const TwoStreams::Ends ends = both.run();
  return {ends.kernels / sample.products, ends.collectives / sample.all_reduces};
}

Seconds forecast_beside(const Overlaps& of, const KernelBeside& kernel, double factor) {
  const Cluster cluster = make_cluster(load_machine(of.machine), {.nodes = 1});
  const Mesh mesh{.replicate = cluster.world_size, .shard = 1};
  const CollectiveCost gather = Collectives(cluster, mesh)
                                    .cost(Axis::world, CollectiveKind::all_gather, of.gather_bytes,
                                          Dtype::bf16, Reduction::none);
  const double memory =
      KernelModel(cluster.machine.gpu, load_profile("pytorch-eager")).memory_bytes_per_second();
  const double sm = std::min(1.0, factor * gather.sm_share);
  const double hbm = std::min(1.0, factor * gather.hbm_bytes / gather.seconds / memory);
  TwoStreams both;
  both.collective(100 * kernel.alone, sm, hbm);
  both.kernel(kernel.alone, kernel.memory_bound ? 0 : 1, kernel.memory_bound ? 1 : 0);
  return both.run().kernels;
}

double fit_interference(const Overlaps& of) {
  double low = 0.1, high = 4;
  for (int i = 0; i < 40; ++i) {
    const double factor = (low + high) / 2;
    double over = 0;
    for (const OverlapSample& sample : of.samples) {
      if (!sample.fitted_on) continue;
      over +=
          off(forecast_overlap(sample, factor, BlockOrder::in_turn).product, sample.product_beside);
    }
    (over > 0 ? high : low) = factor;
  }
  return (low + high) / 2;
}

std::string table(const Overlaps& of, double factor) {
  std::string text =
      fmt::format("{:<28}{:>10}{:>10}{:>18}{:>18}{:>18}\n", "us", "alone", "beside",
                  "at once, x 1.00", "in turn, x 1.00", fmt::format("in turn, x {:.2f}", factor));
  const auto cell = [](Seconds forecast, Seconds measured) {
    return fmt::format("{:.0f} {:+.1f} %", forecast * 1e6, off(forecast, measured));
  };
  for (const OverlapSample& s : of.samples) {
    const OverlapForecast at_once = forecast_overlap(s, 1, BlockOrder::at_once);
    const OverlapForecast in_turn = forecast_overlap(s, 1, BlockOrder::in_turn);
    const OverlapForecast fitted = forecast_overlap(s, factor, BlockOrder::in_turn);
    const std::string name = s.name + (s.fitted_on ? ", fitted" : "");
    text += fmt::format(
        "{:<28}{:>10.0f}{:>10.0f}{:>18}{:>18}{:>18}\n", name + ": product", s.product * 1e6,
        s.product_beside * 1e6, cell(at_once.product, s.product_beside),
        cell(in_turn.product, s.product_beside), cell(fitted.product, s.product_beside));
    text += fmt::format("{:<28}{:>10.0f}{:>10.0f}{:>18}{:>18}{:>18}\n", "  all-reduce",
                        s.all_reduce * 1e6, s.all_reduce_beside * 1e6,
                        cell(at_once.all_reduce, s.all_reduce_beside),
                        cell(in_turn.all_reduce, s.all_reduce_beside),
                        cell(fitted.all_reduce, s.all_reduce_beside));
  }
  for (const KernelBeside& k : of.kernels) {
    text +=
        fmt::format("{:<28}{:>10.0f}{:>10.0f}{:>18}{:>18}{:>18}\n", "beside all-gathers: " + k.name,
                    k.alone * 1e6, k.beside * 1e6, cell(forecast_beside(of, k, 1), k.beside), "",
                    cell(forecast_beside(of, k, factor), k.beside));
  }
  return text;
}

}  // namespace stepcast::validate
