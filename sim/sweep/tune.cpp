#include "sim/sweep/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlopt.hpp>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/sweep/tune_knobs.hpp"

namespace stepcast {
namespace {

constexpr std::size_t confirmed_best = 24;
constexpr std::size_t sized_best = 3;
constexpr double not_worth_saying = 0.005;  // of the rate
constexpr int direct_tries = 36, simplex_tries = 24;
constexpr double sizes_an_octave = 256;  // that NLopt tells apart: 0.3 % from one to the next
constexpr int scale_points = 49;  // of the ranges within 1 and 5 %: a tenth of a decade apart

double number(const Result& r, const char* output) {
  return r.numbers[static_cast<std::size_t>(output_index(output))];
}

class Tuner {
 public:
  Tuner(const Scenario& given, const TuneOptions& options)
      : options_(options), knobs_(given, options), given_(given) {
    DispatchOptions dispatch;
    dispatch.jobs = options.jobs;
    dispatch.stop = options.stop;
    // Workers are forked before there is anything to work on: scenarios come with each batch.
    dispatch_ = dispatch;
  }

  std::optional<Tuned> run() {
    const std::vector<Scenario> all = knobs_.combinations();
    const std::vector<Tried> screened = work("screened", all, "formula");
    if (stopped_) return std::nullopt;
    tuned_.screened = screened.size();
    std::vector<Tried> best = work("confirmed", to_confirm(screened), "fluid");
    if (stopped_) return std::nullopt;
    tuned_.confirmed = best.size();
    by_rate(best);
    if (best.empty() || best.front().rate <= 0) nothing_fits(screened);
    size_buckets(best);
    by_rate(best);
    tuned_.best = best.front();
    confirmed_ = std::move(best);  // best first
    compare_with_given();
    report_knobs();
    if (stopped_) return std::nullopt;
    finish();
    return std::move(tuned_);
  }

 private:
  double rate_of(const Result& r) const {
    if (r.state != "ok") return 0;
    if (number(r, "memory_free") < options_.headroom) return 0;
    return number(r, "samples_per_s");
  }

  // All of them, on all workers, in their order.
  std::vector<Tried> work(const std::string& phase, const std::vector<Scenario>& scenarios,
                          const std::string& engine) {
    std::vector<Tried> tried(scenarios.size());
    for (std::size_t i = 0; i < scenarios.size(); ++i) tried[i].scenario = scenarios[i];
    const auto evaluator = std::make_shared<Evaluator>();
    Dispatcher dispatcher(
        [evaluator, &scenarios](std::size_t point, const std::string& by) {
          Scenario s = scenarios[point];
          scenario_key("engine").set(s, by, {.file = "tune", .line = 0, .key = ""});
          return result_of(evaluator->evaluate(s));
        },
        dispatch_);
    std::vector<std::size_t> order(scenarios.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::size_t done = 0;
    stopped_ = !dispatcher.run(
                   order, engine,
                   [&](std::size_t point, const Result& result) {
                     tried[point].result = result;
                     tried[point].rate = rate_of(result);
                     ++done;
                   },
                   [&] {
                     if (options_.progress) options_.progress(phase, done, scenarios.size());
                   }) ||
               stopped_;
    return tried;
  }

  static void by_rate(std::vector<Tried>& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Tried& a, const Tried& b) { return a.rate > b.rate; });
  }

  static std::vector<Scenario> to_confirm(std::vector<Tried> screened) {
    by_rate(screened);
    std::vector<Scenario> list;
    std::set<std::string> strategies;
    for (const Tried& tried : screened) {
      if (tried.rate <= 0) break;
      const bool first = strategies.insert(tried.scenario.strategy.value_or("")).second;
      if (first || list.size() < confirmed_best) list.push_back(tried.scenario);
    }
    return list;
  }

  [[noreturn]] void nothing_fits(const std::vector<Tried>& screened) const {
    const auto state = [&](const char* name) {
      return std::find_if(screened.begin(), screened.end(),
                          [name](const Tried& tried) { return tried.result.state == name; });
    };
    // The one that is nearest to fitting.
    const Tried* nearest = nullptr;
    for (const Tried& tried : screened) {
      if (std::isnan(number(tried.result, "memory_peak_bytes"))) continue;
      if (nearest == nullptr || number(tried.result, "memory_peak_bytes") <
                                    number(nearest->result, "memory_peak_bytes")) {
        nearest = &tried;
      }
    }
    if (nearest != nullptr) {
      throw InfeasibleError(fmt::format(
          "no combination fits{}; the smallest, strategy {} with checkpointing {}: {}",
          options_.headroom > 0 ? fmt::format(" with {:g} of the memory free", options_.headroom)
                                : "",
          nearest->scenario.strategy.value_or("fsdp1"),
          nearest->scenario.checkpointing.value_or("none"),
          nearest->result.why.empty() ? "fits without the headroom" : nearest->result.why));
    }
    if (state("infeasible") != screened.end()) {
      throw InfeasibleError(state("infeasible")->result.why);
    }
    if (state("refused") != screened.end()) throw InputError(state("refused")->result.why);
    throw InputError({.file = "--global-batch", .line = 0, .key = ""},
                     "no micro-batch and accumulation make it up");
  }

