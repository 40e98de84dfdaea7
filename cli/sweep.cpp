// stepcast sweep: many points of a scenario, on all cores or all ranks, into a database.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/error.hpp"
#include "base/version.hpp"
#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/sweep_output.hpp"
#include "sim/report/format.hpp"
#include "sim/sweep/dispatcher.hpp"
#include "sim/sweep/points.hpp"
#include "sim/sweep/store.hpp"

namespace stepcast::cli {

namespace {

constexpr int exit_interrupted = 130;

std::atomic<bool> interrupted{false};

struct Options {
  std::string file;
  std::vector<std::string> vary;
  std::string sample;
  std::int64_t seed = 0;
  std::string out = "sweep.db";
  int jobs = 0;
  bool screen = false, count_only = false;
  int confirm = 0;
  SweepOutput output;
};

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

// Conditions on keys choose points, those on outputs choose among results.
struct Conditions {
  std::vector<Expression> of_points, of_results;
};

Conditions conditions_of(const std::vector<std::string>& texts) {
  const std::vector<std::string> keys = condition_names();
  std::vector<std::string> known = keys;
  for (const Output& output : outputs) known.emplace_back(output.name);
  known.emplace_back("binding");
  Conditions conditions;
  for (const std::string& text : texts) {
    Expression e = Expression::parse(text, "--where", known);
    const bool keys_alone =
        std::all_of(e.names().begin(), e.names().end(), [&](const std::string& name) {
          return std::find(keys.begin(), keys.end(), name) != keys.end();
        });
    (keys_alone ? conditions.of_points : conditions.of_results).push_back(std::move(e));
  }
  return conditions;
}

Points points_of(const Options& o, const ScenarioFlags& flags, const Conditions& conditions) {
  const Scenario base = flags.read(o.file);
  if (base.params) {
    throw InputError(base.where("params"), "a parameter count alone has no step; accepted: model");
  }
  if (base.gpu) throw InputError(base.where("gpu"), "applies to params only; accepted: cluster");
  if (o.vary.empty()) {
    throw InputError(vary_flag(), "nothing varies; accepted: KEY=VALUES, as nodes=1,2,4");
  }
  std::vector<SweepAxis> axes;
  for (const std::string& text : o.vary) axes.push_back(parse_axis(text));
  const bool one_engine = o.screen || o.confirm > 0;
  const bool varies = std::any_of(axes.begin(), axes.end(),
                                  [](const SweepAxis& axis) { return axis.name() == "engine"; });
  if (one_engine && (base.engine || varies)) {
    throw InputError(base.engine ? base.where("engine") : vary_flag(),
                     "--screen and --confirm say the engine; accepted: without");
  }
  std::optional<Sampling> sampling;
  if (!o.sample.empty()) sampling = parse_sampling(o.sample, static_cast<std::uint64_t>(o.seed));
  Points points(base, std::move(axes), conditions.of_points, sampling);
  if (points.size() == 0) {
    throw InputError(flag("--where"),
                     fmt::format("leaves none of {} combinations", points.combinations()));
  }
  return points;
}

// Points by one engine, as far as the database does not know them.
class Sweeping {
 public:
  Sweeping(const Points& points, Store& store, Dispatcher& dispatcher)
      : points_(points), store_(store), dispatcher_(dispatcher) {
    for (const ScenarioKey* key : points.keys()) inputs_.push_back(key->name());
  }

  // False: interrupted.
  bool work(const std::vector<std::size_t>& wanted, const std::string& engine) {
    const std::unordered_set<std::string> known = store_.known();
    std::vector<std::size_t> order;
    for (const std::size_t point : wanted) {
      std::string key = points_.key(point, engine);
      rows_.insert({key, point});
      if (known.count(key) == 0) order.push_back(point);
    }
    known_ += wanted.size() - order.size();
    Progress progress(order.size(), engine == "fluid" ? "points to confirm" : "points");
    progress_ = &progress;
    std::vector<StoredPoint> batch;
    std::size_t done = 0;
    const bool complete = dispatcher_.run(
        order, engine,
        [&](std::size_t point, const Result& result) {
          batch.push_back(stored(point, engine, result));
          ++done;
        },
        [&] {
          store_.put(inputs_, batch);
          batch.clear();
          progress.at(done);
        });
    store_.put(inputs_, batch);
    computed_ += done;
    progress_ = nullptr;
    return complete;
  }

  void say(const std::string& text) { progress_ != nullptr ? progress_->say(text) : note(text); }

  // Which point a row of the table is.
  const std::unordered_map<std::string, std::size_t>& rows() const { return rows_; }
  std::size_t computed() const { return computed_; }
  std::size_t known() const { return known_; }

