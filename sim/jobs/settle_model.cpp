// Which model the files mean: by its name, by a config.json, or by sizes that they spell out.
//
// Tested by tests/unit/jobs/combine_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "models/model.hpp"
#include "sim/jobs/settle_parts.hpp"

namespace stepcast::jobs {

namespace {

// A folder with a config.json, or that file itself.
std::string local_config(const std::string& name) {
  std::error_code none;
  namespace fs = std::filesystem;
  const fs::path path(name);
  if (name.empty() || name.size() > 4096) return "";
  if (fs::is_regular_file(path / "config.json", none)) return (path / "config.json").string();
  if (name.ends_with(".json") && fs::is_regular_file(path, none)) return name;
  return "";
}

std::int64_t size_of(const Facts& facts, const char* name, std::int64_t otherwise) {
  const auto found = facts.sizes.find(name);
  return found == facts.sizes.end() ? otherwise : found->second.value;
}

// A model of the catalog with exactly these sizes. MPT says its feed-forward by a ratio.
std::string model_of_sizes(const Facts& facts) {
  const std::int64_t hidden = size_of(facts, "hidden", 0);
  const std::int64_t layers = size_of(facts, "layers", 0);
  const std::int64_t heads = size_of(facts, "heads", 0);
  const std::int64_t vocabulary = size_of(facts, "vocabulary", 0);
  if (hidden == 0 || layers == 0 || heads == 0 || vocabulary == 0) return "";
  if (hidden > (1 << 24)) return "";
  const bool mpt = facts.sizes.count("expansion") > 0;
  const std::int64_t ffn = mpt ? hidden * std::min<std::int64_t>(size_of(facts, "expansion", 4), 64)
                               : size_of(facts, "ffn_hidden", 0);
  for (const std::string& name : catalog_models()) {
    const Architecture a = load_model(name).architecture;
    if ((a.family == Family::mpt) != mpt) continue;
    if (a.hidden == hidden && a.layers == layers && a.heads == heads && a.ffn_hidden == ffn &&
        a.vocabulary == vocabulary && a.kv_heads == size_of(facts, "kv_heads", heads)) {
      return name;
    }
  }
  return "";
}

std::string words_of_sizes(const Facts& facts) {
  std::string words;
  for (const auto& [name, fact] : facts.sizes) {
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", name, fact.value);
  }
  return words;
}

}  // namespace

void settle_model(const Facts& facts, Combined& all) {
  if (all.scenario.model || all.scenario.params) return;
  if (facts.model) {
    const std::string& name = facts.model->value;
    const std::string config = local_config(name);
    const std::string known = config.empty() ? catalog_model(name) : config;
    if (!known.empty()) {
      Source source = facts.model->source;
      // The path is as the user typed it, not relative to the job file.
      source.where.line = config.empty() ? source.where.line : 0;
      set(all, "model", &Scenario::model, known, source);
      return;
    }
  }
  const std::string same = model_of_sizes(facts);
  if (!same.empty()) {
    set(all, "model", &Scenario::model, same,
        Source{Origin::derived, facts.sizes.begin()->second.source.where,
               "the model with these sizes: " + words_of_sizes(facts)});
    return;
  }
  Asked asked{"model", {}, "", true};
  if (facts.model) {
    asked.where = facts.model->source.where;
    asked.sentence = fmt::format(
        "model {} is not in stepcast's catalog; give --model with its "
        "config.json, or a name of `stepcast list models`",
        shown(text_scalar(facts.model->value, 0)));
  } else if (!facts.sizes.empty()) {
    const auto hidden = facts.sizes.find("hidden");
    const auto& first = hidden == facts.sizes.end() ? facts.sizes.begin()->second : hidden->second;
    asked.where = first.source.where;
    asked.sentence = fmt::format(
        "no model of the catalog has these sizes ({}); give --model with a "
        "config.json or a model's TOML",
        words_of_sizes(facts));
  } else {
    asked.where = {.file = fmt::format("{}", fmt::join(facts.files, ", ")), .line = 0, .key = ""};
    asked.sentence =
        "names no model; accepted: --model with a name of `stepcast list models` or with its "
        "config.json, or that config.json as another --from";
  }
  all.asked.push_back(asked);
}

}  // namespace stepcast::jobs
