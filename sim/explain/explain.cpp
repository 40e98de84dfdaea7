#include "sim/explain/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "sim/forecast/command_line.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

constexpr double worth_saying = 0.01;  // of the step

// ---- which side of the bucket size binds
std::optional<BucketSide> bucket_side(const Scenario& scenario, const Report& now) {
  if (now.strategy != "ddp" || now.gpus == 1 || scenario.bucket_cap_mb_list) return std::nullopt;
  BucketSide side;
  side.mib = scenario.bucket_cap_mb.value_or(25);
  const auto with = [&](double mib) {
    Scenario s = scenario;
    s.bucket_cap_mb = mib;
    s.perturb.reset();
    s.nccl_timeout.reset();
    return forecast(s, {.search_change = false}).report.step_time;
  };
  try {
    side.smaller = with(std::max(1e-6, side.mib / 4));
    side.larger = with(std::min(1e6, side.mib * 4));
  } catch (const InputError&) {
    return std::nullopt;
  }
  side.side = side_of(now.step_time, side.smaller, side.larger);
  return side;
}

std::string bucket_words(const BucketSide& b, Seconds now) {
  const auto against = [&](Seconds step) {
    return fmt::format("{}{:.1f} %", step < now ? "-" : "+", 100 * std::abs(step / now - 1));
  };
  const std::string numbers =
      fmt::format("a quarter of it changes the step by {}, four times by {}", against(b.smaller),
                  against(b.larger));
  switch (b.side) {
    case BucketSide::Side::latency:
      return fmt::format(
          "Buckets of {:g} MiB are on the small side: launches and latency of many "
          "calls bind; {}.",
          b.mib, numbers);
    case BucketSide::Side::overlap:
      return fmt::format(
          "Buckets of {:g} MiB are on the large side: overlap is lost because they "
          "fill late; {}.",
          b.mib, numbers);
    case BucketSide::Side::flat: {
      const bool flat = std::max(b.smaller, b.larger) < 1.01 * now;
      return fmt::format(
          "Buckets of {:g} MiB {}: {}.", b.mib,
          flat ? "are as good as any, the size hardly matters here" : "are near the best size",
          numbers);
    }
  }
  return "";
}

// ---- why, in sentences
class Why {
 public:
  Why(const Explanation& e, const Forecast& f, const Scenario& s) : e_(e), f_(f), s_(s) {}

  std::vector<std::string> all() {
    time();
    accumulation();
    communication();
    gathers();
    full_device();
    host();
    limiter();
    batch();
    straggler();
    if (e_.bucket) say(bucket_words(*e_.bucket, r().step_time));
    best();
    return std::move(list_);
  }

 private:
  const Report& r() const { return e_.report; }
  void say(std::string sentence) { list_.push_back(std::move(sentence)); }
  double part(Seconds seconds) const { return seconds / r().step_time; }

