// stepcast_bench PATH-OF-STEPCAST: how fast stepcast itself is, and what it needs.
//
// One steady FSDP2 step of llama-3-8b and llama-3-70b on 8, 512 and 16,384 GPUs, first as a user
// runs it (the whole process, with the fluid engine), then part by part in this process; then the
// same with many micro-batches, and with something wrong: a slow GPU, a slow NIC, jitter. Then ten
// thousand points of a sweep, on all cores, by either engine, and a plan over the whole catalog.
// Medians, compared with the bars this project set itself; a miss is marked and makes the exit
// code 1.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <thread>

#include "benchmarks/process.hpp"
#include "sim/engines/engine.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/forecast/perturb.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast::bench {
namespace {

constexpr int process_runs = 5;
constexpr int fluid_runs = 5;
constexpr int formula_runs = 101;

constexpr double bar_process_seconds = 0.3;  // 70b on 16,384 GPUs, fluid
constexpr double bar_process_mb = 150;
constexpr double bar_growth = 1.3;        // fluid engine, 16,384 GPUs over 8
constexpr double bar_formula_ms = 1.0;    // llama-3-8b, schedule building included
constexpr double bar_fluid_70b_ms = 50;   // 80 layers, one micro-batch, the engine alone
constexpr double bar_formula_70b_ms = 2;  // the same
constexpr double bar_linear = 1.3;        // 128 micro-batches over 16, an op
constexpr double bar_perturbed_ms = 100;  // HSDP on 16,384 GPUs, one of them slow
constexpr double bar_screen_seconds = 8;  // 10,048 points by formula, two cores
constexpr double bar_sweep_seconds = 90;  // the same by fluid
constexpr double bar_plan_seconds = 30;   // all machines of the catalog, two cores

struct Case {
  std::string model;
  int nodes;
  std::string checkpointing;
  int gpus() const { return nodes * 8; }
};

// Of processor time, so that a busy machine tells the same: all of this is one thread.
template <typename Work>
double milliseconds(int runs, Work&& work) {
  std::vector<double> times;
  for (int i = 0; i <= runs; ++i) {
    const std::clock_t begin = std::clock();
    work();
    const std::clock_t end = std::clock();
    if (i > 0) times.push_back(1e3 * static_cast<double>(end - begin) / CLOCKS_PER_SEC);
  }
  return median(std::move(times));
}

Resolved resolved(const Case& c) {
  return resolve(parse_scenario(
      fmt::format("model = \"{}\"\ncluster = \"dgx-h100\"\nnodes = {}\nstrategy = \"fsdp2\"\n"
                  "seq_len = 8192\nmicro_batch = 1\ncheckpointing = \"full\"\n",
                  c.model, c.nodes),
      "benchmark"));
}

struct InProcess {
  std::size_t ops = 0;     // of the steady step
  std::size_t events = 0;  // spans that a run simulates, first steps included
  double build_ms = 0, bind_ms = 0, formula_ms = 0, fluid_ms = 0;
  double formula_all_ms = 0;  // build, bind, run
};

InProcess in_process(const Case& c) {
  const Resolved r = resolved(c);
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  const Schedule schedule = build_schedule(r.step);
  const CostTable costs = bind_costs(schedule, r.cluster, collectives, r.profile);
  const auto formula = make_formula_engine();
  const auto fluid = make_fluid_engine();
  InProcess result;
  result.ops = schedule.roles[0].steps.back().ops.size();
  result.events = fluid->run(schedule, costs).spans.size();
  result.build_ms = milliseconds(formula_runs, [&] { build_schedule(r.step); });
  result.bind_ms =
      milliseconds(formula_runs, [&] { bind_costs(schedule, r.cluster, collectives, r.profile); });
  result.formula_ms = milliseconds(formula_runs, [&] { formula->run(schedule, costs); });
  result.fluid_ms = milliseconds(fluid_runs, [&] { fluid->run(schedule, costs); });
  result.formula_all_ms = milliseconds(formula_runs, [&] {
    const Schedule s = build_schedule(r.step);
    formula->run(s, bind_costs(s, r.cluster, collectives, r.profile));
  });
  return result;
}

// Fluid engine, microseconds an op of the step, with many micro-batches.
double fluid_us_an_op(int accumulation) {
  Resolved r = resolved({"llama-3-70b", 64, "full"});
  r.step.accumulation = accumulation;
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  const Schedule schedule = build_schedule(r.step);
  const CostTable costs = bind_costs(schedule, r.cluster, collectives, r.profile);
  const auto fluid = make_fluid_engine();
  const auto ops = static_cast<double>(schedule.roles[0].steps.back().ops.size());
  const double ms = milliseconds(1, [&] { fluid->run(schedule, costs); });
  fmt::print("llama-3-70b, {} micro-batches: {:.0f} ops a step, fluid {:.0f} ms\n", accumulation,
             ops, ms);
  return ms * 1e3 / ops;
}

// One step of llama-3-70b under HSDP with something wrong, all that --perturb adds.
double perturbed_ms(int nodes, const std::string& perturb_text) {
  Resolved r = resolve(
      parse_scenario(fmt::format("model = \"llama-3-70b\"\ncluster = \"dgx-h100\"\nnodes = {}\n"
                                 "strategy = \"hsdp\"\nseq_len = 8192\ncheckpointing = \"full\"\n"
                                 "perturb = [\"{}\"]\n",
                                 nodes, perturb_text),
                     "benchmark"));
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  const Schedule schedule = build_schedule(r.step);
  const CostTable costs = bind_costs(schedule, r.cluster, collectives, r.profile);
  const auto fluid = make_fluid_engine();
  return milliseconds(3, [&] {
    perturb(schedule, costs, *fluid, 1.0,
            {.perturbations = r.perturbations, .other = other_costs(schedule, r)});
  });
}

// Six strategies, eight numbers of nodes, four micro-batches, 78 bucket sizes of those that have
// buckets: 10,048 points of llama-3-8b. Into a new database each time.
double sweep_seconds(const std::string& stepcast, const char* engine) {
  const std::string database =
      (std::filesystem::temp_directory_path() / fmt::format("stepcast-bench-{}.db", getpid()))
          .string();
  const auto remove = [&] {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(database + suffix);
  };
  remove();
  const ProcessCost cost = measure({stepcast,          "sweep",
                                    "--model",         "llama-3-8b",
                                    "--cluster",       "dgx-h100",
                                    "--seq-len",       "8192",
                                    "--checkpointing", "full",
                                    "--engine",        engine,
                                    "--vary",          "strategy=ddp,zero1,zero2,zero3,fsdp2,hsdp",
                                    "--vary",          "nodes=1,2,4,...,128",
                                    "--vary",          "micro_batch=1,2,4,8",
                                    "--vary",          "bucket_cap_mb=1:1000:log78",
                                    "--vary",          "reduce_bucket_size=1000000:500000000:log78",
                                    "--out",           database},
                                   1);
  remove();
  return cost.seconds;
}

double plan_seconds(const std::string& stepcast) {
  return measure(
             {stepcast, "plan", "--model", "llama-3-8b", "--seq-len", "8192", "--tokens", "1e12"},
             1)
      .seconds;
}

int misses = 0;

void bar(const std::string& what, double value, double limit, const char* unit) {
  const bool met = value <= limit;
  misses += met ? 0 : 1;
  fmt::print("  {:<62} {:8.2f} {:<2} (bar {:g}) {}\n", what, value, unit, limit,
             met ? "met" : "MISSED");
}

int run(const std::string& stepcast) {
  std::vector<Case> cases;
  for (const char* model : {"llama-3-8b", "llama-3-70b"}) {
    for (const int nodes : {1, 64, 2048}) cases.push_back({model, nodes, "full"});
  }

  std::vector<ProcessCost> processes;  // first, while this process is small
  processes.reserve(cases.size());
  for (const Case& c : cases) {
    processes.push_back(
        measure({stepcast, "simulate", "--model", c.model, "--cluster", "dgx-h100", "--nodes",
                 std::to_string(c.nodes), "--strategy", "fsdp2", "--seq-len", "8192",
                 "--micro-batch", "1", "--checkpointing", c.checkpointing},
                process_runs));
  }

  fmt::print("One FSDP2 step on DGX H100 nodes, full checkpointing, 8,192 tokens, medians.\n\n");
  fmt::print("{:<12} {:>6} {:>6} | {:>9} {:>8} {:>12} | {:>8} {:>8} {:>10} {:>9}\n", "model",
             "GPUs", "ops", "process", "peak", "simulated", "build", "bind", "formula", "fluid");
  std::vector<InProcess> parts;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const InProcess& p = parts.emplace_back(in_process(c));
    fmt::print(
        "{:<12} {:>6} {:>6} | {:>7.3f} s {:>5.0f} MB {:>8.0f} op/s | {:>5.2f} ms {:>5.2f} ms "
        "{:>7.2f} ms {:>6.2f} ms\n",
        c.model, c.gpus(), p.ops, processes[i].seconds, processes[i].peak_mb,
        static_cast<double>(p.events) / (p.fluid_ms / 1e3), p.build_ms, p.bind_ms, p.formula_ms,
        p.fluid_ms);
  }
  fmt::print("\n");
  const double few = fluid_us_an_op(16);
  const double many = fluid_us_an_op(128);
  fmt::print("\nBars\n");
  bar("llama-3-70b on 16,384 GPUs, fluid: whole process", processes[5].seconds, bar_process_seconds,
      "s");
  bar("llama-3-70b on 16,384 GPUs, fluid: peak memory", processes[5].peak_mb, bar_process_mb, "MB");
  bar("llama-3-70b, fluid engine: 16,384 GPUs over 8", parts[5].fluid_ms / parts[3].fluid_ms,
      bar_growth, "x");
  bar("llama-3-8b on 8 GPUs, formula engine, building included", parts[0].formula_all_ms,
      bar_formula_ms, "ms");
  for (std::size_t i = 3; i < cases.size(); ++i) {
    const std::string where = fmt::format("llama-3-70b on {} GPUs, ", cases[i].gpus());
    bar(where + "fluid engine", parts[i].fluid_ms, bar_fluid_70b_ms, "ms");
    bar(where + "formula engine", parts[i].formula_ms, bar_formula_70b_ms, "ms");
  }
  bar("llama-3-70b, fluid engine an op: 128 micro-batches over 16", many / few, bar_linear, "x");
  bar("llama-3-70b, HSDP on 16,384 GPUs, one slow: perturbed run",
      perturbed_ms(2048, "rank=17:slow=0.8"), bar_perturbed_ms, "ms");
  bar("llama-3-70b, HSDP on 64 nodes, a NIC of one at half speed",
      perturbed_ms(64, "node=5,nic=2:slow=0.5"), bar_perturbed_ms, "ms");
  bar("llama-3-70b, HSDP on 64 nodes, jitter", perturbed_ms(64, "all:jitter=0.01/0.05"),
      bar_perturbed_ms, "ms");
  const std::string points =
      fmt::format("10,048 points of a sweep on {} cores, ", std::thread::hardware_concurrency());
  bar(points + "formula", sweep_seconds(stepcast, "formula"), bar_screen_seconds, "s");
  bar(points + "fluid", sweep_seconds(stepcast, "fluid"), bar_sweep_seconds, "s");
  bar("llama-3-8b planned over the whole catalog, up to 64 nodes", plan_seconds(stepcast),
      bar_plan_seconds, "s");
  return misses ? 1 : 0;
}

}  // namespace
}  // namespace stepcast::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: stepcast_bench PATH-OF-STEPCAST\n");
    return 2;
  }
  try {
    return stepcast::bench::run(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "stepcast_bench: {}\n", error.what());
    return 1;
  }
}
