#pragma once
// What the ledger says of a source, as named numbers: bars, records and tables all read these.
//
//   step.fit.median        absolute error of the step time in percent: median, p90, worst
//   no_network.check.p90   the same of a baseline (baselines.hpp); flops_only
//   scaling.check.median   rate a GPU over that of the baseline's partner, forecast against
//                          measured, in points
//   memory.all.median      absolute error of the peak memory in percent
//   added.check.median     error of the time that is added over the partner, in percent of it,
//                          where 2 ms or more were; added.check.wrong_sign: rows
//   change.check.worst     error of a change of the throughput in points; change.check.wrong_sign:
//                          rows of at least 1 %
//   interval.check.coverage, interval.check.width    in percent (sim/forecast/interval.hpp)
//   decisions.right, pairs.right    in percent (decisions.hpp); decisions.count
// Every group has a .rows as well.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/published/baselines.hpp"

namespace stepcast {

using Figures = std::map<std::string, double>;

Figures figures_of(const std::vector<Outcome>& outcomes, const std::vector<Baseline>& baselines);

struct BarResult {
  Bar bar;
  std::optional<double> figure;
  std::optional<double> baseline;  // the better one's, where the bar is against them
  bool met = false;
};
std::vector<BarResult> judge(const std::vector<Bar>& bars, const Figures& figures);

}  // namespace stepcast
