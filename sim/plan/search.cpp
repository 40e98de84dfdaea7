#include "sim/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "sim/report/format.hpp"
#include "topologies/topology.hpp"

namespace stepcast {
namespace {

constexpr std::int64_t most_accumulation = 32000;  // of a scenario
constexpr double near_best = 0.95;
constexpr std::size_t at_least = 2;

}  // namespace

struct Searcher::Sized {
  const Machine& machine;
  int gpus_per_node = 1;
  double room = 0;  // bytes
};

std::int64_t accumulation_for(double global_batch, std::int64_t micro_batch, std::int64_t gpus) {
  const double of_one = static_cast<double>(micro_batch) * static_cast<double>(gpus);
  const double times = std::floor(global_batch / of_one * (1 + 1e-12));
  return static_cast<std::int64_t>(times);
}

// By what the replay depends on. What a strategy refuses here (a GPU without the dtype, a world
// that no group divides) has no peak: -1.
Bytes Searcher::peak(const Scenario& scenario, const Choice& choice, int gpus_per_node,
                     bool has_bf16, SearchCounts& counts) {
  const std::string key = fmt::format("{} {} {} {} {} {} {}", choice.nodes, gpus_per_node,
                                      choice.strategy, choice.checkpointing, choice.micro_batch,
                                      std::min<std::int64_t>(choice.accumulation, 3), has_bf16);
  const auto known = peaks_.find(key);
  if (known != peaks_.end()) return known->second;
  ++counts.replays;
  Scenario s = scenario;
  // The third micro-batch finds what the second left; further ones find the same.
  if (choice.accumulation > 3) s.accumulation = 3;
  Bytes bytes = -1;
  try {
    bytes = evaluator_.memory_peak(s);
  } catch (const InputError&) {       // NOLINT(bugprone-empty-catch): no peak
  } catch (const InfeasibleError&) {  // NOLINT(bugprone-empty-catch): no peak
  }
  return peaks_[key] = bytes;
}

// The largest micro-batch that fits and half of it.
std::vector<Choice> Searcher::choices(const std::string& machine, const Choice& base,
                                      const Sized& sized, MachineSearch& result) {
  const std::int64_t gpus = std::int64_t{base.nodes} * sized.gpus_per_node;
  const bool has_bf16 = sized.machine.gpu.peak_bf16.has_value();
  std::vector<Choice> fitting;
  const std::int64_t first = space_.asked.micro_batch.value_or(1);
  const std::int64_t last = space_.asked.micro_batch.value_or(space_.most_micro_batch);
  for (std::int64_t b = first; b <= last; b *= 2) {
    Choice c = base;
    c.micro_batch = b;
    c.accumulation = space_.asked.accumulation.value_or(1);
    if (space_.global_batch > 0) {
      const std::int64_t fills = accumulation_for(space_.global_batch, b, gpus);
      if (fills < c.accumulation) break;
      if (!space_.asked.accumulation && fills > most_accumulation) continue;
      if (!space_.asked.accumulation) c.accumulation = fills;
    }
    ++result.counts.configurations;
    const Bytes bytes = peak(scenario_of(space_.asked, c, machine), c, sized.gpus_per_node,
                             has_bf16, result.counts);
    if (bytes < 0) break;
    if (result.least_peak == 0 || bytes < result.least_peak) result.least_peak = bytes;
    if (static_cast<double>(bytes) > sized.room) break;
    fitting.push_back(c);
  }
  if (fitting.size() > 2) fitting.erase(fitting.begin(), fitting.end() - 2);
  return fitting;
}

Seconds Searcher::screened(const std::string& machine, const Choice& choice, SearchCounts& counts) {
  const auto step = [&](std::int64_t accumulation) {
    Choice c = choice;
    c.accumulation = accumulation;
    c.expandable = !space_.asked.expandable_segments;  // retries can be planned away
    ++counts.screened;
    return timed(evaluator_, space_.asked, c, machine, "formula").step;
  };
  constexpr std::int64_t line = 4;
  if (choice.accumulation <= line) return step(choice.accumulation);
  const Seconds four = step(line), three = step(line - 1);
  return four + static_cast<double>(choice.accumulation - line) * (four - three);
}

MachineSearch Searcher::search(const std::string& name, std::int32_t index) {
  MachineSearch result;
  const Machine machine = load_machine(name);
  result.capacity = machine.gpu.memory_bytes;
  const int on_node = static_cast<int>(machine.gpus.size());
  const int used = static_cast<int>(space_.asked.gpus_per_node.value_or(on_node));
  if (used > on_node) {
    result.why_not = fmt::format("has {} GPUs a node, not {}", on_node, used);
    return result;
  }
  const Sized sized{machine, used,
                    (1 - space_.headroom) * static_cast<double>(machine.gpu.memory_bytes)};
  bool any_size = false;
  bool in_blocks = false;  // tensors fit, the allocator's blocks do not
  std::string refusal;
  for (const std::int32_t nodes : space_.nodes) {
    if (nodes > 1 && machine.nics.empty()) continue;
    if (space_.most_gpus > 0 && std::int64_t{nodes} * used > space_.most_gpus) continue;
    any_size = true;
    struct Screened {
      Choice choice;
      double rate;  // samples a second
    };
    std::vector<Screened> list;
    for (const std::int32_t strategy : space_.strategies) {
      if (strategy != asked_strategy && nodes == 1 &&
          plan_strategies()[static_cast<std::size_t>(strategy)].several_nodes) {
        continue;
      }
      for (const std::int32_t level : space_.levels) {
        Choice base;
        base.machine = index;
        base.nodes = nodes;
        base.strategy = strategy;
        base.checkpointing = level;
        for (const Choice& c : choices(name, base, sized, result)) {
          const double samples = static_cast<double>(c.micro_batch * c.accumulation) * nodes * used;
          try {
            list.push_back({c, samples / screened(name, c, result.counts)});
          } catch (const InputError& error) {  // a GPU without the type, a network without a route
            refusal = error.what();
          } catch (const InfeasibleError& error) {
            refusal = error.what();
          }
        }
      }
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const Screened& a, const Screened& b) { return a.rate > b.rate; });
    const auto confirm = [&](bool expandable) {
      std::optional<Trial> best;
      std::size_t tried = 0;
      for (const Screened& s : list) {
        if (tried >= at_least && best && s.rate < near_best * list.front().rate) break;
        Choice choice = s.choice;
        choice.expandable = expandable;
        Trial t = timed(evaluator_, space_.asked, choice, name, "fluid");
        ++result.counts.confirmed;
        if (!t.fits) continue;  // the allocator says no
        if (t.retries > 0 && !choice.expandable && !space_.asked.expandable_segments) {
          choice.expandable = true;
          const Trial whole = timed(evaluator_, space_.asked, choice, name, "fluid");
          ++result.counts.confirmed;
          if (whole.fits && whole.retries < t.retries) t = whole;
        }
        ++tried;
        if (!best || t.samples / t.step > best->samples / best->step) best = t;
      }
      return best;
    };
    std::optional<Trial> best = confirm(false);
    if (!best && !list.empty()) {
      in_blocks = true;
      if (!space_.asked.expandable_segments) best = confirm(true);
    }
    if (best) result.best.push_back(*best);
  }
  if (!any_size && space_.most_gpus > 0 && used > space_.most_gpus) {
    result.why_not = fmt::format("has {} GPUs a node, and --max-gpus is {}", used,
                                 grouped(static_cast<double>(space_.most_gpus)));
  } else if (!any_size) {
    result.why_not = "has no NIC, so one node at most";
  } else if (result.best.empty() && !refusal.empty()) {
    result.why_not = refusal;
  } else if (result.best.empty() && result.least_peak == 0) {
    result.why_not = fmt::format(
        "no configuration keeps to the global batch with 1 to {} micro-batches, or the GPU has no "
        "such dtype",
        most_accumulation);
  } else if (result.best.empty() && in_blocks) {
    const std::optional<bool>& said = space_.asked.expandable_segments;
    result.why_not = fmt::format(
        "does not fit in the allocator's blocks{}: tensors need at least {} of {}",
        !said   ? ", with expandable_segments neither"
        : *said ? ", which are expandable_segments"
                : "; expandable_segments true was not tried, as the scenario says false",
        human_gib(result.least_peak), human_gib(result.capacity));
  } else if (result.best.empty()) {
    result.why_not = fmt::format("does not fit: at least {} of {}, with {} of it to stay free",
                                 human_gib(result.least_peak), human_gib(result.capacity),
                                 percent(space_.headroom));
  }
  return result;
}

