// What several readers do alike: degrees of a replica, names of optimizers.
//
// Tested by tests/unit/jobs/torchtitan_test.cpp and, file by file, tests/interop.

#include <fmt/format.h>

#include "base/letters.hpp"
#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

void refuse_degree(Section& section, Section::Names names, const std::string& what) {
  if (section.is_auto(names)) section.take(names);
  const auto degree = section.integer(names, -1, 1e7);
  if (!degree || degree->value <= 1) return;
  if (what == "tensor-parallel" || what == "pipeline-parallel" || what == "context-parallel") {
    const auto [there, is_new] = section.job().degrees.try_emplace(what, *degree);
    if (!is_new && there->second.value != degree->value) {
      throw InputError(degree->source.where, fmt::format("contradicts {}; accepted: one of them",
                                                         place(there->second.source)));
    }
    return;
  }
  section.job().unsupported.push_back(
      {degree->source.where,
       fmt::format("{} {} GPUs to a replica: stepcast simulates the data-parallel axis, not what "
                   "runs inside such a group",
                   degree->value, what),
       "", false});
}

void set_optimizer(Job& job, const Fact<std::string>& name, const std::string& fallback) {
  std::string word = lower(name.value);
  word = word.substr(word.rfind('.') == std::string::npos ? 0 : word.rfind('.') + 1);
  const struct {
    const char* name;
    const char* kind;  // "": the framework's own
  } known[] = {{"adam", ""},
               {"adamw", ""},
               {"fusedadam", "adamw-fused"},
               {"fusedadamw", "adamw-fused"},
               {"decoupled_adamw", ""},
               {"decoupledadamw", ""},
               {"adamw_torch", "adamw-foreach"},
               {"adamw_hf", "adamw-unfused"},
               {"adamw_torch_fused", "adamw-fused"},
               {"adamw_apex_fused", "adamw-fused"},
               {"adamw-fused", "adamw-fused"},
               {"adamw-foreach", "adamw-foreach"},
               {"adamw-unfused", "adamw-unfused"},
               {"sgd", "sgd"},
               {"sgd-momentum", "sgd-momentum"},
               {"decoupled_sgdw", "sgd-momentum"}};
  for (const auto& row : known) {
    if (word != row.name) continue;
    job.set("optimizer", &Scenario::optimizer, std::string(*row.kind == 0 ? fallback : row.kind),
            name.source);
    return;
  }
  std::string sentence = fmt::format(
      "optimizer {} is not simulated; --optimizer takes adamw-fused, adamw-foreach, adamw-unfused, "
      "sgd-momentum, sgd",
      name.value.substr(0, 40));
  for (const char* compressed : {"onebitadam", "zerooneadam", "onebitlamb"}) {
    if (word == compressed) sentence += "; its compressed collectives are not either";
  }
  job.unsupported.push_back({name.source.where, sentence, "optimizer", false});
}

}  // namespace stepcast::jobs
