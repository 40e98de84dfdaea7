#include "sim/forecast/perturb.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/forecast/stragglers.hpp"

namespace stepcast {

namespace {

constexpr double most_draws = 2e6;  // ranks x ops of a step: some tenths of a second

class PerturbRun {
 public:
  PerturbRun(const Schedule& schedule, const CostTable& costs, Engine& engine,
             const PerturbOptions& options)
      : base_(schedule), base_costs_(costs), engine_(engine), options_(options) {}

  Perturbed run(Seconds before) {
    PerturbedStep& step = result_.report;
    for (const Perturbation& p : options_.perturbations) step.asked.push_back(p.text);
    step.before = before;
    step.timeout = options_.timeout;
    classes_ =
        rank_classes(base_, options_.perturbations, options_.folding, options_.other.of_rank);
    const bool missing = any([](const RankClass& c) { return c.missing; });
    const bool late = any([](const RankClass& c) { return c.late > 0; });
    step.once = missing || late;
    describe_classes();

    // Slow ranks hold before and after the one step in which others are late or missing.
    std::vector<RankClass> all_there = classes_;
    for (RankClass& each : all_there) each.missing = false;
    result_.schedule = split_roles(base_, all_there);
    result_.costs = split_costs(base_costs_, base_, all_there, options_.other.tables);
    const bool slow = any([](const RankClass& c) { return c.speed < 1 || c.costs > 0; });
    step.step_time = before;
    if (slow || !step.once) {
      result_.timeline = engine_.run(result_.schedule, result_.costs, options());
      step.step_time = result_.timeline->period() + options_.straggling;
    }
    if (missing) {
      stall();
    } else {
      if (late) come_late();
      read_waits();
    }
    if (!step.torn_down) {
      if (result_.timeline) {
        show_straggling(result_.schedule, options_.straggling, *result_.timeline);
      }
      add_jitter();
    }
    if (step.torn_down) step.step_time = step.ended_at;
    step.goodput = step.torn_down ? 0 : step.before / step.step_time;
    return std::move(result_);
  }

 private:
  template <typename Predicate>
  bool any(Predicate&& holds) const {
    return std::any_of(classes_.begin(), classes_.end(), holds);
  }

  RunOptions options() const {
    RunOptions run;
    run.programs = options_.programs;
    return run;
  }
  // One step from an idle machine, with what is late.
  RunOptions alone(bool delayed) const {
    RunOptions run;
    run.programs = options_.programs;
    if (run.programs.empty()) {
      run.programs = {static_cast<int>(base_.roles.front().steps.size()) - 1};
    }
    for (std::size_t c = 0; delayed && c < classes_.size(); ++c) {
      if (classes_[c].late > 0) run.delays.push_back({static_cast<int>(c), 0, classes_[c].late});
    }
    return run;
  }

  void describe_classes() {
    for (const RankClass& each : classes_) {
      PerturbedClass& row = result_.report.classes.emplace_back();
      row.name = each.name;
      row.ranks = rank_text(each.ranks);
      row.count = static_cast<int>(each.ranks.size());
      row.perturbed = each.perturbed;
    }
  }

  void come_late() {
    const Timeline idle = engine_.run(result_.schedule, result_.costs, alone(false));
    result_.timeline = engine_.run(result_.schedule, result_.costs, alone(true));
    result_.report.step_time += result_.timeline->period() - idle.period();
  }

  // On top of all else, as if it met nothing but the step's solo times. Of two causes that differ
  // by rank the squares add.
  void add_jitter() {
    for (const Perturbation& p : options_.perturbations) {
      if (p.kind != Perturbation::Kind::jitter) continue;
      if (!can_jitter(base_)) {
        throw InputError("perturb: jitter is of steps in which all ranks run the same program");
      }
      const Seconds still = jitter_folded(base_, base_costs_, {.persistent = options_.rank_jitter});
      Jitter both = p.jitter;
      both.persistent = std::hypot(both.persistent, options_.rank_jitter);
      JitteredStep& jitter = result_.report.jitter.emplace();
      jitter.persistent = p.jitter.persistent;
      jitter.kernel = p.jitter.kernel;
      jitter.expected = jitter_folded(base_, base_costs_, both) - still;
      const double draws = static_cast<double>(base_.roles.front().steps.back().ops.size()) *
                           base_.mesh.world_size();
      if (draws <= most_draws) {
        jitter.drawn = jitter_of_ranks(base_, base_costs_, both) - still;
      }
      result_.report.step_time += jitter.expected;
    }
  }