 private:
  StoredPoint stored(std::size_t point, const std::string& engine, const Result& result) const {
    StoredPoint row;
    const Scenario s = points_.scenario(point, engine);
    row.key = points_.key(point, engine);
    for (const ScenarioKey* key : points_.keys()) {
      if (!key->is_set(s)) {
        row.inputs.emplace_back();
      } else if (const std::optional<double> number = key->number(s)) {
        row.inputs.emplace_back(*number);
      } else {
        row.inputs.emplace_back(key->text(s));
      }
    }
    row.result = result;
    return row;
  }

  const Points& points_;
  Store& store_;
  Dispatcher& dispatcher_;
  std::vector<std::string> inputs_;
  std::unordered_map<std::string, std::size_t> rows_;
  std::size_t computed_ = 0, known_ = 0;
  Progress* progress_ = nullptr;
};

RowList rows_of(const PointTable& table, const Sweeping& run) {
  RowList rows;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (run.rows().count(table.rows[row].key) > 0) rows.push_back(row);
  }
  return rows;
}

// The best screened points, and some of each number of GPUs, so that what the fluid engine puts in
// another order is compared by it.
std::vector<std::size_t> to_confirm(const Options& o, const Store& store, const Sweeping& run,
                                    const Conditions& conditions) {
  constexpr std::size_t of_each_size = 3;
  const PointTable table = store.read();
  RowList rows;
  for (const std::size_t row :
       matching(table, fitting(table, rows_of(table, run)), conditions.of_results)) {
    if (cell_of(table, row, "engine") == Cell(std::string("formula"))) rows.push_back(row);
  }
  const std::string by = o.output.by.empty() ? default_by(table, rows) : o.output.by;
  RowList chosen = best(table, rows, by, static_cast<std::size_t>(o.confirm));
  std::map<Cell, RowList> sizes;
  for (const std::size_t row : rows) sizes[cell_of(table, row, "world_size")].push_back(row);
  for (const auto& [gpus, alike] : sizes) {
    const RowList some = best(table, alike, by, of_each_size);
    chosen.insert(chosen.end(), some.begin(), some.end());
  }
  std::vector<std::size_t> points;
  for (const std::size_t row : chosen) points.push_back(run.rows().at(table.rows[row].key));
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

void end_on_ctrl_c() {
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int) { interrupted.store(true); });
  }
}

// Columns that are asked for, before the work.
void check_columns(const Options& o, const Points& points) {
  PointTable none;
  for (const ScenarioKey* key : points.keys()) none.inputs.push_back(key->name());
  o.output.check_columns(none);
}

// Rank 0, or the only one.
int own(const Options& o, const Ranks& ranks, const Points& points, const Conditions& conditions) {
  check_columns(o, points);
  Sweeping* running = nullptr;
  const auto say = [&running](const std::string& text) {
    running != nullptr ? running->say(text) : note(text);
  };
  Store store(o.out, Store::Mode::create, {say});
  std::unique_ptr<Door> door;
  const std::string identity = build_version() + points.fingerprint();
  if (ranks.size > 1) door = std::make_unique<Door>(ranks, o.out, identity);
  end_on_ctrl_c();
  DispatchOptions options;
  options.jobs = o.jobs > 0 ? o.jobs : default_jobs(ranks);
  options.door = door.get();
  options.stop = &interrupted;
  options.say = say;
  Dispatcher dispatcher(evaluating(points), options);
  Sweeping run(points, store, dispatcher);
  running = &run;
  const bool screens = o.screen || o.confirm > 0;
  bool complete = run.work(points.work_order(), screens ? "formula" : "");
  if (complete && o.confirm > 0) {
    complete = run.work(to_confirm(o, store, run, conditions), "fluid");
  }
  if (!complete) {
    note(fmt::format("stopped: {} of this sweep are in {}; the same command goes on",
                     grouped(static_cast<double>(run.known() + run.computed())), o.out));
    return exit_interrupted;
  }
  const PointTable table = store.read();
  RowList rows = rows_of(table, run);
  note(fmt::format("{} points worked out, {} known before, in {}",
                   grouped(static_cast<double>(run.computed())),
                   grouped(static_cast<double>(run.known())), o.out));
  const RowList all = rows;
  rows = matching(table, rows, conditions.of_results);
  show(o.output, table, rows);
  const auto is = [&](const char* state) {
    return std::any_of(all.begin(), all.end(),
                       [&](std::size_t row) { return table.rows[row].result.state == state; });
  };
  if (is("ok")) return 0;
  const Result& first = table.rows[all.front()].result;
  if (is("failed")) throw std::runtime_error("internal error: " + first.why);
  if (is("does_not_fit") || is("infeasible")) {
    throw InfeasibleError("no point fits; the first: " + first.why);
  }
  throw InputError("every point is refused; the first: " + first.why);
}

