#include "sim/sweep/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/forecast/evaluator.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast {
namespace {

constexpr double most_combinations = 1'000'000;

// FNV-1a of 128 bits (G. Fowler, L. C. Noll, K.-P. Vo): points are millions at most, so that two
// with one key are out of the question.
std::string hash_of(const std::string& text) {
  __extension__ using Wide = unsigned __int128;
  const Wide prime = (Wide{1} << 88) + 0x13b;
  Wide hash = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(hash >> 64),
                     static_cast<std::uint64_t>(hash));
}

// Keys that may name a file.
bool may_name_file(const std::string& key) {
  static const std::set<std::string> keys{"model", "cluster", "profile", "measured_collectives",
                                          "calibration"};
  return keys.count(key) > 0;
}

// Said or not, it is the same point.
bool says_the_default(const ScenarioKey& key, const Scenario& s) {
  const Cell standard = default_of(key.name());
  if (standard == Cell()) return false;
  const std::optional<double> number = key.number(s);
  return standard == (number ? Cell(*number) : Cell(key.text(s)));
}

}  // namespace

Points::Points(Scenario base, std::vector<SweepAxis> axes, std::vector<Expression> conditions,
               std::optional<Sampling> sampling)
    : base_(std::move(base)), axes_(std::move(axes)) {
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const std::string name = axes_[a].name();
    for (std::size_t b = 0; b < a; ++b) {
      if (axes_[b].name() != name) continue;
      throw InputError(vary_flag(), fmt::format("{} is varied twice; accepted: once", name));
    }
    if (axes_[a].values.empty() && !sampling) {
      throw InputError(vary_flag(),
                       fmt::format("{}: a range without a number of values is for --sample; "
                                   "accepted: LOW:HIGH:log10, or --sample sobol:100",
                                   name));
    }
    strategies_vary_ = strategies_vary_ || name == "strategy" || name == "sharding_strategy";
    // One way to say how many GPUs there are, as everywhere.
    if (name == "nodes") scenario_key("gpus").reset(base_);
    if (name == "gpus") scenario_key("nodes").reset(base_);
    if (name == "params") {
      throw InputError(vary_flag(), "params has tables, no steps; accepted: model");
    }
  }
  if (sampling) {
    enumerate_samples(*sampling, conditions);
  } else {
    enumerate(conditions);
  }
  seen_.clear();
  find_keys();
}

// The strategies first: what each leaves out is not enumerated at all. Then in the order of the
// axes.
void Points::enumerate(const std::vector<Expression>& conditions) {
  for (const SweepAxis& axis : axes_) {
    std::vector<Scenario>& said = said_.emplace_back();
    for (const std::string& value : axis.values) {
      axis.key->set(said.emplace_back(), value, vary_flag());
    }
  }
  std::vector<std::size_t> of_strategy, others;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const bool chooses = axes_[a].name() == "strategy" || axes_[a].name() == "sharding_strategy";
    (chooses ? of_strategy : others).push_back(a);
  }
  std::vector<Choice> choices;
  for_each_choice(Choice(axes_.size(), 0), of_strategy, [&](const Choice& strategy) {
    std::vector<std::size_t> known;
    Choice first = strategy;
    for (const std::size_t a : others) first[a] = -1;
    const Scenario s = scenario_of(first);
    double count = 1;
    for (const std::size_t a : others) {
      if (strategies_vary_ && !takes(s, axes_[a].name())) continue;
      known.push_back(a);
      count *= static_cast<double>(axes_[a].values.size());
    }
    if (static_cast<double>(choices.size()) + count > most_combinations) {
      throw InputError(vary_flag(),
                       "more than 1,000,000 combinations; accepted: fewer values, or a sample of "
                       "them (--sample sobol:1000)");
    }
    for (const std::size_t a : known) first[a] = 0;
    for_each_choice(first, known, [&](const Choice& choice) { choices.push_back(choice); });
  });
  combinations_ = choices.size();
  std::sort(choices.begin(), choices.end());
  for (const Choice& choice : choices) add(choice, conditions);
}

// Every combination of these axes' values, the last fastest.
template <typename Action>
void Points::for_each_choice(Choice choice, const std::vector<std::size_t>& axes,
                             Action&& action) const {
  for (;;) {
    action(choice);
    std::size_t n = axes.size();
    while (n-- > 0) {
      if (++choice[axes[n]] < static_cast<std::int32_t>(axes_[axes[n]].values.size())) break;
      choice[axes[n]] = 0;
    }
    if (n == static_cast<std::size_t>(-1)) return;
  }
}

// Two strategies that contradict each other take everything: a point to be refused.
bool Points::takes(const Scenario& s, const std::string& key) const {
  try {
    return strategy_takes(key, resolve_strategy(s));
  } catch (const InputError&) {
    return true;
  }
}

void Points::enumerate_samples(const Sampling& sampling,
                               const std::vector<Expression>& conditions) {
  combinations_ = static_cast<std::size_t>(sampling.count);
  const auto rows = draw(sampling, static_cast<int>(axes_.size()));
  // What was drawn becomes the axis' values.
  std::vector<std::vector<std::string>> drawn(axes_.size());
  std::vector<std::map<std::string, std::int32_t>> known(axes_.size());
  std::vector<Choice> choices;
  for (const std::vector<double>& row : rows) {
    Choice& choice = choices.emplace_back();
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const std::string value = value_at(axes_[a], row[a]);
      const auto next = static_cast<std::int32_t>(drawn[a].size());
      const auto [place, is_new] = known[a].emplace(value, next);
      if (is_new) drawn[a].push_back(value);
      choice.push_back(place->second);
    }
  }
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    axes_[a].values = drawn[a];
    std::vector<Scenario>& said = said_.emplace_back();
    for (const std::string& value : drawn[a]) {
      axes_[a].key->set(said.emplace_back(), value, vary_flag());
    }
  }
  for (const Choice& choice : choices) add(choice, conditions);
}

