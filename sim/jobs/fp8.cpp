// fp8 as the Hugging Face family spells it: an engine by name, and torchao's all-gather.
//
//   te, TE          Transformer Engine: te-delayed
//   torchao, AO     torchao's Float8Linear: torchao-tensorwise
//   msamp, MSAMP    MS-AMP keeps gradients and optimizer states in 8 bits: another step
//   auto, nothing   which one is installed: asked for
//
// Tested by tests/unit/jobs/hugging_face_test.cpp.

#include <optional>

#include "base/letters.hpp"
#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

constexpr const char* which =
    "fp8 by whichever engine is installed; add --fp8 te-delayed or --fp8 torchao-tensorwise";

}  // namespace

void set_fp8(Job& job, const Source& on, const std::optional<Fact<std::string>>& engine) {
  if (!engine) {
    job.unsupported.push_back({on.where, which, "fp8", false});
    return;
  }
  Fact<std::string> any_case = *engine;
  any_case.value = lower(any_case.value);
  const std::string word = choice(any_case, {"auto", "te", "torchao", "ao", "msamp"});
  if (word == "auto") {
    job.unsupported.push_back({engine->source.where, which, "fp8", false});
  } else if (word == "msamp") {
    job.unsupported.push_back({engine->source.where,
                               "MS-AMP's 8-bit gradients and optimizer are not simulated; te and "
                               "torchao are",
                               "fp8", false});
  } else {
    job.set("fp8", &Scenario::fp8, std::string(word == "te" ? "te-delayed" : "torchao-tensorwise"),
            engine->source);
  }
}

void set_fp8_all_gather(Job& job, const std::optional<Fact<bool>>& gathers,
                        const std::optional<Fact<bool>>& precomputes) {
  if (gathers && gathers->value) {
    job.set("fp8_all_gather", &Scenario::fp8_all_gather, true, gathers->source);
    if (precomputes && precomputes->value) {
      job.set("fp8_precompute_scale", &Scenario::fp8_precompute_scale, true, precomputes->source);
    }
  }
}

}  // namespace stepcast::jobs
