#include "sim/strategies/ddp/unused.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/strategies/ddp/layout.hpp"
#include "sim/strategies/ddp/reducer.hpp"

namespace stepcast::ddp {
namespace {

constexpr std::size_t most_runs = 64;  // each is a program of its own

InputError refused(const char* key, const std::string& message) {
  return InputError({"", 0, key}, message);
}

std::vector<int> ranks_of(const TrainingStep& step) {
  const int world = step.mesh.world_size();
  std::vector<int> ranks = step.strategy.unused_on_ranks;
  if (ranks.empty()) {
    for (int r = 0; r < world; ++r) ranks.push_back(r);
    return ranks;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.front() < 0 || ranks.back() >= world) {
    throw refused("unused_on_ranks",
                  fmt::format("{} is no rank; accepted: 0 to {}",
                              ranks.front() < 0 ? ranks.front() : ranks.back(), world - 1));
  }
  return ranks;
}

std::vector<RankRun> runs_of(const std::vector<int>& ranks) {
  std::vector<RankRun> runs;
  for (const int rank : ranks) {
    if (runs.empty() || runs.back().first + runs.back().count != rank) runs.push_back({rank, 0});
    ++runs.back().count;
  }
  return runs;
}

}  // namespace

Unused unused_parameters(const TrainingStep& step) {
  Unused unused;
  const std::vector<Parameter>& parameters = step.model.parameters;
  if (step.strategy.unused_parameters.empty()) return unused;
  unused.parameter.resize(parameters.size());
  for (const std::string& pattern : step.strategy.unused_parameters) {
    bool matched = false;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (fnmatch(pattern.c_str(), parameters[p].name.str().c_str(), 0) != 0) continue;
      unused.parameter[p] = matched = true;
    }
    if (matched) continue;
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name.str());
    const std::string near = nearest(pattern, names);
    throw refused("unused_parameters",
                  fmt::format("'{}' matches no parameter of {}; accepted: names such as {}, and "
                              "patterns with * and ?",
                              pattern, step.model.name, near.empty() ? names.front() : near));
  }
  if (std::find(unused.parameter.begin(), unused.parameter.end(), false) ==
      unused.parameter.end()) {
    throw refused("unused_parameters", "every parameter is named; accepted: some of them");
  }
  unused.ranks = ranks_of(step);
  unused.everywhere = static_cast<int>(unused.ranks.size()) == step.mesh.world_size();
  return unused;
}

bool marks_unused(const StrategyOptions& options) {
  return options.find_unused_parameters || options.static_graph;
}

Partition partition(const std::vector<int>& ranks, int world_size, const std::string& key) {
  std::vector<int> rest;
  for (int r = 0; r < world_size; ++r) {
    if (!std::binary_search(ranks.begin(), ranks.end(), r)) rest.push_back(r);
  }
  Partition result{runs_of(ranks), runs_of(rest)};
  if (result.in.size() + result.out.size() > most_runs) {
    throw refused(key.c_str(), fmt::format("cuts the ranks into {} runs; accepted: at most {}",
                                           result.in.size() + result.out.size(), most_runs));
  }
  return result;
}

std::string in_words(const std::vector<int>& ranks, int world_size) {
  if (static_cast<int>(ranks.size()) == world_size) return fmt::format("all {} ranks", world_size);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (const RankRun& run : runs_of(ranks)) {
    if (text.back() != ' ') text += ", ";
    text += std::to_string(run.first);
    if (run.count > 1) text += fmt::format(" to {}", run.first + run.count - 1);
  }
  return text;
}

std::optional<Unreduced> unreduced_gradients(const TrainingStep& step) {
  const StrategyOptions& options = step.strategy;
  if (options.kind != StrategyKind::ddp || marks_unused(options)) return std::nullopt;
  const Unused unused = unused_parameters(step);
  if (!unused.any()) return std::nullopt;
  const int iteration = iterations(options, step.first_step).front().index;
  const std::vector<Bucket> buckets = layout(step, ready_order(step), iteration);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const int parameter : buckets[b].tensors) {
      const auto p = static_cast<std::size_t>(parameter);
      if (!unused.parameter[p]) continue;
      const std::string bucket = fmt::format("bucket {} of {}", b, buckets.size());
      const std::string where = in_words(unused.ranks, step.mesh.world_size());
      const std::string raises =
          "PyTorch's \"Expected to have finished reduction in the prior iteration\"";
      const std::string cure = unused.everywhere
                                   ? "find_unused_parameters (or static_graph, where it is the "
                                     "same in every step) cures it"
                                   : "find_unused_parameters cures it";
      Unreduced result;
      result.everywhere = unused.everywhere;
      result.text = fmt::format("unused_parameters: '{}' gets no gradient on {}, so {} ",
                                step.model.parameters[p].name.str(), where, bucket);
      result.text += unused.everywhere
                         ? fmt::format(
                               "and those after it are never all-reduced: the step runs on "
                               "unreduced gradients and the next forward stops with {}; {}",
                               raises, cure)
                         : fmt::format(
                               "is never complete there: the other ranks hang in its "
                               "all-reduce until the process group's timeout, and {} {} "
                               "at the next forward with {}; {}",
                               where, unused.ranks.size() == 1 ? "stops" : "stop", raises, cure);
      return result;
    }
  }
  STEPCAST_ASSERT(false, "an unused parameter in no bucket");
}

}  // namespace stepcast::ddp