  // ---- bucket sizes
  void size_buckets(std::vector<Tried>& best) {
    std::size_t sized = 0;
    for (std::size_t i = 0; i < best.size() && sized < sized_best; ++i) {
      const auto size = knobs_.size_of(best[i].scenario);
      if (!size || best[i].rate <= 0) continue;
      ++sized;
      optimise(best[i], *size);
    }
  }

  static std::string value_of(double log_mib, const Knobs::Size& size) {
    const double value = std::exp2(log_mib) / size.unit;
    if (scenario_key(size.key).type() == KeyType::whole) return fmt::format("{:.0f}", value);
    return fmt::format("{:.4g}", value);
  }

  // A size has a number, so that a worker, which lives through the whole search and whose clock is
  // renewed, can be told of it.
  static std::string value_at(std::size_t number, const Knobs::Size& size) {
    return value_of(std::log2(size.low) + static_cast<double>(number) / sizes_an_octave, size);
  }

  void optimise(Tried& tried, const Knobs::Size& size) {
    const Scenario start = tried.scenario;
    const auto of_size = [this, &start, &size](std::size_t number) {
      Scenario s = *knobs_.with(start, size.key, value_at(number, size));
      scenario_key("engine").set(s, "fluid", {.file = "tune", .line = 0, .key = ""});
      return s;
    };
    DispatchOptions one = dispatch_;
    one.jobs = 1;  // each size depends on those before
    const auto evaluator = std::make_shared<Evaluator>();
    Dispatcher dispatcher(
        [evaluator, of_size](std::size_t number, const std::string&) {
          return result_of(evaluator->evaluate(of_size(number)));
        },
        one);
    std::map<std::string, double> known;  // sizes that were tried, by their text
    const auto rate_at = [&](double log_mib) {
      const auto number =
          static_cast<std::size_t>(std::lround((log_mib - std::log2(size.low)) * sizes_an_octave));
      const auto [place, is_new] = known.emplace(value_at(number, size), 0.0);
      if (!is_new) return place->second;
      if (options_.progress) options_.progress("bucket sizes", tuned_.sized, 0);
      ++tuned_.sized;
      const auto take = [&](std::size_t, const Result& result) {
        place->second = rate_of(result);
        if (place->second <= tried.rate) return;
        Scenario s = of_size(number);
        s.engine = start.engine;
        tried = {s, result, place->second};
      };
      if (!dispatcher.run({number}, "fluid", take, [] {})) throw nlopt::forced_stop();
      return place->second;
    };
    const Tried by_default = tried;
    using Rate = std::function<double(double)>;
    const Rate objective = rate_at;
    const nlopt::vfunc call = [](const std::vector<double>& x, std::vector<double>&, void* data) {
      return (*static_cast<const Rate*>(data))(x[0]);
    };
    try {
      std::vector<double> x{std::log2(25.0)};
      double found = 0;
      for (const auto& [algorithm, tries] :
           {std::pair{nlopt::GN_DIRECT_L, direct_tries}, {nlopt::LN_NELDERMEAD, simplex_tries}}) {
        nlopt::opt search(algorithm, 1);
        search.set_lower_bounds(std::log2(size.low));
        search.set_upper_bounds(std::log2(size.high));
        search.set_max_objective(call, const_cast<Rate*>(&objective));
        search.set_maxeval(tries);
        search.set_xtol_abs(0.01);
        search.set_initial_step(0.5);
        search.optimize(x, found);
      }
    } catch (const nlopt::forced_stop&) {
      stopped_ = true;
    } catch (const nlopt::roundoff_limited&) {
      // as good as it gets
    }
    // A size that nobody can tell from the default is the default.
    if (by_default.rate >= (1 - not_worth_saying) * tried.rate) tried = by_default;
  }

  // ---- what the winner stands beside
  void compare_with_given() {
    Scenario given = given_;
    if (!given.strategy && !given.sharding_strategy) {
      tuned_.given_strategy = "fsdp2";
      scenario_key("strategy").set(given, "fsdp2", {.file = "tune", .line = 0, .key = ""});
    }
    const std::optional<Scenario> alike = knobs_.at_global_batch(given);
    if (alike) {
      tuned_.given = work("compared", {*alike}, "fluid").front();
      return;
    }
    tuned_.given.scenario = given;
    tuned_.given.result.state = "refused";
    tuned_.given.result.why = "its micro-batch does not divide the global batch";
  }

