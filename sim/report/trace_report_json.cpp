#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/report/trace_report.hpp"

namespace stepcast {

namespace {

using Json = nlohmann::ordered_json;

// Texts come out of foreign files: what is no UTF-8 is replaced.
std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json step_json(const TraceStep& step) {
  Json compute = Json::object(), exposed = Json::object();
  for (int c = 0; c < kernel_classes; ++c) {
    const double us = step.class_us[static_cast<std::size_t>(c)];
    if (us > 0) compute[std::string(to_string(static_cast<KernelClass>(c)))] = us * 1e-6;
  }
  for (const auto& [kind, us] : step.exposed_by_kind_us) exposed[kind] = us * 1e-6;
  using Key = std::tuple<std::string, std::string, int, Bytes>;
  std::map<Key, std::pair<int, double>> rows;
  for (const TraceCall& call : step.calls) {
    auto& [calls, us] = rows[{call.kind, call.dtype, call.ranks, call.bytes}];
    ++calls;
    us += call.us;
  }
  Json collectives = Json::array();
  for (const auto& [key, row] : rows) {
    collectives.push_back({{"kind", std::get<0>(key)},
                           {"dtype", text_or_null(std::get<1>(key))},
                           {"ranks", std::get<2>(key) > 0 ? Json(std::get<2>(key)) : Json()},
                           {"bytes", std::get<3>(key) > 0 ? Json(std::get<3>(key)) : Json()},
                           {"calls", row.first},
                           {"mean_s", row.second / row.first * 1e-6}});
  }
  return {{"name", step.name},
          {"length_s", step.length_us() * 1e-6},
          {"compute_s", step.compute_us() * 1e-6},
          {"exposed_s", step.exposed_us() * 1e-6},
          {"host_s", step.host_us * 1e-6},
          {"idle_s", step.idle_us * 1e-6},
          {"compute_by_class_s", compute},
          {"exposed_by_kind_s", exposed},
          {"collectives_s", step.collective_us * 1e-6},
          {"hidden_s", step.hidden_us * 1e-6},
          {"kernels", step.kernels},
          {"collectives", collectives}};
}

Json summary_json(const TraceSummary& s) {
  Json steps = Json::array(), kernels = Json::array();
  for (const TraceStep& step : s.steps) steps.push_back(step_json(step));
  for (const TraceSummary::Kernel& kernel : s.kernels) {
    kernels.push_back(
        {{"name", kernel.name}, {"calls", kernel.calls}, {"total_s", kernel.us * 1e-6}});
  }
  return {{"file", s.file},
          {"rank", s.info.rank ? Json(*s.info.rank) : Json()},
          {"world_size", s.info.world_size ? Json(*s.info.world_size) : Json()},
          {"gpu", s.info.devices.empty() ? Json() : Json(s.info.devices.front().name)},
          {"nccl_version", text_or_null(s.info.nccl_version)},
          {"device", s.device},
          {"stream", s.main_stream},
          {"typical_step", s.steps[s.typical].name},
          {"steps", steps},
          {"longest_kernels", kernels},
          {"notes", s.notes}};
}

Json calls_json(const std::vector<TraceCall>& calls) {
  Json out = Json::array();
  for (const TraceCall& call : calls) {
    out.push_back({{"ranks", call.ranks > 0 ? Json(call.ranks) : Json()},
                   {"bytes", call.bytes > 0 ? Json(call.bytes) : Json()}});
  }
  return out;
}

Json seconds(int calls, double us) { return calls > 0 ? Json(us * 1e-6) : Json(); }

}  // namespace

std::string to_json(const std::vector<TraceSummary>& ranks) {
  Json list = Json::array();
  for (const TraceSummary& s : ranks) list.push_back(summary_json(s));
  Json waited;
  const std::vector<double> us = waited_for_others_us(ranks);
  if (!us.empty()) {
    waited = Json::array();
    for (const double each : us) waited.push_back(each * 1e-6);
  }
  return dumped(
      {{"schema", "stepcast.trace-summary/1"}, {"traces", list}, {"waited_for_others_s", waited}});
}

std::string to_json(const TraceComparison& c, const TraceSummary& a, const TraceSummary& b) {
  Json parts = Json::array(), collectives = Json::array(), differences = Json::array();
  for (const TraceComparison::Part& part : c.parts) {
    parts.push_back(
        {{"name", part.name}, {"here_s", part.a_us * 1e-6}, {"there_s", part.b_us * 1e-6}});
  }
  for (const TraceComparison::Collective& r : c.collectives) {
    collectives.push_back({{"kind", r.kind},
                           {"dtype", text_or_null(r.dtype)},
                           {"ranks", r.ranks > 0 ? Json(r.ranks) : Json()},
                           {"bytes", r.bytes > 0 ? Json(r.bytes) : Json()},
                           {"calls_here", r.calls_a},
                           {"calls_there", r.calls_b},
                           {"mean_here_s", seconds(r.calls_a, r.mean_a_us)},
                           {"mean_there_s", seconds(r.calls_b, r.mean_b_us)}});
  }
  for (const TraceComparison::Difference& d : c.differences) {
    differences.push_back({{"kind", d.kind},
                           {"after", d.after},
                           {"only_here", calls_json(d.only_a)},
                           {"only_there", calls_json(d.only_b)}});
  }
  return dumped({{"schema", "stepcast.trace-comparison/1"},
                 {"here", {{"file", a.file}, {"step", a.steps[a.typical].name}}},
                 {"there", {{"file", b.file}, {"step", b.steps[b.typical].name}}},
                 {"step_here_s", c.step_a_us * 1e-6},
                 {"step_there_s", c.step_b_us * 1e-6},
                 {"parts", parts},
                 {"sizes_compared", c.sizes},
                 {"collectives", collectives},
                 {"schedule_differences", differences},
                 {"not_aligned", c.uncompared}});
}

}  // namespace stepcast
