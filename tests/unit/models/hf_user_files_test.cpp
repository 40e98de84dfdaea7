// Files that people have, one by one: the count that is published for the model, or the one that
// its sizes give by hand, or why it is refused. Where they come from: data/hf-configs/SOURCES.md.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

const std::string folder = STEPCAST_TEST_DATA "/data/hf-configs/";

struct Row {
  const char* file;
  std::int64_t parameters;
};

// Totals of safetensors headers and of model cards.
const Row published[] = {
    {"Qwen_Qwen3-0.6B.json", 596049920},
    {"Qwen_Qwen3-32B.json", 32762123264},
    {"chatglm3-6b_flagperf.json", 6243584000},
    {"llama-2-70b_neuronx.json", 68976648192},
    {"llama-2-7b_neuronx.json", 6738415616},
    {"llama-3-8b_neuronx.json", 8030261248},
    {"llama2-7b_flagperf.json", 6738415616},
    {"meta-llama_Llama-4-Scout-17B-16E-Instruct.json", 107769861120},
    {"meta-llama_Meta-Llama-3.1-405B.json", 405853388800},
    {"meta-llama_Meta-Llama-3.1-8B.json", 8030261248},
    {"mistralai_Mixtral-8x22B-v0.1.json", 140620634112},
    {"mistralai_Mixtral-8x7B-v0.1.json", 46702792704},
    {"mlc_Mixtral-8x7B-v0.1.json", 46702792704},
    {"mlc_deepseek_v2_lite.json", 15706484224},
    {"mlc_gemma2_2b.json", 2614341888},
    {"mlc_gemma_2b.json", 2506172416},
    {"mlc_internlm2.json", 7737708544},
    {"mlc_internlm2_5_7b.json", 7737708544},
    {"mlc_llama2_70b.json", 68976648192},
    {"mlc_llama2_7b.json", 6738415616},
    {"mlc_llama3_2_3b.json", 3212749824},
    {"mlc_mistral_7b.json", 7241732096},
    {"mlc_olmo2_7b.json", 7298617344},
    {"mlc_phi-2.json", 2779683840},
    {"mlc_phi-4.json", 3836021760},
    {"mlc_qwen2.5_3b.json", 3085938688},
    {"mlc_qwen2_0_5b.json", 494032768},
    {"mlc_qwen2_7b.json", 7615616512},
    {"mlc_smollm2_135m.json", 134515008},
    {"mlc_stablelm.json", 2795443200},
    {"moonshotai_Kimi-K2-Instruct.json", 1026408232448},
    {"openai_gpt-oss-20b.json", 20914757184},
    {"tt-metal_Llama-3.2-1B-Instruct.json", 1235814400},
    {"tt-metal_Qwen2.5-7B-Instruct.json", 7615616512},
    {"vit-base-patch16-224.json", 86567656},
    {"whisper-small.json", 241734912},
    {"xft_deepseek-r1.json", 671026419200},
    {"xft_llama-3-70b.json", 70553706496},
    {"xft_qwen2-7b.json", 7615616512},
};

