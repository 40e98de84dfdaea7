// Names of models as people write them, and stepcast's.
//
//   meta-llama/Llama-2-7b-hf, NousResearch/Llama-2-7b   llama-2-7b
//   meta-llama/Meta-Llama-3.1-8B-Instruct               llama-3-8b: the same shapes
//   torchtitan's llama3 8B, llama2 13B                  llama-3-8b, llama-2-13b
//
// Only names are compared. A fine-tuned model under another name has to be given by its
// config.json.

#include <algorithm>
#include <array>
#include <string_view>

#include "base/letters.hpp"
#include "models/model.hpp"
#include "sim/jobs/combine.hpp"

namespace stepcast::jobs {

namespace {

void replace_start(std::string& text, std::string_view from, std::string_view to) {
  if (text.starts_with(from)) text.replace(0, from.size(), to);
}

bool cut_end(std::string& text, std::string_view end) {
  if (!text.ends_with(end) || text.size() == end.size()) return false;
  text.erase(text.size() - end.size());
  return true;
}

// Same parameters and kernels under another name.
constexpr std::array<std::array<std::string_view, 2>, 9> same_shapes{{
    {"llama-3.1-8b", "llama-3-8b"},
    {"llama-3.1-70b", "llama-3-70b"},
    {"llama-3.3-70b", "llama-3-70b"},
    {"llama-70b", "llama-2-70b"},
    {"llama-13b", "llama-2-13b"},
    {"llama-7b", "llama-2-7b"},
    {"mixtral-8x7b-v0.1", "mixtral-8x7b"},
    {"deepseek-v3-671b", "deepseek-v3"},
    {"llama-3-405b", "llama-3.1-405b"},
}};

}  // namespace

std::string catalog_model(const std::string& name) {
  std::string word = name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
  for (char& c : word) {
    c = c == '_' ? '-' : lower(c);
  }
  replace_start(word, "meta-", "");
  for (const char* version : {"2", "3.1", "3.2", "3.3", "3"}) {
    replace_start(word, std::string("llama") + version + "-",
                  std::string("llama-") + version + "-");
  }
  const std::vector<std::string> known = catalog_models();
  const auto in_catalog = [&](std::string_view candidate) {
    return std::find(known.begin(), known.end(), candidate) != known.end();
  };
  for (int cuts = 0; cuts < 4; ++cuts) {
    if (in_catalog(word)) return word;
    for (const auto& [alias, ours] : same_shapes) {
      if (word == alias && in_catalog(ours)) return std::string(ours);
    }
    bool cut = false;
    for (const char* end : {"-instruct", "-chat", "-hf", "-base", "-it", "-v0.1", "-v0.2", "-v0.3",
                            "-2407", "-2507", "-uncased", "-cased", "-dequantized"}) {
      if (!cut) cut = cut_end(word, end);
    }
    if (!cut) break;
  }
  return "";
}

}  // namespace stepcast::jobs