  // What ops of classes with costs of their own take longer, each alone, a step.
  void describe_costs(int program) {
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const RankClass& each = classes_[c];
      if (each.costs == 0) continue;
      const CostTable& own = options_.other.tables[static_cast<std::size_t>(each.costs - 1)];
      std::map<std::string, Seconds> more;
      const std::vector<Op>& ops = base_.roles[static_cast<std::size_t>(each.role)]
                                       .steps[static_cast<std::size_t>(program)]
                                       .ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const auto index = static_cast<OpIndex>(i);
        const Seconds solo = own.cost(each.role, program, index).solo / each.speed;
        const Seconds before = base_costs_.cost(each.role, program, index).solo;
        if (ops[i].kind == OpKind::compute) {
          more["kernels"] += solo - before;
        } else if (ops[i].kind == OpKind::collective) {
          more[std::string(to_string(ops[i].collective))] +=
              own.cost(each.role, program, index).solo - before;
        }
      }
      std::vector<PeerWait>& slower = result_.report.classes[c].slower;
      for (const auto& [what, seconds] : more) {
        if (seconds > 1e-9) slower.push_back({what, seconds});
      }
      std::stable_sort(slower.begin(), slower.end(),
                       [](const PeerWait& a, const PeerWait& b) { return a.seconds > b.seconds; });
    }
  }

  // Classes of one role share its program: names are made once.
  const std::vector<std::string>& names(std::size_t of_class, int program) {
    const std::pair key{classes_[of_class].role, program};
    const auto found = names_.find(key);
    if (found != names_.end()) return found->second;
    const StepProgram& step =
        base_.roles[static_cast<std::size_t>(key.first)].steps[static_cast<std::size_t>(program)];
    return names_.emplace(key, op_names(base_, step)).first->second;
  }
  std::string op_name(int of_class, int program, OpIndex op) {
    return names(static_cast<std::size_t>(of_class), program)[static_cast<std::size_t>(op)];
  }

  void time_out(Seconds at, const std::string& op) {
    PerturbedStep& step = result_.report;
    if (step.torn_down && step.ended_at <= at) return;
    step.torn_down = true;
    step.ended_at = at;
    step.timed_out_at = op;
  }

  void read_waits() {
    PerturbedStep& step = result_.report;
    const Timeline& timeline = *result_.timeline;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      PerturbedClass& row = step.classes[c];
      row.waits =
          peer_waits(timeline, static_cast<int>(c), names(c, timeline.steps.back().program_index));
      row.waited = peer_wait_time(timeline, static_cast<int>(c));
    }
    const StepSpan& last = timeline.steps.back();
    describe_costs(last.program_index);
    for (const Span& span : timeline.spans) {
      if (span.peer_wait <= 0 || span.end - span.issued <= step.timeout) continue;
      if (span.step + 1 != static_cast<std::int32_t>(timeline.steps.size())) continue;
      time_out(span.issued + step.timeout - last.begin,
               op_name(span.role, last.program_index, span.op));
    }
  }

  void stall() {
    result_.schedule = split_roles(base_, classes_);
    result_.costs = split_costs(base_costs_, base_, classes_, options_.other.tables);
    result_.timeline.reset();
    const RunOptions run = alone(true);
    try {
      result_.timeline = engine_.run(result_.schedule, result_.costs, run);
      return;  // nobody needs the missing ranks
    } catch (const Deadlock& deadlock) {
      for (const Deadlock::Stall& stall : deadlock.stalls) {
        if (stall.op < 0) continue;
        PerturbedClass& row = result_.report.classes[static_cast<std::size_t>(stall.role)];
        row.stalled_at =
            op_name(stall.role, run.programs[static_cast<std::size_t>(stall.step)], stall.op);
        row.stalled_since = stall.since;
        for (const int role : stall.missing) {
          row.stalled_for.push_back(classes_[static_cast<std::size_t>(role)].name);
        }
        time_out(stall.issued + result_.report.timeout, row.stalled_at);
      }
    }
  }

  const Schedule& base_;
  const CostTable& base_costs_;
  Engine& engine_;
  const PerturbOptions& options_;
  std::vector<RankClass> classes_;
  Perturbed result_;
  std::map<std::pair<int, int>, std::vector<std::string>> names_;  // by role and program
};

}  // namespace

Perturbed perturb(const Schedule& schedule, const CostTable& costs, Engine& engine, Seconds before,
                  const PerturbOptions& options) {
  return PerturbRun(schedule, costs, engine, options).run(before);
}

}  // namespace stepcast