  Alternative alternative(const std::string& value, const Tried& tried) const {
    Alternative a;
    a.value = value;
    a.runs = tried.rate > 0;
    a.loss = 1 - tried.rate / tuned_.best.rate;
    if (!a.runs) {
      a.why = tried.result.state == "ok"             ? "leaves too little memory free"
              : tried.result.state == "does_not_fit" ? "does not fit"
                                                     : tried.result.why;
    }
    return a;
  }

  // Strategies stand beside each other at their own best: another one with these very knobs may not
  // even fit.
  Alternative best_of_strategy(const std::string& strategy) const {
    for (const Tried& tried : confirmed_) {
      if (tried.scenario.strategy == strategy) return alternative(strategy, tried);
    }
    Alternative none;
    none.value = strategy;
    none.why = "does not fit";
    return none;
  }

  void report_knobs() {
    // All other values of all knobs in one go.
    struct Asked {
      std::size_t knob = 0;
      std::string value;
      bool of_default = false;
    };
    std::vector<Asked> asked;
    std::vector<Scenario> scenarios;
    const Scenario& best = tuned_.best.scenario;
    const auto ask = [&](const std::string& value, bool of_default) {
      const std::size_t knob = tuned_.knobs.size() - 1;
      std::optional<Scenario> s = knobs_.with(best, tuned_.knobs[knob].key, value);
      if (!s) return;
      asked.push_back({knob, value, of_default});
      scenarios.push_back(std::move(*s));
    };
    const auto size = knobs_.size_of(best);
    for (const std::string& key : tuned_keys()) {
      const bool is_size = size && size->key == key;
      const std::vector<std::string> values =
          is_size ? std::vector<std::string>{} : knobs_.values(key, best);
      if (values.size() < 2 && !is_size) continue;
      KnobReport& knob = tuned_.knobs.emplace_back();
      knob.key = key;
      knob.is_size = is_size;
      knob.by_default = knobs_.by_default(key, best);
      knob.best = scenario_key(key).text(best);
      if (knob.best.empty()) knob.best = knob.by_default;
      if (key == "strategy") {
        for (const std::string& value : values) knob.others.push_back(best_of_strategy(value));
        continue;
      }
      for (const std::string& value : values) ask(value, false);
      for (int i = 0; is_size && i < scale_points; ++i) {
        const double low = std::log2(size->low), high = std::log2(size->high);
        ask(value_of(low + (high - low) * i / (scale_points - 1), *size), false);
      }
      if (!knob.by_default.empty() && knob.by_default != knob.best) ask(knob.by_default, true);
    }
    const std::vector<Tried> tried = work("compared", scenarios, "fluid");
    if (stopped_) return;
    for (std::size_t i = 0; i < tried.size(); ++i) {
      KnobReport& knob = tuned_.knobs[asked[i].knob];
      const Alternative a = alternative(asked[i].value, tried[i]);
      if (asked[i].of_default) {
        knob.default_loses = a;
      } else {
        knob.others.push_back(a);
      }
    }
    for (KnobReport& knob : tuned_.knobs) {
      if (knob.is_size) measure_flatness(knob);
    }
  }

  // The ranges around the best size without a gap.
  static void measure_flatness(KnobReport& knob) {
    const double best = std::stod(knob.best);
    const auto range = [&](double loss, double& low, double& high) {
      low = high = best;
      for (std::size_t i = 0; i < knob.others.size(); ++i) {  // rising
        const double value = std::stod(knob.others[i].value);
        if (value < best) continue;
        if (!knob.others[i].runs || knob.others[i].loss > loss) break;
        high = value;
      }
      for (std::size_t i = knob.others.size(); i-- > 0;) {
        const double value = std::stod(knob.others[i].value);
        if (value > best) continue;
        if (!knob.others[i].runs || knob.others[i].loss > loss) break;
        low = value;
      }
    };
    range(0.01, knob.low_1, knob.high_1);
    range(0.05, knob.low_5, knob.high_5);
  }

  void finish() {
    const Resolved r = resolve(tuned_.best.scenario);
    tuned_.gpus = r.cluster.world_size;
    tuned_.samples_per_step = static_cast<double>(r.step.workload.micro_batch) *
                              r.step.accumulation * r.cluster.world_size;
    tuned_.tokens_per_sample =
        takes_images(r.step.model.architecture.family) ? 0 : r.step.workload.seq_len;
  }

  TuneOptions options_;
  Knobs knobs_;
  Scenario given_;
  DispatchOptions dispatch_;
  Tuned tuned_;
  std::vector<Tried> confirmed_;
  bool stopped_ = false;
};

}  // namespace

std::optional<Tuned> tune(const Scenario& scenario, const TuneOptions& options) {
  return Tuner(scenario, options).run();
}

}  // namespace stepcast
