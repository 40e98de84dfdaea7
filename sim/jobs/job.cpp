#include "sim/jobs/job.hpp"

#include <fmt/format.h>

namespace stepcast::jobs {

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::deepspeed: return "DeepSpeed's configuration";
    case Kind::accelerate: return "accelerate's configuration";
    case Kind::trainer: return "the Hugging Face Trainer's arguments";
    case Kind::llama_factory: return "LLaMA-Factory's arguments";
    case Kind::axolotl: return "axolotl's configuration";
    case Kind::torchtitan: return "torchtitan's configuration";
    case Kind::llm_foundry: return "llm-foundry's configuration";
    case Kind::lightning: return "PyTorch Lightning's trainer";
    case Kind::litgpt: return "litgpt's configuration";
    case Kind::nanotron: return "nanotron's configuration";
    case Kind::gpt_neox: return "GPT-NeoX's configuration";
    case Kind::model_config: return "a Hugging Face model's config.json";
  }
  return "";
}

std::string place(const Source& source) {
  if (source.where.line == 0) return source.text;
  return fmt::format("{}, {}:{}", source.text, source.where.file, source.where.line);
}

Source standard(const Job& job, std::string text) {
  return {Origin::standard, {.file = job.file, .line = 0, .key = ""}, std::move(text)};
}

}  // namespace stepcast::jobs