// Keys that the point's strategy has not.
void Points::leave_out(Scenario& s, Choice* choice) const {
  StrategyChoice strategy;
  try {
    strategy = resolve_strategy(s);
  } catch (const InputError&) {
    if (!strategies_vary_) throw;
    return;  // two that contradict each other: a point to be refused
  }
  for (std::size_t a = 0; choice != nullptr && a < axes_.size(); ++a) {
    if (strategy_takes(axes_[a].name(), strategy)) continue;
    if (!strategies_vary_) {
      throw InputError(vary_flag(), fmt::format("{}: {} has no such knob; accepted: keys that it "
                                                "has, or several strategies (--vary strategy=...)",
                                                axes_[a].name(), to_string(strategy.kind)));
    }
    (*choice)[a] = -1;
  }
  if (!strategies_vary_) return;
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.is_set(s) && !strategy_takes(key.name(), strategy)) key.reset(s);
  }
}

Scenario Points::scenario_of(const Choice& choice) const {
  Scenario s = base_;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (choice[a] >= 0) axes_[a].key->copy(said_[a][static_cast<std::size_t>(choice[a])], s);
  }
  return s;
}

void Points::add(Choice choice, const std::vector<Expression>& conditions) {
  Scenario s = scenario_of(choice);
  leave_out(s, &choice);
  if (!seen_.insert(hash_of(text_of(s))).second) return;
  for (const Expression& condition : conditions) {
    if (condition.holds([&](const std::string& name) { return cell(s, name); }, true)) continue;
    ++excluded_;
    return;
  }
  choices_.push_back(std::move(choice));
}

Scenario Points::scenario(std::size_t point, const std::string& engine) const {
  Scenario s = scenario_of(choices_[point]);
  leave_out(s, nullptr);
  if (!engine.empty()) scenario_key("engine").set(s, engine, vary_flag());
  return s;
}

std::string Points::key(std::size_t point, const std::string& engine) const {
  return hash_of(text_of(scenario(point, engine)));
}

std::string Points::text_of(const Scenario& s) const {
  std::string text;
  for (const ScenarioKey& key : scenario_keys()) {
    if (!key.is_set(s) || says_the_default(key, s)) continue;
    const std::string value = key.text(s);
    text += key.name();
    text += '=';
    if (may_name_file(key.name())) {
      const std::string path = scenario_path(s, key.info().name, value);
      std::error_code none;
      if (std::filesystem::is_regular_file(path, none)) {
        std::string& contents = contents_[path];
        if (contents.empty()) contents = "file:" + hash_of(read_file(path));
        text += contents + '\n';
        continue;
      }
    }
    text += value;
    text += '\n';
  }
  return text;
}

void Points::find_keys() {
  for (const ScenarioKey& key : scenario_keys()) {
    const bool varied = std::any_of(axes_.begin(), axes_.end(),
                                    [&](const SweepAxis& axis) { return axis.key == &key; });
    if (varied || key.is_set(base_) || key.name() == "engine") keys_.push_back(&key);
  }
}

std::vector<std::size_t> Points::work_order() const {
  std::vector<std::size_t> axes;  // that change schedules first
  for (const bool changes : {true, false}) {
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (changes_schedule(axes_[a].name()) == changes) axes.push_back(a);
    }
  }
  std::vector<std::size_t> order(choices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    for (const std::size_t a : axes) {
      if (choices_[x][a] != choices_[y][a]) return choices_[x][a] < choices_[y][a];
    }
    return false;
  });
  return order;
}

std::string Points::fingerprint() const {
  std::string all;
  for (std::size_t p = 0; p < size(); ++p) all += key(p);
  return hash_of(all);
}

// What a condition's name means at a point: the key as said, or as it is when nobody says it.
Cell Points::cell(const Scenario& s, const std::string& name) {
  if (name == "gpus" || name == "nodes") {
    try {
      const Cluster cluster = resolve_cluster(s, sources_);
      return static_cast<double>(name == "gpus" ? cluster.world_size : cluster.nodes);
    } catch (const InputError&) {
      return {};  // to be refused later, with its sentence
    }
  }
  const ScenarioKey& key = scenario_key(name);
  if (const std::optional<double> number = key.number(s)) return *number;
  if (key.is_set(s)) {
    const std::string text = key.text(s);
    if (key.type() == KeyType::yes_no) return text == "true" ? 1.0 : 0.0;
    return text;
  }
  if (default_of(name) != Cell()) return default_of(name);
  if (name == "seq_len" && s.model) {
    try {
      const Model& model = sources_.model(scenario_path(s, "model", *s.model), 0, 0);
      return static_cast<double>(model.architecture.max_positions);
    } catch (const InputError&) {
      return {};
    }
  }
  return {};
}

Cell default_of(const std::string& key) {
  if (key == "micro_batch" || key == "accumulation") return 1.0;
  if (key == "checkpointing") return std::string("none");
  return {};
}

std::vector<std::string> condition_names() {
  std::vector<std::string> names;
  for (const ScenarioKey& key : scenario_keys()) names.push_back(key.name());
  return names;
}

}  // namespace stepcast
