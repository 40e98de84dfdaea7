#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

const char* const tiny = R"(name = "tiny"
source = "made up"
family = "llama"
hidden = 64
layers = 2
heads = 4
kv_heads = 2
ffn_hidden = 128
vocabulary = 100
max_positions = 32
tied_embeddings = false
)";

struct File {
  explicit File(const std::string& text)
      : path((std::filesystem::temp_directory_path() /
              ("stepcast_catalog_test_" + std::to_string(::getpid()) + ".toml"))
                 .string()) {
    write_file(path, text);
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path;
};

// The message without the path of the file.
std::string error_of(const std::string& text) {
  const File file(text);
  try {
    load_model(file.path);
  } catch (const InputError& error) {
    const std::string what = error.what();
    REQUIRE(what.find(file.path) == 0);
    return what.substr(file.path.size());
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string error_of_name(const std::string& name) {
  try {
    load_model(name);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("names are matched whatever their case, '_' as '-'") {
  CHECK(load_model("LLaMA-3_8B").name == "llama-3-8b");
  CHECK(load_model("MPT_7b").name == "mpt-7b");
  CHECK(load_model("Llama-3.2-1B").name == "llama-3.2-1b");
}

TEST_CASE("an unknown name gets the nearest, or the list") {
  CHECK(error_of_name("llama-3-9b")
            .find("model: 'llama-3-9b' is not accepted (did you mean 'llama-3-8b'?); accepted: one "
                  "of ") == 0);
  CHECK(error_of_name("GPT3").find("(did you mean 'gpt2'?)") != std::string::npos);
  CHECK(error_of_name("").find("model: '' is not accepted; accepted: ") == 0);
  CHECK(error_of_name("zzz").find("did you mean") == std::string::npos);
}

TEST_CASE("a path that is not there is an error about the path") {
  CHECK(error_of_name("no/such/config.json").find("no/such/config.json: cannot be read") == 0);
  CHECK(error_of_name("no-such.toml").find("no-such.toml: cannot be read") == 0);
}

TEST_CASE("a TOML of one's own is read like the catalog's") {
  const File file(tiny);
  const Model model = load_model(file.path);
  CHECK(model.name == "tiny");
  CHECK(model.source == file.path + ": made up");
  // 2 (64 (64 + 2 * 32 + 64) + 3 * 64 * 128 + 128) + 2 * 6,400 + 64
  CHECK(model.parameter_elements() == 2 * (64 * 192 + 3 * 64 * 128 + 128) + 2 * 6400 + 64);
}

TEST_CASE("a model's TOML with a mistake is refused by line and key") {
  CHECK(error_of(tiny) == "accepted");
  CHECK(error_of(replaced(tiny, "hidden = 64\n", "")) ==
        ":1: hidden: is missing; accepted: an integer, 1 to 9e18");
  CHECK(error_of(replaced(tiny, "layers = 2", "layers = -2")) ==
        ":5: layers: -2 is out of range; accepted: 1 to 9e18");
  CHECK(error_of(replaced(tiny, "layers = 2", "layers = 9000")) ==
        ":5: layers: 9000 is out of range; accepted: 1 to 8192");
  CHECK(error_of(replaced(tiny, "heads = 4", "heads = 6")) ==
        ":6: heads: 6 does not divide the hidden size 64; accepted: a divisor of 64, or a head "
        "size of its own");
  CHECK(error_of(replaced(tiny, "\"llama\"", "\"lama\"")) ==
        ":3: family: 'lama' is not accepted (did you mean 'llama'?); accepted: gpt2, llama, "
        "mpt, mixtral, bert, vit, resnet, mlp, composed");
  CHECK(error_of(replaced(tiny, "tied_embeddings = false\n", "")) ==
        ":1: tied_embeddings: is missing; accepted: true or false");
  CHECK(error_of(replaced(tiny, "vocabulary", "vocabluary")).find("vocabulary: is missing") !=
        std::string::npos);
  CHECK(error_of(std::string(tiny) + "kv_head = 3\n")
            .find(":12: kv_head: is not a known key (did you mean 'kv_heads'?)") == 0);
  CHECK(error_of(std::string(tiny) + "dtype = \"bf17\"\n") ==
        ":12: dtype: 'bf17' is not accepted (did you mean 'bf16'?); accepted: fp32, fp16, bf16");
  CHECK(error_of("hidden = ").find(":1: not valid TOML") == 0);
}

TEST_CASE("a sequence length sizes the positions of MPT only") {
  CHECK(load_model("mpt-7b", 4096).architecture.max_positions == 4096);
  CHECK(load_model("gpt2", 4096).architecture.max_positions == 1024);
  CHECK(load_model("llama-3-8b", 4096).architecture.max_positions == 8192);
  CHECK_THROWS_AS(load_model("mpt-7b", -1), InputError);
  CHECK_THROWS_AS(load_model("mpt-7b", 1ll << 40), InputError);
}