namespace {

template <typename Value>
void put(std::string& bytes, const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);  // NOLINT
}

template <typename Value>
Value get(const std::string& bytes, std::size_t& at) {
  STEPCAST_ASSERT(at + sizeof(Value) <= bytes.size(), "a worker's answer is whole");
  Value value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

}  // namespace

std::string packed(const std::vector<Trial>& trials) {
  std::string bytes;
  put(bytes, trials.size());
  for (const Trial& t : trials) put(bytes, t);
  return bytes;
}

std::vector<Trial> unpacked_trials(const std::string& bytes) {
  std::size_t at = 0;
  std::vector<Trial> trials(get<std::size_t>(bytes, at));
  for (Trial& t : trials) t = get<Trial>(bytes, at);
  return trials;
}

std::string packed(const MachineSearch& search) {
  std::string bytes;
  put(bytes, search.least_peak);
  put(bytes, search.capacity);
  put(bytes, search.counts);
  put(bytes, search.best.size());
  for (const Trial& t : search.best) put(bytes, t);
  return bytes + search.why_not;
}

MachineSearch unpacked_search(const std::string& bytes) {
  MachineSearch search;
  std::size_t at = 0;
  search.least_peak = get<Bytes>(bytes, at);
  search.capacity = get<Bytes>(bytes, at);
  search.counts = get<SearchCounts>(bytes, at);
  search.best.resize(get<std::size_t>(bytes, at));
  for (Trial& t : search.best) t = get<Trial>(bytes, at);
  search.why_not = bytes.substr(at);
  return search;
}

}  // namespace stepcast
