// Devices and precision as Lightning and litgpt say them.
//
// "-true" holds everything in 16 bit (bf16-pure), "-mixed" is autocast under DDP. FSDPStrategy with
// "bf16-mixed" gathers fp32 parameters and autocasts, which is not simulated.
//
// Source: lightning 2.x plugins/precision/fsdp.py; lightning 1.x utilities/device_parser.py. Tested
// by tests/unit/jobs/recipes_test.cpp.

#include "sim/jobs/lightning_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast::jobs {

void set_world(Job& job, const std::optional<Fact<std::int64_t>>& devices,
               const std::optional<Fact<std::int64_t>>& nodes) {
  const std::int64_t machines = nodes ? nodes->value : 1;
  if (nodes) job.set("nodes", &Scenario::nodes, machines, nodes->source);
  if (!devices || devices->value < 1) return;
  job.set("gpus_per_node", &Scenario::gpus_per_node, devices->value, devices->source);
  if (!nodes) job.set("nodes", &Scenario::nodes, 1, standard(job, "Lightning's num_nodes of 1"));
}

// 8, "8", -1, "auto", [0, 1, 2], "0,1,2" and "0," (which name GPUs); `gpus` before 1.7.
std::optional<Fact<std::int64_t>> read_devices(Section& trainer) {
  const Section::Names names{"devices", "gpus"};
  if (trainer.is_auto(names)) {
    trainer.take(names);
    return std::nullopt;
  }
  const Value* said = trainer.take(names);
  if (said == nullptr) return std::nullopt;
  if (said->kind == Value::Kind::list) {
    return Fact<std::int64_t>{static_cast<std::int64_t>(said->items.size()), trainer.source(names)};
  }
  if (said->is_scalar() && said->text.find(',') != std::string::npos) {
    const std::vector<std::string> gpus = trainer.words(names);
    const bool numbers = std::all_of(gpus.begin(), gpus.end(), [](const std::string& gpu) {
      return plain_scalar(gpu, 0).kind == Value::Kind::integer;
    });
    if (numbers && !gpus.empty()) {
      return Fact<std::int64_t>{static_cast<std::int64_t>(gpus.size()), trainer.source(names)};
    }
  }
  return trainer.integer(names, -1, 1024);
}

void set_precision(Job& job, const std::optional<Fact<std::string>>& said) {
  const std::string strategy = job.scenario.strategy.value_or("ddp");
  const bool fsdp = strategy.starts_with("fsdp") || strategy == "hsdp";
  const bool zero = strategy.starts_with("zero") || job.through_deepspeed;
  if (!said) {
    job.set("precision", &Scenario::precision, std::string("fp32"),
            standard(job, "Lightning's default of 32-true"));
    return;
  }
  const std::string word = choice(
      *said, {"32-true", "32", "bf16-mixed", "bf16", "16-mixed", "16", "bf16-true", "16-true",
              "64-true", "64", "transformer-engine", "transformer-engine-float16", "fp16"});
  const bool half = word.starts_with("16") || word == "fp16";
  const bool bf16 = word.starts_with("bf16");
  std::string recipe;
  if (word.starts_with("32")) {
    recipe = "fp32";
  } else if (zero && (bf16 || half)) {
    recipe = bf16 ? "bf16-master" : "fp16-master";
  } else if (word == "bf16-true") {
    recipe = "bf16-pure";
  } else if (!fsdp && (bf16 || half) && word != "16-true") {
    recipe = bf16 ? "amp-bf16" : "amp-fp16";
  } else {
    const bool autocast =
        fsdp && (word == "bf16-mixed" || word == "16-mixed" || word == "bf16" || word == "16");
    job.unsupported.push_back(
        {said->source.where,
         autocast ? fmt::format("{} under FSDP gathers fp32 parameters and autocasts, which is not "
                                "simulated; bf16-true is, or give --precision",
                                word)
                  : fmt::format("precision {} is not simulated; give --precision", word),
         "precision", false});
    return;
  }
  job.set("precision", &Scenario::precision, recipe, said->source);
}

}  // namespace stepcast::jobs
