// Named models: TOML files compiled into the library, or a file of the same kind that the user
// brings. The schema is in docs/models.md.
//
// Tested by tests/unit/models/catalog_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"
#include "models/architecture.hpp"
#include "models/hf_config.hpp"
#include "models/model.hpp"

namespace stepcast {
namespace {

Family read_family(TomlTable& toml) {
  const std::string name = toml.string("family");
  for (const Family family : {Family::gpt2, Family::llama, Family::mpt}) {
    if (to_string(family) == name) return family;
  }
  throw not_accepted(toml.where("family"), name, {"gpt2", "llama", "mpt"});
}

std::int64_t size_or(TomlTable& toml, std::string_view key, std::int64_t fallback) {
  return toml.integer_or(key, fallback, {1, 9e18});
}

// The switches that a file may leave out have the family's usual value.
Model model_from_toml(TomlTable toml, const std::string& file, std::int64_t seq_len) {
  Architecture a;
  a.family = read_family(toml);
  const bool gpt = a.family != Family::llama;
  a.hidden = toml.integer("hidden", {1, 9e18});
  a.layers = toml.integer("layers", {1, 9e18});
  a.heads = toml.integer("heads", {1, 9e18});
  a.kv_heads = size_or(toml, "kv_heads", 0);
  a.head_size = size_or(toml, "head_size", 0);
  a.ffn_hidden = toml.integer("ffn_hidden", {1, 9e18});
  a.vocabulary = toml.integer("vocabulary", {1, 9e18});
  a.max_positions = toml.integer("max_positions", {1, 9e18});
  const std::optional<bool> tied = toml.optional_boolean("tied_embeddings");
  if (!tied) throw InputError(toml.where("tied_embeddings"), "is missing; accepted: true or false");
  a.tied_embeddings = *tied;
  a.learned_positions = toml.boolean_or("learned_positions", gpt);
  a.attention_bias = toml.boolean_or("attention_bias", gpt);
  a.attention_output_bias = toml.boolean_or("attention_output_bias", gpt);
  a.mlp_bias = toml.boolean_or("mlp_bias", gpt);
  a.norm_bias = toml.boolean_or("norm_bias", gpt);
  a.query_key_norm = toml.boolean_or("query_key_norm", false);
  a.embedding_dropout = toml.boolean_or("embedding_dropout", false);
  a.attention_dropout = toml.boolean_or("attention_dropout", false);
  a.residual_dropout = toml.boolean_or("residual_dropout", false);
  // The position table has a row for each position of the training sequence (llm-foundry).
  if (toml.boolean_or("positions_follow_seq_len", false) && seq_len > 0) {
    a.max_positions = seq_len;
  }
  const std::string name = toml.string("name");
  const std::string source = toml.string("source");
  const std::string dtype_name = toml.string_or("dtype", "fp32");
  const auto dtype = parse_dtype(dtype_name);
  if (!dtype) throw not_accepted(toml.where("dtype"), dtype_name, {"fp32", "fp16", "bf16"});
  toml.finish();

  if (const auto problem = complete(a)) {
    throw InputError(toml.where(problem->field), problem->message);
  }
  Model model = build_model(name, a);
  model.source = file + ": " + source;
  model.stored_dtype = *dtype;
  return model;
}

constexpr std::string_view extension = ".toml";

std::string_view stem(const embedded::File& file) {
  return file.name.substr(0, file.name.size() - extension.size());
}

// Upper case and '_' are written as well as lower case and '-'.
std::string folded(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return text;
}

const embedded::File* catalog_file(std::string_view name) {
  const std::string wanted = folded(name);
  for (const embedded::File& file : embedded::models()) {
    if (stem(file) == wanted) return &file;
  }
  return nullptr;
}

bool looks_like_path(const std::string& text) {
  const std::filesystem::path path(text);
  return text.find('/') != std::string::npos || path.extension() == ".json" ||
         path.extension() == extension;
}

std::string config_path(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  std::string inside = (std::filesystem::path(path) / "config.json").string();
  if (!std::filesystem::exists(inside, ignored)) {
    throw InputError({path, 0, ""},
                     "is a directory without a config.json; accepted: a config.json "
                     "or a directory that holds one");
  }
  return inside;
}

// What a config.json's model is called: its directory ("Llama-3-8B/config.json"), else the file.
std::string name_of(const std::string& file) {
  const std::filesystem::path path(file);
  if (path.filename() != "config.json") return path.stem().string();
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  const std::string directory = whole.lexically_normal().parent_path().filename().string();
  return directory.empty() ? "config.json" : directory;
}

}  // namespace

Model model_from_hf_config(const std::string& path) {
  const std::string file = config_path(path);
  return model_from_hf_text(read_file(file, 16ll << 20), file, name_of(file));
}

std::vector<std::string> catalog_models() {
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::models()) names.emplace_back(stem(file));
  return names;
}

Model load_model(const std::string& name_or_path, std::int64_t seq_len) {
  if (seq_len < 0) {
    throw InputError({"", 0, "seq_len"},
                     fmt::format("{} is out of range; accepted: 1 or more tokens", seq_len));
  }
  if (const embedded::File* file = catalog_file(name_or_path)) {
    const std::string path = "models/catalog/" + std::string(file->name);
    return model_from_toml(TomlTable::from_text(file->text, path), path, seq_len);
  }
  std::error_code ignored;
  if (!name_or_path.empty() &&
      (looks_like_path(name_or_path) || std::filesystem::exists(name_or_path, ignored))) {
    if (std::filesystem::path(name_or_path).extension() == extension) {
      return model_from_toml(TomlTable::from_file(name_or_path), name_or_path, seq_len);
    }
    return model_from_hf_config(name_or_path);
  }
  std::vector<std::string> accepted = catalog_models();
  const std::string near = nearest(folded(name_or_path), accepted);
  accepted.emplace_back("a path to a config.json or to a model's TOML");
  throw not_accepted({"", 0, "model"}, near.empty() ? name_or_path : folded(name_or_path),
                     accepted);
}

}  // namespace stepcast
