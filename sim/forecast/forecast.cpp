#include "sim/forecast/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "sim/engines/engine.hpp"
#include "sim/forecast/accumulated.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/forecast_parts.hpp"
#include "sim/forecast/interval.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/step_by_messages.hpp"
#include "sim/forecast/stragglers.hpp"
#include "sim/report/format.hpp"
#include "sim/strategies/ddp/unused.hpp"

namespace stepcast {

namespace {

std::string network_text(const Cluster& cluster) {
  if (cluster.nodes == 1) return "";
  double nic = cluster.fabric.nic_gbps;
  std::size_t nics = cluster.machine.nics.size();
  if (nic == 0 && nics > 0) nic = cluster.machine.graph[cluster.machine.nics.front()].nic_gbps;
  std::string text = fmt::format("{} x {:g} GB/s {} a node, {}", nics, nic, cluster.fabric.network,
                                 to_string(cluster.fabric.kind));
  if (cluster.fabric.oversubscription > 1) {
    text += fmt::format(", {:g}:1", cluster.fabric.oversubscription);
  }
  return text;
}

void describe(const Resolved& r, Report& report) {
  const TrainingStep& step = r.step;
  report.model = step.model.name;
  report.model_source = step.model.source;
  report.parameters = r.model().parameter_elements();
  report.images = takes_images(step.model.architecture.family);
  report.seq_len = step.workload.seq_len;
  report.image_size = step.workload.image_size;
  if (step.model.architecture.family == Family::resnet) {
    report.channels_last = step.workload.channels_last;
  }
  report.micro_batch = step.workload.micro_batch;
  report.accumulation = step.accumulation;
  report.checkpointing = to_string(step.workload.checkpointing);
  report.strategy = to_string(step.strategy.kind);
  report.precision = step.precision.name;
  if (step.workload.fp8 != Fp8Recipe::none) report.fp8 = to_string(step.workload.fp8);
  report.mesh = step.mesh;
  // Where only some gathers stay within groups, the parameters are sharded over all ranks still.
  if (step.strategy.reshard_group > 0 || step.strategy.hpz_group > 0) {
    report.mesh = {.replicate = 1, .shard = step.mesh.world_size()};
  }
  report.machine = r.cluster.machine.name;
  report.machine_name = r.cluster.machine.full_name;
  report.gpu = r.cluster.machine.gpu.full_name;
  report.nodes = r.cluster.nodes;
  report.gpus_per_node = r.cluster.gpus_per_node;
  report.gpus = r.cluster.world_size;
  report.network = network_text(r.cluster);
  report.profile = r.profile.name;
  report.nccl_version = r.collectives.nccl_version;
  report.step = r.first_step ? "first" : "steady";
  report.tied_embeddings = step.model.architecture.tied_embeddings;
  report.experts = step.model.architecture.experts;
}

}  // namespace

void add_speed(const Resolved& r, Report& report) {
  const TrainingStep& step = r.step;
  const Workload& w = step.workload;
  const double samples_per_gpu = static_cast<double>(w.micro_batch) * step.accumulation;
  // Ranks that have run out of data (join) train on nothing.
  const int world = step.mesh.world_size();
  report.samples_per_step = samples_per_gpu * (world - step.strategy.join_early_ranks.value_or(0));
  report.samples_per_second = report.samples_per_step / report.step_time;
  report.samples_per_second_per_gpu = report.samples_per_second / r.cluster.world_size;
  report.flops_per_sample = model_flops_per_sample(r.model(), w);
  if (!report.images) {
    const auto tokens = static_cast<double>(w.seq_len);
    report.tokens_per_step = report.samples_per_step * tokens;
    report.tokens_per_second = report.tokens_per_step / report.step_time;
    report.tokens_per_second_per_gpu = report.samples_per_second_per_gpu * tokens;
    report.flops_per_token = model_flops_per_token(r.model(), w.seq_len);
  }
  report.tflops_per_gpu = report.samples_per_second_per_gpu * report.flops_per_sample / 1e12;
  report.hardware_tflops_per_gpu =
      report.samples_per_second_per_gpu * hardware_flops_per_sample(r.model(), w) / 1e12;
  report.peak_tflops = r.cluster.machine.gpu.peak_flops(w.compute_dtype) / 1e12;
  report.peak_dtype = to_string(w.compute_dtype);
  report.mfu = report.tflops_per_gpu / report.peak_tflops;
  report.hfu = report.hardware_tflops_per_gpu / report.peak_tflops;
}

namespace {

// The StepProgram of this name, or -1.
int program_named(const Schedule& schedule, const char* name) {
  const std::vector<StepProgram>& steps = schedule.roles[0].steps;
  for (std::size_t p = 0; p < steps.size(); ++p) {
    if (steps[p].name == Name(name)) return static_cast<int>(p);
  }
  return -1;
}

// The StepProgram to report; empty: the steady one.
std::vector<int> reported_programs(const Resolved& r, const Schedule& schedule) {
  if (!r.first_step) return {};
  return {std::max(0, program_named(schedule, "first"))};
}

}  // namespace

// A step that PyTorch would not finish as it is written has no time: InfeasibleError says why. That
// some ranks hang is for the engine to find.
Timeline run_reported_step(const Resolved& r, const Schedule& schedule, const CostTable& costs) {
  const std::unique_ptr<Engine> engine = engine_of(r);
  RunOptions options;
  options.programs = reported_programs(r, schedule);
  const std::optional<ddp::Unreduced> unreduced = ddp::unreduced_gradients(r.step);
  if (!unreduced) return engine->run(schedule, costs, options);
  if (unreduced->everywhere) throw InfeasibleError(unreduced->text);
  if (!r.first_step) options.programs = {0};  // there is no second one
  try {
    engine->run(schedule, costs, options);
  } catch (const Deadlock& hang) {
    throw InfeasibleError(unreduced->text + " [" + hang.what() + "]");
  }
  STEPCAST_ASSERT(false, "ranks that should hang do not");
}

namespace {

// What comes before the first step, as a note.
void add_construction(Engine& engine, Forecast& f) {
  const int construction = program_named(f.schedule, "construction");
  if (!f.resolved.first_step || construction < 0) return;
  RunOptions options;
  options.programs = {construction};
  options.memory = false;
  const Seconds seconds = engine.run(f.schedule, f.costs, options).period();
  f.report.notes.push_back(fmt::format(
      "before the first step, construction takes {:.3g} ms: shapes are compared, and rank 0 "
      "broadcasts the parameters",
      seconds * 1e3));
}

// Nodes of another machine whose GPUs are too small.
void add_machine_notes(Forecast& f) {
  for (const auto& [name, cluster] : f.resolved.other_machines) {
    if (fits(f.report.memory, cluster.machine.gpu.memory_bytes)) continue;
    f.report.notes.push_back(
        fmt::format("does not fit into the {:.1f} GB of {}, the machine of "
                    "perturbed nodes",
                    static_cast<double>(cluster.machine.gpu.memory_bytes) / 1e9,
                    cluster.machine.gpu.full_name));
  }
}

// The same step once more, with what is wrong with some ranks.
void add_perturbed(Forecast& f, Engine& engine, const std::vector<int>& programs) {
  f.perturbed = perturb(f.schedule, f.costs, engine, f.report.step_time,
                        {.perturbations = f.resolved.perturbations,
                         .timeout = f.resolved.nccl_timeout,
                         .programs = programs,
                         .other = other_costs(f.schedule, f.resolved),
                         .straggling = f.straggling,
                         .rank_jitter = f.resolved.profile.rank_jitter});
  PerturbedStep& step = f.perturbed->report;
  if (!step.torn_down) {
    step.samples_per_second = f.report.samples_per_step / step.step_time;
    step.tokens_per_second = f.report.tokens_per_step / step.step_time;
  }
  f.report.perturbed = step;
}

}  // namespace

std::unique_ptr<Engine> engine_of(const Resolved& r, bool broken) {
  if (r.engine == "messages") {
    return make_step_by_messages(r, {.go_on = r.go_on, .broken = broken});
  }
  return r.engine == "formula" ? make_formula_engine() : make_fluid_engine();
}

namespace {

// Where what collectives take beyond NCCL's formula is more than a tenth of the step, by class.
void add_correction_notes(Report& report) {
  struct Times {
    Seconds corrected = 0, formula = 0;
  };
  std::map<std::string, Times> by_class;
  for (const CollectiveRow& row : report.collectives) {
    if (!row.cost.corrected) continue;
    Times& times = by_class[row.cost.network_class];
    times.corrected += row.calls * row.cost.seconds;
    times.formula +=
        row.calls * (row.cost.predicted.latency_us + row.cost.predicted.wire_us) * 1e-6;
  }
  for (const auto& [name, times] : by_class) {
    const double share = std::abs(times.corrected - times.formula) / report.step_time;
    if (share <= 0.1) continue;
    report.notes.push_back(fmt::format(
        "corrections for {}: its collectives take {} alone, {} by NCCL's formula "
        "(collective_corrections = false); the difference is {} of the step",
        name, human_seconds(times.corrected), human_seconds(times.formula), percent(share)));
  }
}

}  // namespace

Report report_of(const Resolved& r, const Schedule& schedule, const CostTable& costs,
                 const Timeline& timeline, const Collectives& collectives) {
  return report_of(r, schedule, costs, timeline, collectives, memory_of_roles(r, schedule));
}

Report report_of(const Resolved& r, const Schedule& schedule, const CostTable& costs,
                 const Timeline& timeline, const Collectives& collectives,
                 std::vector<RoleMemory> memory) {
  Report report;
  describe(r, report);
  report.engine = timeline.engine;
  report.step_time = timeline.period();
  add_speed(r, report);
  report.split = split_time(schedule, costs, timeline, r.profile.provenance);
  report.collectives = collective_rows(schedule, timeline, collectives);
  const std::set<std::string>& corrected = collectives.corrected_classes();
  report.corrected_classes.assign(corrected.begin(), corrected.end());
  const auto program = static_cast<std::size_t>(timeline.steps.back().program_index);
  report.ops_per_step = static_cast<int>(schedule.roles[0].steps[program].ops.size());
  report.capacity = r.cluster.machine.gpu.memory_bytes;
  report.memory = std::move(memory);
  report.fits = fits(report.memory, report.capacity);
  report.notes = schedule.notes;
  report.notes.insert(report.notes.end(), r.notes.begin(), r.notes.end());
  return report;
}

Seconds add_stragglers(const Resolved& r, const Schedule& schedule, const CostTable& costs,
                       Report& report) {
  const Seconds lost = straggling(schedule, costs, r.profile);
  if (lost <= 0) return 0;
  report.step_time += lost;
  add_speed(r, report);
  std::vector<ExposedPart>& parts = report.split.exposed;
  const auto shorter = std::find_if(parts.begin(), parts.end(),
                                    [&](const ExposedPart& part) { return part.seconds < lost; });
  parts.insert(shorter, {"slowest_rank", lost});
  report.split.by_provenance[static_cast<std::size_t>(r.profile.provenance)] += lost;
  for (RoleMemory& role : report.memory) {
    if (role.reserved && role.reserved->retried_step > 0) role.reserved->retried_step += lost;
  }
  return lost;
}

namespace {

// What is said of a step once its report has its last figures.
void add_notes_of_whole(Forecast& f) {
  add_correction_notes(f.report);
  f.report.notes.push_back(words(interval_of(f.report, f.resolved.profile)));
  add_construction(*engine_of(f.resolved), f);
  if (f.resolved.first_step && f.schedule.roles[0].steps.size() == 1) {
    f.report.notes.push_back(f.report.strategy +
                             " has no first step of its own: this is the steady "
                             "one, alone, with an idle machine before it");
  }
  add_machine_notes(f);
}

// One step of so many micro-batches.
Forecast run_once(Resolved resolved) {
  Forecast f;
  f.resolved = std::move(resolved);
  if (f.resolved.engine == "messages") {  // collectives take what their messages take
    f.resolved.collectives.corrections = nullptr;
    f.resolved.collectives.measured = nullptr;
  }
  const Resolved& r = f.resolved;
  f.schedule = build_schedule(r.step);
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  f.costs = bind_costs(f.schedule, r.cluster, collectives, r.profile, r.loader, r.device);
  give_compute_time(f.schedule, r.replica, f.costs);
  f.timeline = run_reported_step(r, f.schedule, f.costs);
  std::vector<RoleMemory> memory = memory_of_roles(r, f.schedule);
  f.memory = replay_within(r, f.schedule, f.timeline, memory);
  if (auto retried =
          retried_step(r, f.schedule, collectives, f.timeline.period(), f.memory, memory)) {
    f.schedule = std::move(retried->schedule);
    f.costs = std::move(retried->costs);
    f.timeline = std::move(retried->timeline);
    f.memory = std::move(retried->memory);
  }

  f.report = report_of(r, f.schedule, f.costs, f.timeline, collectives, std::move(memory));
  f.straggling = add_stragglers(r, f.schedule, f.costs, f.report);
  show_straggling(f.schedule, f.straggling, f.timeline);
  f.report.fits = fits(f.report.memory, f.report.capacity);
  return f;
}

}  // namespace

Forecast forecast(Resolved resolved) {
  Forecast f = run_once(std::move(resolved));
  const Resolved& r = f.resolved;
  add_notes_of_whole(f);
  if (!r.perturbations.empty()) {
    add_perturbed(f, *engine_of(r, true), reported_programs(r, f.schedule));
  }
  return f;
}

namespace {

// The schedule and the timeline are those of the longest of the steps that were run.
Forecast of_few_micro_batches(const Resolved& resolved) {
  Forecast f;
  const auto shorter = [&](int micro_batches) {
    Resolved r = resolved;
    r.step.accumulation = micro_batches;
    f = run_once(std::move(r));
    return ShortStep{f.report, busy(f.schedule, f.costs)};
  };
  f.report = worked_out(resolved.step.accumulation, shorter);
  f.resolved.step.accumulation = resolved.step.accumulation;
  add_speed(f.resolved, f.report);
  add_notes_of_whole(f);
  return f;
}

}  // namespace

Forecast forecast(const Scenario& scenario, const ForecastOptions& options) {
  Forecast f = placed(scenario, [&] {
    Resolved resolved = resolve(scenario);
    resolved.go_on = options.go_on;
    resolved.to_run = options.to_run;
    if (options.alike) resolved.profile.rank_jitter = 0;
    const bool few_are_enough = !options.whole && is_worked_out(resolved);
    return few_are_enough ? of_few_micro_batches(resolved) : forecast(std::move(resolved));
  });
  if (!f.report.fits && options.search_change) {
    f.report.smallest_change = change_of_allocator(f.resolved, f.schedule, f.timeline, f.memory);
    if (f.report.smallest_change.empty()) {
      f.report.smallest_change = smallest_change(scenario);
    }
  }
  return f;
}

}  // namespace stepcast
