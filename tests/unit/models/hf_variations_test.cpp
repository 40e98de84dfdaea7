// Files of config.json as the hub has them from 2023 to 2026, written after the published ones:
// each with the oddities of its year (nested text_config, dtype for torch_dtype, layer_types, rope
// parameters, quantization, keys of towers), and the count that is published for the model. Of
// Gemma 3's multimodal files the language model with their 262,208 rows, of Falcon-180B and the
// first Ministral 3 the sum of the matrices.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

const std::string folder = STEPCAST_TEST_DATA "/data/hf-variations/";

struct Row {
  const char* file;
  std::int64_t parameters;
};
const Row rows[] = {
    {"llama-3.3-70b", 70553706496},
    {"tinyllama", 1100048384},
    {"mistral-nemo", 12247782400},
    {"mistral3-small", 23572403200},
    {"gemma-3-4b", 3880263168},
    {"gemma-3-27b", 27009346304},
    {"qwen2.5-vl-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b-2026", 32763876352},
    {"qwen3-1.7b", 1720574976},
    {"qwen3-4b", 4022468096},
    {"qwen3-vl-30b", 30532122624},
    {"olmo2-13b", 13716198400},
    {"phi-4-mini-2025", 3836021760},
    {"phi-3-medium", 13960238080},
    {"phi-1.5", 1418270720},
    {"deepseek-v3-0324", 671026419200},
    {"llama4-maverick", 400711848960},
    {"gpt-oss-20b-2025", 20914757184},
    {"pythia-1b", 1011781632},
    // 232 heads and 8 of keys and of values, 64 wide; two norms
    {"falcon-180b",
     65024ll * 14848 + 2 * 14848 + 80 * (14848ll * 248 * 64 + 9 * 14848ll * 14848 + 4 * 14848)},
    {"stablelm-2-1.6b", 1644515328},
    {"starcoder2-3b", 3030371328},
    {"bert-base-mlm", 109514298},
    {"whisper-tiny", 37760640},
    {"flan-t5-xl", 2849757184},
    {"vit-large-in21k", 304326632},
    {"opt-6.7b", 6658473984},
    {"bloom-7b1", 7069016064},
    {"smollm3-3b", 3075098624},
    {"granite-3-8b", 8170848256},
    {"llama-no-type", 8030261248},
    {"ministral3",
     2 * 131072ll * 4096 + 4096 +
         34 * (2 * 4096ll * 4096 + 2 * 4096ll * 1024 + 3 * 4096ll * 14336 + 2 * 4096)},
};

// What stops the reading, in the end of the message.
struct Refused {
  const char* file;
  const char* field;
};
const Refused refused[] = {
    {"deberta-v3", "model_type"}, {"clip", "model_type"},    {"modernbert", "model_type"},
    {"gemma3n", "model_type"},    {"exaone4", "model_type"},
};

}  // namespace

TEST_CASE("config.json of many years gives the published counts") {
  for (const Row& row : rows) {
    CAPTURE(std::string(row.file));
    CHECK(load_model(folder + row.file + ".json").parameter_elements() == row.parameters);
  }
}

TEST_CASE("families that are not built are refused at their model_type") {
  for (const Refused& row : refused) {
    CAPTURE(std::string(row.file));
    try {
      load_model(folder + row.file + ".json");
      FAIL_CHECK("is read");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(row.field) != std::string::npos);
    }
  }
}

TEST_CASE("no file of the variations is left out of the tables") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files += entry.path().extension() == ".json";
  }
  CHECK(files == std::size(rows) + std::size(refused));
}