// Test fixtures with a layer or two, and models whose published count is of another vocabulary or
// of other heads. bert-large: without heads 335,141,888. t5-small: the file has 27 tokens fewer
// than the published model of 60,506,624. Of aya, santacoder, T5-11B, T5-v1.1-XXL and Qwen1.5-0.5B
// the total of the checkpoint.
const Row by_hand[] = {
    {"Qwen_Qwen3.5-27B.json",
     2 * 248320ll * 5120ll + 5120ll +
         // 48 gated delta nets: qkv 10,240 and z 6,144 wide, b and a, out, convolution, norms
         48 * (5120ll * (10240ll + 6144ll + 96) + 6144ll * 5120ll + 4 * 10240ll + 96 + 128) +
         // 16 of attention: queries with a gate, 4 key-value heads of 256
         16 * (5120ll * (2 * 6144ll + 2048ll) + 6144ll * 5120ll + 512) +
         64 * (3 * 5120ll * 17408ll + 2 * 5120ll)},
    {"bert-large_nvidia-dle.json", 335141888ll + 1024 * 1024 + 3 * 1024 + 30522 + 2 * 1024 + 2},
    {"ipex-1layer_bloom.json", 250880ll * 2048 + 4 * 2048 + 12 * 2048 * 2048 + 13 * 2048},
    {"ipex-1layer_chatglm.json", 2 * 65024ll * 2048ll + 2048ll * 2560ll + 2560ll + 2048ll * 2048ll +
                                     3 * 2048ll * 13696ll + 3 * 2048ll},
    {"ipex-1layer_codegen.json",
     2 * 51200ll * 2048ll + 51200ll + 12 * 2048ll * 2048ll + 5 * 2048ll + 4 * 2048ll},
    {"ipex-1layer_deepseekv2.json",
     2 * 102400ll * 2560ll + 5 * 2560ll +
         2 * (2560ll * 1536ll + 1536ll + 1536ll * 24576ll + 2560ll * 576 + 512 + 512 * 32768ll +
              16384ll * 2560ll) +
         3 * 2560ll * 12288ll + 16 * 3 * 2560ll * 1536ll + 16 * 2560ll + 3 * 2560ll * 3072ll},
    {"ipex-1layer_falcon-7b.json",
     65024ll * 4544ll + 4 * 4544ll + 4544ll * 5112ll + 4544ll * 4544ll + 8 * 4544ll * 4544ll},
    {"ipex-1layer_gptbigcode.json", (49152ll + 8192) * 2048 + 6 * 2048 + 2304 * 2049 + 2048 * 2049 +
                                        2 * 2048ll * 24576ll + 24576ll + 2048ll},
    {"ipex-1layer_gptj.json",
     2 * 50400ll * 4096ll + 50400ll + 12 * 4096ll * 4096ll + 5 * 4096ll + 4 * 4096ll},
    {"ipex-1layer_gptneox.json", 2 * 50432ll * 2048ll + 4 * 2048ll * 2049ll + 2 * 2048ll * 24576ll +
                                     24576ll + 2048ll + 6 * 2048ll},
    {"ipex-1layer_jamba.json", 2 * 65536ll * 2048 + 9 * 2048 +
                                   3 * (4096ll * 4 + 4096ll + 2 * 4096ll + 2048ll * 8192ll +
                                        4096ll * 264 + 257 * 4096ll + 4096ll * 2048ll + 264) +
                                   4 * 2048ll * 2048ll + 2 * 3 * 2048ll * 14336ll +
                                   2 * (2 * 3 * 2048ll * 14336ll + 2 * 2048ll)},
    {"ipex-1layer_maira2.json", 2 * 32218ll * 3072 + 4 * 3072 * 3072 + 3 * 3072 * 8192 + 3 * 3072},
    {"ipex-1layer_phi3.json", 2 * 32064ll * 3072 + 4 * 3072 * 3072 + 3 * 3072 * 8192 + 3 * 3072},
    {"ipex-1layer_qwen.json",
     2 * 151936ll * 2048ll + 4 * 2048ll * 2048ll + 3 * 2048ll + 3 * 2048ll * 11008ll + 3 * 2048ll},
    {"ipex-1layer_stablelm.json",
     2 * 100352ll * 2048ll + 4 * 2048ll * 2048ll + 3 * 2048ll + 3 * 2048ll * 5632ll + 6 * 2048ll},
    {"ipex-1layer_whisper.json", 51865ll * 1280 + 241 * 1280 + 3841 * 1280 + (1500 + 448) * 1280 +
                                     3 * (4 * 1280ll * 1280ll + 3 * 1280ll) +
                                     2 * (8 * 1280ll * 1280ll + 5 * 1280ll) + 14 * 1280ll},
    {"llama-2-13b_neuronx.json", 13015864320ll + 2 * 16 * 5120},
    {"mlc_aya-23.json", 8028033024},
    {"mlc_gpt_bigcode.json", 1124886528},
    {"mlc_minicpm_2b.json", 2 * 122760ll * 2304ll +
                                40 * (4 * 2304ll * 2304ll + 3 * 2304ll * 5760ll + 2 * 2304ll) +
                                2304ll},
    {"mlc_starcoder2.json", 49152ll * 4608ll + 2 * 4608ll +
                                32ll * (2 * 4608ll * 4609ll + 2 * 4609ll * 512 +
                                        2 * 4608ll * 18432ll + 18432ll + 4608ll + 4 * 4608ll)},
    {"nvidia_Nemotron-H-56B-Base-8K.json",
     2 * 131072ll * 8192ll + 8192ll + 118 * 8192ll +
         // 54 of Mamba 2: 256 heads of 64, 8 groups of state 256
         54ll * (3 * 256 + 5 * 20480ll + 8192ll * (16384ll + 20480ll + 256) + 16384ll +
                 16384ll * 8192ll) +
         10ll * (2 * 8192ll * 8192ll + 2 * 8192ll * 1024ll) + 54ll * 2 * 8192ll * 32768ll},
    {"t5-encoder_nemo.json", 11307321344},
    {"t5-small.json", 60506624ll - 27 * 512},
    {"t5-v1_1-xxl_torchtitan-test.json", 11135332352},
    {"xft_qwen2-0_5b.json", 463987712},
    {"zai-org_GLM-5.json",
     2 * 154880ll * 6144ll + 6144ll +
         // latent attention of 64 heads of 192 + 64, values of 256, and the indexer
         78ll * (6144ll * 2048ll + 2048ll + 2048ll * 16384ll + 6144ll * 576 + 512 + 512 * 64 * 448 +
                 16384ll * 6144ll + 2048ll * 4096ll + 6144ll * 128 + 2 * 128 + 6144ll * 32 +
                 2 * 6144ll) +
         3ll * 3 * 6144ll * 12288ll + 75ll * (257ll * 3 * 6144ll * 2048ll + 256 * 6144ll + 256)},
};