  void time() {
    const TimeSplit& t = r().split;
    std::vector<std::pair<Seconds, std::string>> rest{
        {t.exposed_total(), "exposed communication"},
        {t.host, "waiting for the host"},
        {t.interference, "what communication beside them costs kernels"},
        {t.copies, "the strategy's copies"},
        {t.optimizer, "the optimizer"}};
    std::stable_sort(rest.begin(), rest.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text = fmt::format("Of a step of {} the model's kernels take {} ({})",
                                   human_seconds(r().step_time), human_seconds(t.compute),
                                   percent(part(t.compute)));
    int said = 0;
    for (const auto& [seconds, what] : rest) {
      if (part(seconds) < worth_saying || ++said > 3) break;
      text +=
          fmt::format("{}{} {}", said == 1 ? "; the rest is " : ", ", what, percent(part(seconds)));
    }
    say(text + ".");
  }

  void accumulation() {
    if (r().accumulation == 1) return;
    const std::string sync = s_.accumulation_sync.value_or("last");
    std::string text;
    if (sync == "every") {
      text = fmt::format("Gradients are reduced in each of the {} micro-batches, not once a step",
                         r().accumulation);
    } else if (sync == "reduce_scatter_every") {
      text = fmt::format("Each of the {} micro-batches reduce-scatters, the last one all-reduces",
                         r().accumulation);
    } else {
      text = fmt::format("Gradients are reduced once in {} micro-batches", r().accumulation);
    }
    const int gathers = calls(CollectiveKind::all_gather);
    const bool sharded =
        r().strategy.starts_with("fsdp") || r().strategy == "hsdp" || r().strategy == "zero3";
    if (sharded && gathers > r().accumulation) {
      text += fmt::format(
          ", and parameters are gathered in each of them: {} all-gathers a step, "
          "where DDP, which keeps whole parameters, has none",
          gathers);
    }
    say(text + ".");
  }

  int calls(CollectiveKind kind) const {
    int sum = 0;
    for (const CollectiveRow& row : r().collectives) sum += row.kind == kind ? row.calls : 0;
    return sum;
  }

  // What was sent is said with the first place that a kind of collective is exposed at.
  void communication() {
    std::set<std::string> told;
    for (const ExposedCause& c : e_.exposed) {
      if (part(c.seconds) < worth_saying) continue;
      const bool first = told.insert(c.cause.substr(c.cause.find('_') + 1)).second;
      say(fmt::format("Exposed for {} ({}): {}{}{}.", human_seconds(c.seconds),
                      percent(part(c.seconds)), c.place, first && !c.numbers.empty() ? ": " : "",
                      first ? c.numbers : ""));
    }
  }

  // Sharding at the grain of modules, each all-gather too small to be worth its latency.
  void gathers() {
    if (r().strategy != "zero3") return;
    const int gathered = calls(CollectiveKind::all_gather);
    const auto units = static_cast<int>(f_.resolved.step.model.layers.size());
    if (gathered <= 3 * units * r().accumulation) return;
    say(
        fmt::format("ZeRO-3 gathers module by module: {} all-gathers a step for {} layers, one for "
                    "every linear layer and norm above the persistence threshold, twice or more; "
                    "FSDP gathers a layer at once, {} for the same step.",
                    gathered, units, 2 * units * r().accumulation));
  }

  void host() {
    if (part(r().split.host) < worth_saying || e_.host.empty()) return;
    const HostCost& first = e_.host.front();
    std::string text = fmt::format(
        "The GPU waits for its host for {} ({}): issuing a step takes the host {}, of which {} "
        "{} times ({})",
        human_seconds(r().split.host), percent(part(r().split.host)), human_seconds(e_.host_busy),
        first.work, first.count, human_seconds(first.seconds));
    if (e_.host.size() > 1) {
      text += fmt::format(" and {} {} times ({})", e_.host[1].work, e_.host[1].count,
                          human_seconds(e_.host[1].seconds));
    }
    const bool driver = first.work == "cuda_malloc";  // a full device: said above
    say(text +
        (driver ? "." : ". It is launch-bound there, and a faster GPU or network gains nothing."));
  }

  // FSDP1's: the host waits until an earlier gather's memory is free. Whether that costs anything
  // is what the step without it says.
  void limiter() {
    for (const Change& c : e_.changes) {
      if (c.flags != "--limit-all-gathers false" || c.gain < worth_saying) continue;
      say(
          fmt::format("FSDP1's limiter lets two gathers be in flight at once; without it the step "
                      "takes {}{}.",
                      human_seconds(c.step), c.fits ? "" : ", but does not fit"));
    }
  }

  void batch() {
    if (r().hfu <= 1.01 * r().mfu) return;
    say(fmt::format("Checkpointing ({}) repeats {} of all operations to save memory.",
                    r().checkpointing, percent(1 - r().mfu / r().hfu)));
  }

  void full_device() {
    for (const RoleMemory& role : r().memory) {
      if (!role.reserved || role.reserved->retries == 0) continue;
      const ReservedMemory& m = *role.reserved;
      std::string cost = "which the step time leaves out";
      if (m.retry_wait > 0)
        cost = fmt::format("which makes it {} longer", human_seconds(m.retry_wait));
      if (m.retried_step > 0) {
        cost += fmt::format("; with all of it a step takes {}", human_seconds(m.retried_step));
      }
      say(fmt::format(
          "The device is full: {} a step the allocator waits for it, gives its cache back and asks "
          "cudaMalloc again, {}. A smaller micro-batch, more checkpointing or "
          "--expandable-segments true may spare it that.",
          m.retries == 1 ? "once" : fmt::format("{} times", m.retries), cost));
      return;
    }
  }

  void straggler() {
    if (!f_.perturbed) return;
    const PerturbedStep& p = f_.perturbed->report;
    if (p.torn_down) {
      say(fmt::format("As perturbed the step never ends: ranks stand at {}.", p.timed_out_at));
      return;
    }
    say(fmt::format("As perturbed, all ranks wait for the slowest: {} more, {} a step.",
                    human_seconds(p.lost()), human_seconds(p.step_time)));
  }

  void best() {
    if (e_.best < 0) {
      say("Of the changes that were tried and keep batch and arithmetic, none gains half a "
          "percent.");
      return;
    }
    const Change& c = e_.changes[static_cast<std::size_t>(e_.best)];
    say(fmt::format("The single best change: {}, {} a step instead of {}, {}.", c.words,
                    human_seconds(c.step), human_seconds(r().step_time),
                    c.gain >= 1 ? fmt::format("{:.2f} times the throughput", 1 + c.gain)
                                : fmt::format("{} more throughput", percent(c.gain))));
  }

  const Explanation& e_;
  const Forecast& f_;
  const Scenario& s_;
  std::vector<std::string> list_;
};

RunOptions run_options(const Forecast& f) {
  RunOptions options;
  if (f.resolved.first_step) options.programs = {f.timeline.steps.back().program_index};
  return options;
}

}  // namespace

Explanation explain(const Scenario& scenario) {
  const Forecast f = forecast(scenario, {.search_change = false});
  Explanation e;
  e.report = f.report;
  e.command = command_of(scenario);
  e.path = critical_path(f.schedule, f.costs, f.timeline);
  e.exposed = exposed_causes(f.report, f.resolved.cluster);
  e.host = host_costs(f.schedule, f.costs, f.timeline.steps.back().program_index, e.host_busy);
  const std::unique_ptr<Engine> engine =
      f.resolved.engine == "formula" ? make_formula_engine() : make_fluid_engine();
  e.sensitivities = sensitivities(f.schedule, f.costs, *engine, run_options(f), f.resolved.profile,
                                  f.report.step_time);
  e.bucket = bucket_side(scenario, f.report);
  e.changes = tried(changes_of(scenario, f.report), f.report);
  if (const Change* best = best_of(e.changes)) {
    e.best = static_cast<int>(best - e.changes.data());
  }
  e.sentences = Why(e, f, scenario).all();
  return e;
}

}  // namespace stepcast
