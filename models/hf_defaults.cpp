// What a nested text_config leaves out. transformers writes of a configuration within another only
// what differs from its class, so the sizes that a file of its own must name are missing here and
// stand for the class's: LLaVA's text_config of Vicuna-7B names no hidden size.
//
// A file's own top level always names its sizes, and nothing is assumed there.
//
// Source: configuration_*.py of transformers 4.5x. Tested by tests/unit/models/hf_parts_test.cpp.

#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

struct Assumed {
  std::string_view type;
  std::vector<JsonReader::Completion> values;
};

std::vector<JsonReader::Completion> sizes(std::int64_t vocabulary, std::int64_t hidden,
                                          std::int64_t ffn, std::int64_t layers, std::int64_t heads,
                                          std::int64_t kv_heads, std::int64_t positions,
                                          std::int64_t head_size = 0) {
  std::vector<JsonReader::Completion> list{
      {"vocab_size", vocabulary},     {"hidden_size", hidden},
      {"intermediate_size", ffn},     {"num_hidden_layers", layers},
      {"num_attention_heads", heads}, {"max_position_embeddings", positions}};
  // Where the class has none, they are the heads, and hidden / heads.
  if (kv_heads > 0) list.push_back({"num_key_value_heads", kv_heads});
  if (head_size > 0) list.push_back({"head_dim", head_size});
  return list;
}

std::vector<JsonReader::Completion> with(std::vector<JsonReader::Completion> list,
                                         std::initializer_list<JsonReader::Completion> more) {
  list.insert(list.end(), more);
  return list;
}

const std::vector<Assumed>& assumed() {
  static const std::vector<Assumed> table{
      {"llama", sizes(32000, 4096, 11008, 32, 32, 0, 2048)},
      {"llava", sizes(32000, 4096, 11008, 32, 32, 0, 2048)},  // whose text is Llama's if unsaid
      {"mistral", with(sizes(32000, 4096, 14336, 32, 32, 8, 131072), {{"sliding_window", 4096}})},
      {"mixtral", with(sizes(32000, 4096, 14336, 32, 32, 8, 131072),
                       {{"num_local_experts", 8}, {"num_experts_per_tok", 2}})},
      {"qwen2", sizes(151936, 4096, 22016, 32, 32, 32, 32768)},
      {"qwen2_vl", sizes(152064, 8192, 29568, 80, 64, 8, 32768)},
      {"qwen2_5_vl", sizes(152064, 8192, 29568, 80, 64, 8, 32768)},
      {"qwen3", sizes(151936, 4096, 22016, 32, 32, 32, 32768, 128)},
      {"qwen3_vl", sizes(151936, 4096, 22016, 32, 32, 32, 128000, 128)},
      {"gemma", sizes(256000, 3072, 24576, 28, 16, 16, 8192, 256)},
      {"gemma2", sizes(256000, 2304, 9216, 26, 8, 4, 8192, 256)},
      {"gemma3", sizes(262208, 2304, 9216, 26, 8, 4, 131072, 256)},
      {"phi", sizes(51200, 2048, 8192, 24, 32, 0, 2048)},
      {"phi3", sizes(32064, 3072, 8192, 32, 32, 0, 4096)},
      {"llama4",
       with(sizes(202048, 5120, 8192, 48, 40, 8, 131072, 128), {{"intermediate_size_mlp", 16384},
                                                                {"num_local_experts", 16},
                                                                {"num_experts_per_tok", 1}})},
      {"opt",
       {{"vocab_size", 50272},
        {"hidden_size", 768},
        {"num_hidden_layers", 12},
        {"ffn_dim", 3072},
        {"num_attention_heads", 12},
        {"max_position_embeddings", 2048}}},
  };
  return table;
}

}  // namespace

const std::vector<JsonReader::Completion>& class_sizes(std::string_view type) {
  static const std::vector<JsonReader::Completion> none;
  for (const Assumed& row : assumed()) {
    if (row.type == type) return row.values;
  }
  return none;
}

}  // namespace stepcast::hf
