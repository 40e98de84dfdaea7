#include "cli/serve_answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/json_text.hpp"
#include "cli/step_page.hpp"
#include "cli/step_trace.hpp"
#include "models/model.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/report/trace.hpp"
#include "sim/strategies/strategy.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_value = 100;
constexpr std::size_t longest_body = 64u << 20;

// No key that names a file, none that reads one.
const std::vector<std::string>& accepted_keys() {
  static const std::vector<std::string> keys{"model",
                                             "seq_len",
                                             "image_size",
                                             "micro_batch",
                                             "accumulation",
                                             "checkpointing",
                                             "precision",
                                             "optimizer",
                                             "fused_attention",
                                             "channels_last",
                                             "cluster",
                                             "nodes",
                                             "gpus_per_node",
                                             "network",
                                             "fabric",
                                             "leaf_ports",
                                             "nic_gbps",
                                             "oversubscription",
                                             "gpudirect_rdma",
                                             "strategy",
                                             "bucket_cap_mb",
                                             "first_bucket_mb",
                                             "comm_hook",
                                             "gradient_as_bucket_view",
                                             "reduce_bucket_size",
                                             "overlap_comm",
                                             "sharding_strategy",
                                             "limit_all_gathers",
                                             "backward_prefetch",
                                             "forward_prefetch",
                                             "shard_group",
                                             "reshard_after_forward",
                                             "wrap",
                                             "profile",
                                             "engine"};
  return keys;
}

void only_of(const std::vector<std::string>& catalog, const std::string& key,
             const std::string& value) {
  if (std::find(catalog.begin(), catalog.end(), value) == catalog.end()) {
    throw not_accepted({.file = key, .line = 0, .key = ""}, value, catalog);
  }
}

Scenario scenario_of(const Question& question) {
  Scenario scenario;
  for (const auto& [key, value] : question.keys) {
    const Where where{.file = key.substr(0, longest_value), .line = 0, .key = ""};
    const auto& keys = accepted_keys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw InputError(
          where, fmt::format("is not a knob of this page; accepted: {}", fmt::join(keys, ", ")));
    }
    if (value.empty()) throw InputError(where, "'' is not accepted; accepted: a value");
    if (value.size() > longest_value) {
      throw InputError(where, fmt::format("is {} characters long; accepted: at most {}",
                                          value.size(), longest_value));
    }
    if (key == "model") only_of(catalog_models(), key, value);
    if (key == "cluster") only_of(catalog_machines(), key, value);
    if (key == "profile") only_of(catalog_profiles(), key, value);
    const ScenarioKey& known = scenario_key(key, where);
    if (known.is_set(scenario)) throw InputError(where, "is said twice; accepted: once");
    known.set(scenario, value, where);
    known.check(scenario);
  }
  for (const char* needed : {"model", "cluster", "strategy"}) {
    if (!scenario_key(needed).is_set(scenario)) {
      throw InputError({.file = needed, .line = 0, .key = ""}, "is missing; accepted: a name");
    }
  }
  return scenario;
}

Answer say(const std::string& what, const Scenario& scenario) {
  if (what == "scenario.toml") return {200, "application/toml; charset=utf-8", to_toml(scenario)};
  const Forecast f = forecast(scenario, {.search_change = what == "simulate"});
  if (what == "simulate") return {200, "application/json", step_document(f, scenario, "null")};
  if (what == "scaling") {
    return {200, "application/json", scaling_document(scenario, f.report)};
  }
  if (what == "forecast.json") return {200, "application/json", to_json(f.report)};
  return {200, "application/json", to_trace(f.schedule, f.costs, f.timeline, trace_options(f))};
}

}  // namespace

const std::vector<std::string>& questions() {
  static const std::vector<std::string> all{"simulate", "scaling", "scenario.toml", "forecast.json",
                                            "trace.json"};
  return all;
}

Answer refusal(int status, const std::string& sentence) {
  return {status, "application/json", json_line({{"error", sentence}})};
}

Answer answer(const Question& question) {
  try {
    Answer made = say(question.what, scenario_of(question));
    if (made.body.size() <= longest_body) return made;
    return refusal(422, fmt::format("the answer has {} MB; accepted: at most {} MB, as of a step "
                                    "with fewer operations",
                                    made.body.size() >> 20, longest_body >> 20));
  } catch (const InputError& error) {
    return refusal(400, error.what());
  } catch (const InfeasibleError& error) {
    return refusal(422, error.what());
  } catch (const std::bad_alloc&) {
    return refusal(422, "the step needs more memory than a worker has; accepted: a smaller one");
  } catch (const std::exception& error) {
    return refusal(500, error.what());
  }
}

std::string serve_options() {
  Json models = Json::array(), machines = Json::array(), precisions = Json::object();
  for (const std::string& name : catalog_models()) {
    models.push_back(
        {{"name", name}, {"images", takes_images(load_model(name).architecture.family)}});
  }
  for (const std::string& name : catalog_machines()) {
    const Machine machine = load_machine(name);
    machines.push_back({{"name", name},
                        {"full_name", machine.full_name},
                        {"gpus", machine.gpus.size()},
                        {"nics", machine.nics.size()}});
  }
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    precisions[std::string(to_string(kind))] = precision_recipes_of(kind);
  }
  Json limits = Json::object();
  for (const std::string& key : accepted_keys()) {
    const ScenarioKey& known = scenario_key(key);
    if (known.is_number()) limits[key] = {known.info().min, known.info().max};
  }
  return json_line({{"models", models},
                    {"machines", machines},
                    {"precisions", precisions},
                    {"profiles", catalog_profiles()},
                    {"limits", limits},
                    {"defaults",
                     {{"model", "llama-3-8b"},
                      {"cluster", "dgx-h100"},
                      {"nodes", "16"},
                      {"strategy", "fsdp2"},
                      {"seq_len", "8192"},
                      {"checkpointing", "full"}}}});
}

void warm_up() {
  const Json defaults = Json::parse(serve_options())["defaults"];
  Question question{"forecast.json", {{"engine", "formula"}}};
  for (const auto& [key, value] : defaults.items()) question.keys.emplace_back(key, value);
  const Answer made = answer(question);
  STEPCAST_ASSERT(made.status == 200, "the page's first step is forecast: " + made.body);
}

}  // namespace stepcast::cli
