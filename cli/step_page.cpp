#include "cli/step_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json_text.hpp"
#include "sim/forecast/evaluator.hpp"
#include "sim/forecast/interval.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/report/timeline_json.hpp"

namespace stepcast::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr int most_nodes = 1024;
constexpr int many_ops = 20000;  // of a step: beyond, a series of fluid steps takes long

std::vector<int> sizes(int here, bool network) {
  std::vector<int> nodes{here};
  const int most = std::min(most_nodes, std::max(8, here * 4));
  for (int n = 1; network && n <= most; n *= 2) nodes.push_back(n);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

Json point_json(const Evaluation& e) {
  return {{"nodes", e.nodes},
          {"gpus", e.gpus},
          {"step_time_s", e.step_time},
          {"low_s", e.interval.low},
          {"high_s", e.interval.high},
          {"throughput", e.tokens_per_second > 0 ? e.tokens_per_second : e.samples_per_second},
          {"exposed_s", e.split.exposed_total()},
          {"fits", e.state == Evaluation::State::fits}};
}

Json interval_json(const Forecast& f) {
  const StepInterval i = interval_of(f.report, f.resolved.profile);
  return {{"low_s", i.low},       {"high_s", i.high},      {"profile", i.profile},
          {"kernels", i.kernels}, {"network", i.network},  {"scale", i.scale},
          {"memory", i.memory},   {"borrowed", i.borrowed}};
}

}  // namespace

std::string scaling_document(const Scenario& scenario, const Report& report) {
  Scenario base = scenario;
  base.gpus.reset();
  base.perturb.reset();  // it names ranks and nodes
  base.nccl_timeout.reset();
  base.join_early_ranks.reset();
  base.unused_on_ranks.reset();
  if (report.ops_per_step > many_ops) base.engine = "formula";
  Json points = Json::array();
  Json left_out = Json::array();
  Evaluator evaluator;
  for (const int nodes : sizes(report.nodes, !resolve_cluster(base).machine.nics.empty())) {
    base.nodes = nodes;
    const Evaluation e = evaluator.evaluate(base);
    if (e.has_time()) {
      points.push_back(point_json(e));
    } else {
      left_out.push_back((nodes == 1 ? "1 node: " : std::to_string(nodes) + " nodes: ") + e.why);
    }
  }
  return json_line({{"unit", report.images ? "images/s" : "tokens/s"},
                    {"here", report.nodes},
                    {"engine", base.engine.value_or(report.engine)},
                    {"points", points},
                    {"left_out", left_out}});
}

std::string step_document(const Forecast& f, const Scenario& scenario, const std::string& scaling) {
  const bool ends = !f.perturbed || f.perturbed->timeline;
  const Schedule& schedule = f.perturbed ? f.perturbed->schedule : f.schedule;
  const CostTable& costs = f.perturbed ? f.perturbed->costs : f.costs;
  const Timeline& timeline = f.perturbed && ends ? *f.perturbed->timeline : f.timeline;
  const RoleReplay* replay = f.perturbed || f.memory.empty() ? nullptr : &f.memory.front();
  std::string out = "{\"forecast\":" + to_json(f.report);
  out += ",\"interval\":" + json_line(interval_json(f));
  out += ",\"timeline\":" + (ends ? timeline_json(schedule, costs, timeline) : "null");
  out += ",\"memory\":" +
         (ends ? memory_json(schedule, timeline, f.report.capacity, replay) : std::string("null"));
  out += ",\"topology\":" +
         topology_json(f.resolved.cluster, f.schedule, f.costs, f.timeline, f.report.collectives);
  out += ",\"scaling\":" + scaling;
  out += ",\"scenario_toml\":" + json_line(to_toml(scenario)) + "}";
  return out;
}

}  // namespace stepcast::cli
