#include "sim/jobs/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "sim/forecast/resolve.hpp"
#include "sim/jobs/emit_parts.hpp"

namespace stepcast::jobs {

namespace {

struct Format {
  const char* name;
  std::vector<std::string> strategies;
  std::string (*text)(Pen&);
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all{
      {"deepspeed", {"zero1", "zero2", "zero3", "ddp"}, deepspeed_text},
      {"accelerate", {"ddp", "fsdp1", "fsdp2", "hsdp", "zero1", "zero2", "zero3"}, accelerate_text},
      {"torchtitan", {"fsdp2", "hsdp", "ddp"}, torchtitan_text}};
  return all;
}

const Format& format_named(const std::string& name) {
  for (const Format& known : formats()) {
    if (name == known.name) return known;
  }
  throw not_accepted({.file = "--emit", .line = 0, .key = ""}, name, emit_formats());
}

std::string shown(const std::string& value) { return value; }
std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(const YesNoOrCount& value) {
  return value.count > 0 ? std::to_string(value.count) : shown(value.yes);
}
template <typename Number>
std::string shown(const Number& value) {
  return fmt::format("{}", value);
}
template <typename T>
std::string shown(const std::vector<T>& values) {
  std::string out;
  for (const T& value : values) out += (out.empty() ? "" : ",") + shown(value);
  return out;
}

}  // namespace

std::vector<std::string> Pen::left_out() const {
  std::vector<std::string> keys;
  visit_scenario(s, [&](const KeyInfo& key, const auto& field) {
    const std::string_view group = key.group;
    if (const auto left = defaults_.find(key.name); !field && left != defaults_.end()) {
      keys.push_back(fmt::format("{} = {}", key.name, left->second));
    }
    if (!field || (group != "Model" && group != "Strategy") || said_.count(key.name) > 0) return;
    keys.push_back(fmt::format("{} = {}", key.name, shown(*field)));
  });
  return keys;
}

std::string Pen::strategy() const {
  const StrategyChoice choice = resolve_strategy(s);
  return std::string(to_string(choice.kind));
}

std::optional<std::int64_t> Pen::world() const {
  if (s.cluster) return resolve_cluster(s).world_size;
  if (s.gpus) return *s.gpus;
  if (s.nodes && s.gpus_per_node) return *s.nodes * *s.gpus_per_node;
  return std::nullopt;
}

std::optional<std::int64_t> Pen::nodes() const {
  if (s.cluster) return resolve_cluster(s).nodes;
  if (s.nodes) return *s.nodes;
  if (s.gpus && s.gpus_per_node) return (*s.gpus + *s.gpus_per_node - 1) / *s.gpus_per_node;
  return std::nullopt;
}

std::string Pen::precision() {
  if (const auto& said = take("precision", s.precision)) return *said;
  const bool has_bf16 = !s.cluster || resolve_cluster(s).machine.gpu.peak_bf16.has_value();
  return default_precision(resolve_strategy(s).kind, has_bf16);
}

std::optional<std::int64_t> Pen::seq_len() const {
  if (s.seq_len || !s.model) return s.seq_len;
  const Architecture& a = load_model(scenario_path(s, "model", *s.model)).architecture;
  if (takes_images(a.family) || a.max_positions <= 0) return std::nullopt;
  return a.max_positions;
}

const std::vector<std::string>& emit_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Format& format : formats()) all.emplace_back(format.name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& emit_strategies(const std::string& format) {
  return format_named(format).strategies;
}

std::vector<std::string> emit_checkpointing(const std::string& format) {
  const bool by_op = format_named(format).text == torchtitan_text;
  return {"none", by_op ? "selective-op" : "selective", "full"};
}

void check_emits(const Scenario& scenario, const std::string& format) {
  const std::vector<std::string>& strategies = emit_strategies(format);
  const std::string strategy = Pen(scenario).strategy();
  if (std::find(strategies.begin(), strategies.end(), strategy) != strategies.end()) return;
  throw InputError(scenario.where("strategy"),
                   fmt::format("{} does not run {}; accepted: {}", format, strategy,
                               fmt::join(strategies, ", ")));
}

Emitted emitted(const Scenario& scenario, const std::string& format) {
  check_emits(scenario, format);
  Pen pen(scenario);
  pen.say("strategy");
  Emitted out;
  out.text = format_named(format).text(pen);
  out.left_out = pen.left_out();
  return out;
}

std::string emit(const Scenario& scenario, const std::string& format) {
  return emitted(scenario, format).text;
}

}  // namespace stepcast::jobs