// Another rank: works for rank 0 until that has no more to do.
int help(const Options& o, const Ranks& ranks, const Points& points) {
  const std::string identity = build_version() + points.fingerprint();
  const int jobs = o.jobs > 0 ? o.jobs : default_jobs(ranks);
  const auto work = [&] {
    Channel channel = connect_to_rank_0(ranks, o.out, identity);
    if (!channel.open()) return 0;  // all is done
    return serve(std::move(channel), evaluating(points)) ? 0 : 1;
  };
  if (jobs == 1) return work();
  std::vector<pid_t> children;
  for (int i = 0; i < jobs; ++i) {
    const pid_t child = fork();
    if (child < 0) break;  // the others do it
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    int code = 1;
    try {
      code = work();
    } catch (const std::exception& error) {
      if (i == 0) note(error.what());
    }
    _exit(code);
  }
  int code = children.empty() ? 1 : 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) code = 1;
  }
  return code;
}

int sweep(const Options& o, const ScenarioFlags& flags) {
  const Ranks ranks = Ranks::from_environment();
  try {
    o.output.check();
    const Conditions conditions = conditions_of(o.output.where);
    const Points points = points_of(o, flags, conditions);
    if (o.count_only) {
      if (ranks.rank > 0) return 0;
      check_columns(o, points);
      print(fmt::format("{} points of {} combinations; {} left out by --where\n",
                        grouped(static_cast<double>(points.size())),
                        grouped(static_cast<double>(points.combinations())),
                        grouped(static_cast<double>(points.excluded()))));
      return 0;
    }
    return ranks.rank == 0 ? own(o, ranks, points, conditions) : help(o, ranks, points);
  } catch (const InputError& error) {
    if (ranks.rank == 0) throw;
    // What is wrong with the input rank 0 says, once; what only this rank sees it says itself.
    if (!rank_0_listens(ranks, o.out, std::chrono::seconds(2))) return 2;
    throw InputError(fmt::format("rank {}: {}", ranks.rank, error.what()));
  }
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("scenario", o->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  const char* group = "Sweep";
  command
      .add_option(
          "--vary", o->vary,
          "a key and its values: a list (nodes=1,2,4,...,128), a range (bucket_cap_mb="
          "1:200:log10, :lin10, :step5, or 1:8 of whole numbers); repeatable. A knob that a "
          "strategy has not is left out of that strategy's points")
      ->option_text("KEY=VALUES")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--where", o->output.where,
                  "only points for which this holds, as \"micro_batch*accumulation*gpus <= 1024\"; "
                  "with outputs, only these are shown and confirmed; repeatable")
      ->option_text("CONDITION")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--sample", o->sample, "samples of the ranges instead of all combinations")
      ->option_text("sobol:N|random:N")
      ->group(group);
  command.add_option("--seed", o->seed, "of the samples (default 0)")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 53))
      ->group(group);
  command.add_flag("--screen", o->screen, "by the formula engine, which sees no contention")
      ->group(group);
  command
      .add_option("--confirm", o->confirm,
                  "screen, then the N best, and three of each number of GPUs, by the fluid engine")
      ->option_text("N")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  command
      .add_option("-o,--out,--output", o->out,
                  "the database (default sweep.db); points in it are known")
      ->option_text("FILE")
      ->group(group);
  command.add_option("-j,--jobs", o->jobs, "worker processes (default: the cores)")
      ->option_text("N")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  command.add_flag("--count", o->count_only, "say how many points there are, and end")
      ->group(group);
  o->output.add_to(command);
  return [o, flags] { return sweep(*o, *flags); };
}

}  // namespace

const Command sweep_command{
    "sweep", "forecast many points of a scenario into a database",
    "  stepcast sweep examples/llama-3-8b-fsdp2-16-nodes.toml --vary strategy=fsdp2,hsdp \\\n"
    "    --vary nodes=1,2,4,...,128 --vary micro_batch=1,2,4 --screen\n"
    "  stepcast sweep --model gpt2-xl --cluster dgx-a100 --nodes 4 --strategy ddp \\\n"
    "    --vary bucket_cap_mb=1:200:log30 --out buckets.db\n"
    "  stepcast launch -n 8 sweep ...    # over processes, on one or many hosts",
    add};

}  // namespace stepcast::cli
