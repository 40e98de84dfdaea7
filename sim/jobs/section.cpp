#include "sim/jobs/section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/letters.hpp"
#include "base/number_text.hpp"
#include "base/whole.hpp"

namespace stepcast::jobs {

namespace {

// GPT-NeoX writes num-layers and num_layers.
std::string normal(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

[[noreturn]] void not_a(const Value& value, const Where& where, const std::string& wanted) {
  if (value.kind == Value::Kind::text && is_placeholder(value.text)) {
    throw InputError(where, fmt::format("{} is a placeholder that somebody must fill in; "
                                        "accepted: {}",
                                        shown(value), wanted));
  }
  throw InputError(where, fmt::format("{} is not accepted; accepted: {}", shown(value), wanted));
}

bool says_something(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null: return false;
    case Value::Kind::boolean: return value.boolean;
    case Value::Kind::integer:
    case Value::Kind::number: return value.number != 0;
    case Value::Kind::text: {
      const std::string word = lower(value.text);
      return !word.empty() && word != "none" && word != "null" && word != "false" && word != "no" &&
             word != "disabled";
    }
    case Value::Kind::list: return !value.items.empty();
    case Value::Kind::map: {
      for (const char* key : {"enabled", "enable"}) {
        if (const Value* enabled = value.find(key)) return says_something(*enabled);
      }
      return !value.entries.empty();
    }
  }
  return true;
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

}  // namespace

Section::Section(const Value& map, std::string path, Job& job)
    : map_(&map), path_(std::move(path)), job_(&job) {}

bool Section::same_name(std::string_view there, std::string_view asked) const {
  const std::string name = normal(there);
  return name == asked || (!prefix_.empty() && name == prefix_ + std::string(asked));
}

const Entry* Section::find(Names names) const {
  const Entry* found = nullptr;
  for (const char* asked : names) {
    for (const auto& entry : map_->entries) {
      if (!same_name(entry.key, asked) || entry.value.is_null()) continue;
      if (found == nullptr) {
        found = &entry;
      } else if (shown(found->value) != shown(entry.value)) {
        throw InputError(
            where(entry.key),
            fmt::format("{} contradicts {} = {} on line {}, which is the same key; "
                        "accepted: one of them",
                        shown(entry.value), found->key, shown(found->value), found->value.line));
      }
    }
  }
  return found;
}

// Of keys that are not one key's names, any: they may say different things.
const Entry* Section::first(Names names) const {
  for (const char* asked : names) {
    for (const auto& entry : map_->entries) {
      if (same_name(entry.key, asked) && !entry.value.is_null()) return &entry;
    }
  }
  return nullptr;
}

bool Section::has(Names names) const { return first(names) != nullptr; }

bool Section::is_auto(Names names) const {
  const auto* found = find(names);
  return found != nullptr && found->value.kind == Value::Kind::text &&
         lower(found->value.text) == "auto";
}

const Value* Section::peek(const char* name) const {
  const auto* found = find({name});
  return found == nullptr ? nullptr : &found->value;
}

Where Section::where(std::string_view key) const {
  const Value* value = map_->find(key);
  return {.file = job_->file,
          .line = value == nullptr ? map_->line : value->line,
          .key = joined(path_, key)};
}

Source Section::source(Names names) const {
  const auto* found = first(names);
  if (found == nullptr) return {Origin::standard, where(*names.begin()), ""};
  return {Origin::file, where(found->key),
          fmt::format("{} = {}", joined(path_, found->key), shown(found->value))};
}

const Value* Section::take(Names names) {
  known(names);
  for (const auto& entry : map_->entries) {
    for (const char* asked : names) {
      if (same_name(entry.key, asked)) taken_.insert(entry.key);
    }
  }
  const auto* found = find(names);
  if (found == nullptr || is_auto(names)) return nullptr;
  return &found->value;
}

std::optional<Fact<std::int64_t>> Section::integer(Names names, double least, double most) {
  const Value* value = take(names);
  if (value == nullptr) return std::nullopt;
  const Source from = source(names);
  const std::string wanted =
      fmt::format("a whole number from {} to {}", number_text(least), number_text(most));
  Value read = *value;
  if (read.kind == Value::Kind::text) read = plain_scalar(read.text, read.line);
  std::optional<std::int64_t> whole;
  if (read.kind == Value::Kind::integer) whole = read.integer;
  if (read.kind == Value::Kind::number) whole = exact_integer(read.number);
  if (!whole || static_cast<double>(*whole) < least || static_cast<double>(*whole) > most) {
    not_a(*value, from.where, wanted);
  }
  return Fact<std::int64_t>{*whole, from};
}

std::optional<Fact<double>> Section::number(Names names, double least, double most) {
  const Value* value = take(names);
  if (value == nullptr) return std::nullopt;
  const Source from = source(names);
  Value read = *value;
  if (read.kind == Value::Kind::text) read = plain_scalar(read.text, read.line);
  const bool is_number = read.kind == Value::Kind::integer || read.kind == Value::Kind::number;
  if (!is_number || !(read.number >= least && read.number <= most)) {
    not_a(*value, from.where,
          fmt::format("a number from {} to {}", number_text(least), number_text(most)));
  }
  return Fact<double>{read.number, from};
}

bool truth(const Value& value, const Where& where) {
  Value read = value;
  if (read.kind == Value::Kind::text) read = plain_scalar(lower(read.text), read.line);
  if (read.kind == Value::Kind::boolean) return read.boolean;
  if (read.kind == Value::Kind::integer && (read.integer == 0 || read.integer == 1)) {
    return read.integer == 1;
  }
  not_a(value, where, "true or false");
}

std::optional<Fact<bool>> Section::boolean(Names names) {
  const Value* value = take(names);
  if (value == nullptr) return std::nullopt;
  const Source from = source(names);
  return Fact<bool>{truth(*value, from.where), from};
}

std::optional<Fact<std::string>> Section::word(Names names) {
  const Value* value = take(names);
  if (value == nullptr) return std::nullopt;
  const Source from = source(names);
  if (!value->is_scalar()) not_a(*value, from.where, "a word");
  return Fact<std::string>{value->text, from};
}

std::vector<std::string> Section::words(Names names) {
  const Value* value = take(names);
  if (value == nullptr) return {};
  std::vector<std::string> out;
  if (value->kind == Value::Kind::list) {
    for (const Value& item : value->items) {
      if (!item.is_scalar()) not_a(item, source(names).where, "a list of words");
      out.push_back(item.text);
    }
    return out;
  }
  if (!value->is_scalar()) not_a(*value, source(names).where, "a word, or a list of words");
  std::string word;
  for (const char c : value->text + " ") {
    if (c != ' ' && c != ',' && c != '\t') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  return out;
}

std::optional<Section> Section::section(Names names) {
  const Value* value = take(names);
  if (value == nullptr) return std::nullopt;
  const auto* found = find(names);
  if (!value->is_map()) not_a(*value, where(found->key), "a table");
  if (value->entries.empty()) return std::nullopt;
  return Section(*value, joined(path_, found->key), *job_);
}

void Section::irrelevant(Names names) {
  irrelevant(std::vector<std::string>(names.begin(), names.end()));
}

void Section::irrelevant(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::size_t star = name.find('*');
    const bool all = star != std::string::npos;
    const std::string_view head = std::string_view(name).substr(0, star);
    const std::string_view tail = all ? std::string_view(name).substr(star + 1) : "";
    if (!all) known_.emplace_back(name);
    for (const auto& entry : map_->entries) {
      const std::string there = normal(entry.key);
      const bool matches = all ? there.size() >= head.size() + tail.size() &&
                                     there.starts_with(head) && there.ends_with(tail)
                               : same_name(entry.key, name);
      if (!matches || !taken_.insert(entry.key).second) continue;
      job_->irrelevant.push_back(joined(path_, entry.key));
    }
  }
}

void Section::known(Names names) {
  for (const char* name : names) known_.emplace_back(name);
}

void Section::close() {
  for (const auto& entry : map_->entries) {
    if (taken_.count(entry.key) > 0) continue;
    // Files carry remarks under keys that nobody reads.
    if (entry.key.starts_with("_") || entry.key.starts_with("#")) {
      job_->irrelevant.push_back(joined(path_, entry.key));
      continue;
    }
    std::vector<std::string> near_names = known_;
    if (!prefix_.empty()) {
      for (const std::string& name : known_) near_names.push_back(prefix_ + name);
    }
    job_->unknown.push_back({where(entry.key), nearest(entry.key, near_names)});
  }
}

void Section::refuse_true(Names names, const std::string& sentence, bool strategy) {
  for (const char* name : names) {
    const Value* value = take({name});
    if (value == nullptr || !says_something(*value)) continue;
    const Source from = source({name});
    if (!value->is_map()) truth(*value, from.where);
    job_->unsupported.push_back({from.where, sentence, "", strategy});
    break;
  }
  for (const char* name : names) take({name});
}

void Section::refuse_any(Names names, const std::string& sentence, bool strategy) {
  for (const char* name : names) {
    const Value* value = take({name});
    if (value == nullptr || !says_something(*value)) continue;
    job_->unsupported.push_back({source({name}).where, sentence, "", strategy});
    break;
  }
  for (const char* name : names) take({name});
}

std::string choice(const Fact<std::string>& fact, const std::vector<std::string>& accepted) {
  const std::string word = lower(fact.value);
  for (const std::string& name : accepted) {
    if (lower(name) == word) return name;
  }
  if (nearest(fact.value, accepted).empty() && is_placeholder(fact.value))
    not_a(text_scalar(fact.value, 0), fact.source.where, "a word");
  throw not_accepted(fact.source.where, fact.value.substr(0, 80), accepted);
}

}  // namespace stepcast::jobs
