// DeepSpeed's dtypes: bf16, fp16, and what gradients are added up and sent in.
//
// Source: deepspeed/runtime/config.py and runtime/precision_config.py of 0.19.6. Tested by
// tests/unit/jobs/deepspeed_test.cpp and, file by file, tests/interop.

#include <fmt/format.h>

#include "sim/jobs/deepspeed_parts.hpp"

namespace stepcast::jobs {

namespace {

// true, false, or nothing where the key is absent or "auto" (which `autos` then counts).
std::optional<Fact<bool>> enabled(Section& root, Section::Names names, int& autos, Source& which,
                                  bool& is_bf16) {
  if (!root.has(names)) {
    root.take(names);
    return std::nullopt;
  }
  const Value* value = root.take(names);
  if (value == nullptr || !value->is_map()) {
    if (root.is_auto(names)) {
      ++autos;
      which = root.source(names);
      return std::nullopt;
    }
    const Source from = root.source(names);
    return Fact<bool>{truth(*value, from.where), from};
  }
  std::optional<Section> section = root.section(names);
  if (!section) return std::nullopt;
  std::optional<Fact<bool>> on;
  // GPT-NeoX's "fp16": {"enabled": true, "type": "bfloat16"}.
  if (const auto type = section->word({"type"})) {
    if (choice(*type, {"fp16", "float16", "bf16", "bfloat16"}).starts_with("b")) is_bf16 = true;
  }
  if (section->is_auto({"enabled"})) {
    section->take({"enabled"});
    ++autos;
    which = section->source({"enabled"});
  } else {
    on = section->boolean({"enabled"});
    if (!on) on = Fact<bool>{false, root.source(names)};
  }
  if (on && on->value) {
    const std::string states =
        "16-bit master weights or optimizer states under ZeRO are not "
        "simulated; precision bf16-master keeps them in fp32";
    section->refuse_true({"bf16_master_weights_and_grads", "fp16_master_weights_and_grads",
                          "master_weights_and_grads"},
                         states);
    section->refuse_true({"bf16_optimizer_states", "optimizer_states"}, states);
  }
  section->irrelevant({"auto_cast", "loss_scale", "loss_scale_window", "initial_scale_power",
                       "hysteresis", "min_loss_scale", "consecutive_hysteresis", "opt_level",
                       "fp16_master_weights_and_grads", "bf16_master_weights_and_grads",
                       "bf16_optimizer_states", "immediate_grad_update", "check_grad_overflow",
                       "fp16", "bf16", "precision"});
  section->close();
  return on;
}
}  // namespace

void read_dtype(Section& root) {
  Job& job = root.job();
  int autos = 0;
  Source which;
  bool of_bf16 = true, of_fp16 = false;  // whether the table's dtype is bf16
  const auto bf16 = enabled(root, {"bf16", "bfloat16"}, autos, which, of_bf16);
  const auto fp16 = enabled(root, {"fp16"}, autos, which, of_fp16);
  if (bf16 && fp16 && bf16->value && fp16->value) {
    throw InputError(fp16->source.where,
                     fmt::format("fp16 and bf16 ({}) are both enabled; accepted: one of them",
                                 place(bf16->source)));
  }
  if (bf16 && bf16->value) {
    job.dtype = {"bf16", bf16->source};
  } else if (fp16 && fp16->value) {
    job.dtype = {of_fp16 ? "bf16" : "fp16", fp16->source};
  } else if (autos > 0) {
    job.asked.push_back({"precision", which.where,
                         "\"auto\" is the Trainer's bf16 or fp16; give --precision bf16-master, "
                         "fp16-master or fp32, or the Trainer's arguments as another --from",
                         true});
  } else {
    job.dtype = {"fp32", standard(job, "DeepSpeed's default: neither fp16 nor bf16")};
  }
  // The Trainer's "auto" is its half_precision_backend, which is not apex unless it says so.
  const Value* amp = root.peek("amp");
  const Value* on = amp == nullptr ? nullptr : amp->find("enabled");
  if (on != nullptr && on->text == "auto") {
    root.irrelevant({"amp"});
  } else {
    root.refuse_any({"amp"}, "apex's AMP is not simulated; bf16 and fp16 are");
  }
  root.refuse_any({"torch_autocast"},
                  "torch.autocast under ZeRO is not simulated; bf16 and fp16 are");

  // What gradients are added up and sent in.
  if (auto types = root.section({"data_types"})) {
    if (const auto grad = types->word({"grad_accum_dtype"})) {
      const std::string word =
          choice(*grad, {"fp32", "fp16", "bf16", "float32", "float16", "bfloat16"});
      const bool wide = word == "fp32" || word == "float32";
      if (wide && job.dtype && job.dtype->value == "bf16" &&
          job.scenario.strategy == std::optional<std::string>("zero1")) {
        job.set("precision", &Scenario::precision, std::string("bf16-master-grad-fp32"),
                grad->source);
      } else if (wide && job.dtype && job.dtype->value != "fp32") {
        job.unsupported.push_back({grad->source.where,
                                   "gradients in fp32 are simulated under stage 1 with bf16 only",
                                   "precision", false});
      }
    }
    types->close();
  }
  if (const auto type = root.word({"communication_data_type"})) {
    const std::string word =
        choice(*type, {"none", "fp32", "fp16", "bf16", "fp32_allreduce", "float32", "bfloat16"});
    const std::string mine = job.dtype ? job.dtype->value : "";
    const bool same = word == "none" || word == mine || (mine == "fp32" && word == "float32") ||
                      (mine == "bf16" && word == "bfloat16");
    if (!same) {
      job.unsupported.push_back({type->source.where,
                                 "gradients in another dtype than the model's are not simulated",
                                 "precision", false});
    }
  }
  root.refuse_true({"fp32_allreduce"}, "an fp32 all-reduce of 16-bit gradients is not simulated");
}

}  // namespace stepcast::jobs