struct Refused {
  const char* file;
  const char* why;  // what follows the file's name, to the first semicolon
};
const Refused refused[] = {
    // Experts beside an MLP in one block, keys that are values.
    {"google_gemma-4-26B-A4B.json",
     ":65: text_config.model_type: 'gemma4' is not accepted (did you mean 'gemma'?)"},
    // Cross attention to a vision tower in every fifth layer.
    {"ipex-1layer_mllama.json",
     ":59: text_config.model_type: 'mllama' is not accepted (did you mean 'llama'?)"},
    {"ipex-1layer_phi4.json", ":101: model_type: 'phi4mm' is not accepted"},
    // Other programs' files.
    {"llm-analysis_opt-1.3b.json", ":1: hidden_size: is missing"},
    {"simumax_deepseekv3.json",
     ":2: model_type: 'moe' is not accepted (did you mean 'olmoe', 'phimoe' or 'glm4_moe'?)"}};

}  // namespace

TEST_CASE("users' config.json give the published counts") {
  for (const Row& row : published) {
    CAPTURE(std::string(row.file));
    CHECK(load_model(folder + row.file).parameter_elements() == row.parameters);
  }
}

TEST_CASE("users' config.json without a published count give what their sizes say") {
  for (const Row& row : by_hand) {
    CAPTURE(std::string(row.file));
    CHECK(load_model(folder + row.file).parameter_elements() == row.parameters);
  }
}

TEST_CASE("users' config.json that are not understood are refused at the field") {
  for (const Refused& row : refused) {
    CAPTURE(std::string(row.file));
    std::string message = "accepted";
    try {
      load_model(folder + row.file);
    } catch (const InputError& error) {
      message = error.what();
    }
    CHECK(message.substr(0, message.find(';')) == folder + row.file + row.why);
  }
}

TEST_CASE("no file of the folder is left out of the tables") {
  std::set<std::string> named;
  for (const Row& row : published) named.insert(row.file);
  for (const Row& row : by_hand) named.insert(row.file);
  for (const Refused& row : refused) named.insert(row.file);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".json") CHECK(named.count(name) == 1);
  }
}
