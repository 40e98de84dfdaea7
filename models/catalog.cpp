// Named models: TOML files compiled into the library, or a file of the same kind that the user
// brings. The schema is in docs/models.md.
//
// Tested by tests/unit/models/catalog_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/number_text.hpp"
#include "base/toml.hpp"
#include "models/architecture.hpp"
#include "models/hf_config.hpp"
#include "models/layout.hpp"
#include "models/model.hpp"
#include "models/model_toml.hpp"

namespace stepcast {
namespace {

Family read_family(TomlTable& toml) {
  const std::string name = toml.string("family");
  std::vector<std::string> accepted;
  for (const Family family : families()) {
    if (to_string(family) == name) return family;
    accepted.emplace_back(to_string(family));
  }
  throw not_accepted(toml.where("family"), name, accepted);
}

constexpr TomlTable::Bounds any_size{1, 9e18};

std::int64_t size_or(TomlTable& toml, std::string_view key, std::int64_t fallback) {
  return toml.integer_or(key, fallback, any_size);
}

void read_resnet(TomlTable& toml, Architecture& a) {
  const std::vector<double> stages = toml.numbers("stages");
  if (stages.size() != a.stages.size()) {
    throw InputError(
        toml.where("stages"),
        fmt::format("has {} numbers; accepted: 4, the blocks of each stage", stages.size()));
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (!(stages[i] >= 1 && stages[i] <= 1024) || std::floor(stages[i]) != stages[i]) {
      throw InputError(toml.where("stages"), fmt::format("{} is not a number of blocks; "
                                                         "accepted: 1 to 1024",
                                                         number_text(stages[i])));
    }
    a.stages[i] = static_cast<std::int64_t>(stages[i]);
  }
  const std::optional<bool> bottleneck = toml.optional_boolean("bottleneck");
  if (!bottleneck) {
    throw InputError(toml.where("bottleneck"), "is missing; accepted: true or false");
  }
  a.bottleneck = *bottleneck;
}

// Put together from parts; heads and widths stand in the blocks.
void read_composed(TomlTable& toml, Architecture& a) {
  a.hidden = toml.integer("hidden", any_size);
  a.vocabulary = toml.integer("vocabulary", any_size);
  a.max_positions = size_or(toml, "max_positions", 0);
  const std::optional<bool> tied = toml.optional_boolean("tied_embeddings");
  if (!tied) throw InputError(toml.where("tied_embeddings"), "is missing; accepted: true or false");
  a.tied_embeddings = *tied;
  a.learned_positions = toml.boolean_or("learned_positions", false);
  a.embedding_dropout = toml.boolean_or("embedding_dropout", false);
  a.attention_dropout = toml.boolean_or("attention_dropout", false);
  a.residual_dropout = toml.boolean_or("residual_dropout", false);
  a.token_types = size_or(toml, "token_types", 0);
  a.composition = read_composition(toml);
}

// The switches that a file may leave out have the family's usual value.
void read_transformer(TomlTable& toml, Architecture& a, std::int64_t seq_len) {
  const bool biases = !has_rotary(a.family) && a.family != Family::mlp;
  a.hidden = toml.integer("hidden", any_size);
  a.layers = toml.integer("layers", any_size);
  if (a.family != Family::mlp) a.heads = toml.integer("heads", any_size);
  a.kv_heads = size_or(toml, "kv_heads", 0);
  a.head_size = size_or(toml, "head_size", 0);
  a.ffn_hidden = toml.integer("ffn_hidden", any_size);
  if (!takes_images(a.family)) {
    a.vocabulary = toml.integer("vocabulary", any_size);
    // Rotary models may have no longest sequence: seq_len is then asked for.
    a.max_positions = has_rotary(a.family) ? size_or(toml, "max_positions", 0)
                                           : toml.integer("max_positions", any_size);
    const std::optional<bool> tied = toml.optional_boolean("tied_embeddings");
    if (!tied) {
      throw InputError(toml.where("tied_embeddings"), "is missing; accepted: true or false");
    }
    a.tied_embeddings = *tied;
    a.learned_positions = toml.boolean_or("learned_positions", biases);
    // The position table has a row for each position of the training sequence (llm-foundry).
    if (toml.boolean_or("positions_follow_seq_len", false) && seq_len > 0) {
      a.max_positions = seq_len;
    }
  }
  a.attention_bias = toml.boolean_or("attention_bias", biases);
  a.attention_output_bias = toml.boolean_or("attention_output_bias", biases);
  a.mlp_bias = toml.boolean_or("mlp_bias", biases);
  a.norm_bias = toml.boolean_or("norm_bias", biases);
  a.query_key_norm = toml.boolean_or("query_key_norm", false);
  a.embedding_dropout = toml.boolean_or("embedding_dropout", false);
  a.attention_dropout = toml.boolean_or("attention_dropout", false);
  a.residual_dropout = toml.boolean_or("residual_dropout", false);
  if (a.family == Family::mixtral) {
    a.experts = toml.integer("experts", any_size);
    a.experts_per_token = toml.integer("experts_per_token", any_size);
  }
  if (a.family == Family::bert) {
    a.token_types = toml.integer("token_types", any_size);
    a.next_sentence = toml.boolean_or("next_sentence", true);
    a.masked_share = toml.number_or("masked_share", 1, {.min = 0.001, .max = 1});
  }
  if (a.family == Family::vit) a.patch_size = toml.integer("patch_size", any_size);
}

Model model_from_toml(TomlTable toml, const std::string& file, std::int64_t seq_len,
                      std::int64_t image_size) {
  Architecture a;
  a.family = read_family(toml);
  if (takes_images(a.family)) {
    a.image_size = toml.integer("image_size", any_size);
    a.classes = toml.integer("classes", any_size);
    // vit's position table has a row for each patch of the images it is trained on.
    if (a.family == Family::vit && image_size > 0) a.image_size = image_size;
  }
  if (a.family == Family::resnet) {
    read_resnet(toml, a);
  } else if (a.family == Family::composed) {
    read_composed(toml, a);
  } else {
    read_transformer(toml, a, seq_len);
  }
  const std::string name = toml.string("name");
  const std::string source = toml.string("source");
  std::vector<std::string> approximations = toml.strings("approximations");
  const std::string dtype_name = toml.string_or("dtype", "fp32");
  const auto dtype = parse_dtype(dtype_name);
  if (!dtype) throw not_accepted(toml.where("dtype"), dtype_name, {"fp32", "fp16", "bf16"});
  toml.finish();

  if (const auto problem = complete(a)) {
    // The caller's own size, not the file's.
    if (problem->field == "image_size" && image_size > 0 && a.family == Family::vit) {
      throw InputError({"", 0, "image_size"}, problem->message);
    }
    throw InputError(toml.where(problem->field), problem->message);
  }
  Model model = build_model(name, a);
  model.source = file + ": " + source;
  model.stored_dtype = *dtype;
  model.approximations = std::move(approximations);
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

Model model_from_toml_text(const std::string& text, const std::string& file) {
  return model_from_toml(TomlTable::from_text(text, file), file, 0, 0);
}

Model model_from_hf_config(const std::string& path, std::int64_t image_size) {
  const std::string file = config_path(path);
  return model_from_hf_text(read_file(file, 16ll << 20), file, name_of(file), image_size);
}

std::vector<std::string> catalog_models() {
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::models()) names.emplace_back(stem(file));
  return names;
}

Model load_model(const std::string& name_or_path, std::int64_t seq_len, std::int64_t image_size) {
  if (seq_len < 0) {
    throw InputError({"", 0, "seq_len"},
                     fmt::format("{} is out of range; accepted: 1 or more tokens", seq_len));
  }
  if (image_size < 0) {
    throw InputError({"", 0, "image_size"},
                     fmt::format("{} is out of range; accepted: 32 or more pixels", image_size));
  }
  if (const embedded::File* file = catalog_file(name_or_path)) {
    const std::string path = "models/catalog/" + std::string(file->name);
    return model_from_toml(TomlTable::from_text(file->text, path), path, seq_len, image_size);
  }
  std::error_code ignored;
  if (!name_or_path.empty() &&
      (looks_like_path(name_or_path) || std::filesystem::exists(name_or_path, ignored))) {
    if (std::filesystem::path(name_or_path).extension() == extension) {
      return model_from_toml(TomlTable::from_file(name_or_path), name_or_path, seq_len, image_size);
    }
    return model_from_hf_config(name_or_path, image_size);
  }
  std::vector<std::string> accepted = catalog_models();
  const std::string near = nearest(folded(name_or_path), accepted);
  accepted.emplace_back("a path to a config.json or to a model's TOML");
  throw not_accepted({"", 0, "model"}, near.empty() ? name_or_path : folded(name_or_path),
                     accepted);
}

}  // namespace stepcast
