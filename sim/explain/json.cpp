#include <nlohmann/json.hpp>

#include "sim/explain/compare.hpp"
#include "sim/explain/explain.hpp"
#include "sim/forecast/command_line.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_runs = 2000;  // of the path; shorter ones then join their neighbours

std::string_view words(Bound bound) {
  constexpr std::string_view names[] = {"start", "host", "stream", "wait", "communicator", "peer"};
  return names[static_cast<std::size_t>(bound)];
}

Json run_json(const PathRun& run) {
  return {{"kind", to_string(run.first.kind)},
          {"stream", run.first.stream},
          {"collective",
           run.first.kind == PathKind::collective ? Json(to_string(run.first.collective)) : Json()},
          {"ops", run.ops},
          {"first", run.first.op},
          {"last", run.last.op},
          {"start_s", run.first.start},
          {"seconds", run.seconds},
          {"interference_s", run.interference},
          {"bound", words(run.first.bound)},
          {"bound_by", run.first.bound_by}};
}

Json split_json(const TimeSplit& t) {
  Json json = {{"compute", t.compute},     {"copies", t.copies}, {"interference", t.interference},
               {"optimizer", t.optimizer}, {"host", t.host},     {"other", t.other}};
  json["exposed"] = Json::object();
  for (const ExposedPart& part : t.exposed) json["exposed"][part.cause] = part.seconds;
  return json;
}

std::string_view side_words(BucketSide::Side side) {
  constexpr std::string_view names[] = {"flat", "latency", "overlap"};
  return names[static_cast<std::size_t>(side)];
}

Json side_json(const Report& r, const std::string& name, const std::string& command) {
  return {{"name", name},
          {"command", command},
          {"machine", r.machine},
          {"machine_name", r.machine_name},
          {"nodes", r.nodes},
          {"gpus", r.gpus},
          {"strategy", r.strategy},
          {"precision", r.precision},
          {"step_s", r.step_time},
          {"samples_per_second", r.samples_per_second},
          {"tokens_per_second", r.tokens_per_second},
          {"mfu", r.mfu},
          {"fits", r.fits},
          {"split_s", split_json(r.split)}};
}

}  // namespace

std::string to_json(const Explanation& e) {
  const Report& r = e.report;
  Json json = {{"schema", "stepcast.explain/1"},
               {"model", r.model},
               {"strategy", r.strategy},
               {"machine", r.machine},
               {"nodes", r.nodes},
               {"gpus", r.gpus},
               {"command", e.command},
               {"step_s", r.step_time},
               {"samples_per_second", r.samples_per_second},
               {"mfu", r.mfu},
               {"fits", r.fits},
               {"sentences", e.sentences},
               {"split_s", split_json(r.split)}};
  std::vector<PathRun> runs = runs_of(e.path);
  for (double least = 1e-4; runs.size() > most_runs; least *= 2) {
    runs = runs_of(e.path, least * e.path.period);
  }
  json["critical_path"] = Json::array();
  for (const PathRun& run : runs) json["critical_path"].push_back(run_json(run));
  json["exposed"] = Json::array();
  for (const ExposedCause& c : e.exposed) {
    json["exposed"].push_back({{"cause", c.cause},
                               {"seconds", c.seconds},
                               {"words", c.numbers.empty() ? c.place : c.place + ": " + c.numbers},
                               {"calls", c.calls},
                               {"middle_bytes", c.bytes},
                               {"all_s", c.all},
                               {"latency_part", c.latency_part},
                               {"link", c.link}});
  }
  json["host_busy_s"] = e.host_busy;
  json["host"] = Json::array();
  for (const HostCost& h : e.host) {
    json["host"].push_back({{"work", h.work}, {"count", h.count}, {"seconds", h.seconds}});
  }
  json["sensitivity_factor"] = 1.1;
  json["sensitivities"] = Json::array();
  for (const Sensitivity& s : e.sensitivities) {
    json["sensitivities"].push_back(
        {{"resource", s.resource}, {"step_s", s.step}, {"gain", s.gain}});
  }
  json["bucket"] = e.bucket ? Json({{"mib", e.bucket->mib},
                                    {"quarter_step_s", e.bucket->smaller},
                                    {"fourfold_step_s", e.bucket->larger},
                                    {"binds", side_words(e.bucket->side)}})
                            : Json();
  json["changes"] = Json::array();
  for (const Change& c : e.changes) {
    json["changes"].push_back({{"change", c.words},
                               {"flags", c.flags},
                               {"fits", c.fits},
                               {"step_s", c.step},
                               {"gain", c.gain},
                               {"changes_batch", c.changes_batch},
                               {"changes_arithmetic", c.changes_arithmetic},
                               {"command", command_of(c.scenario)}});
  }
  json["best"] = e.best >= 0 ? Json(e.best) : Json();
  return json.dump(2) + "\n";
}

std::string to_json(const StepComparison& c) {
  Json json = {{"schema", "stepcast.compare/1"},
               {"a", side_json(c.a, c.name_a, c.command_a)},
               {"b", side_json(c.b, c.name_b, c.command_b)},
               {"difference_s", c.b.step_time - c.a.step_time}};
  json["by_cause"] = Json::array();
  for (const CauseDifference& d : c.causes) {
    json["by_cause"].push_back(
        {{"cause", d.cause}, {"a_s", d.a}, {"b_s", d.b}, {"difference_s", d.b - d.a}});
  }
  json["by_aspect"] = Json::array();
  for (const AspectDifference& d : c.aspects) {
    json["by_aspect"].push_back({{"aspect", d.aspect},
                                 {"step_s", d.step},
                                 {"difference_s", d.difference},
                                 {"throughput_a_gpu", d.throughput},
                                 {"changes", d.changes}});
  }
  return json.dump(2) + "\n";
}

}  // namespace stepcast
