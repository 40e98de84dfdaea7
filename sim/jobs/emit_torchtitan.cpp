// torchtitan's TOML of a scenario, in the tables of 2025-08 and later. Learning rates, data and
// logs are left to torchtitan's defaults. Accumulation is said by global_batch_size, which needs
// the number of GPUs.

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "sim/jobs/emit_parts.hpp"

namespace stepcast::jobs {

namespace {

// Names of stepcast's catalog that torchtitan has a flavor for.
constexpr std::array<std::array<std::string_view, 3>, 5> flavors{{
    {"llama-3-8b", "llama3", "8B"},
    {"llama-3-70b", "llama3", "70B"},
    {"llama-2-7b", "llama2", "7B"},
    {"llama-2-13b", "llama2", "13B"},
    {"llama-2-70b", "llama2", "70B"},
}};

std::string model_table(Pen& pen) {
  const bool float8 = pen.s.fp8 == std::optional<std::string>("torchao-tensorwise");
  const std::string converters = float8 ? "converters = [\"float8\"]\n" : "";
  for (const auto& [ours, name, flavor] : flavors) {
    if (pen.s.model != std::optional<std::string>(ours)) continue;
    pen.say("model");
    return fmt::format("[model]\nname = \"{}\"\nflavor = \"{}\"\n{}\n", name, flavor, converters);
  }
  return converters.empty() ? "" : "[model]\n" + converters + "\n";
}

std::string dtype_lines(Pen& pen, bool ddp) {
  const std::string native = ddp ? "amp-bf16" : "bf16-mixed";
  const std::string precision = pen.precision();
  const auto lines = [](const char* param, const char* reduce) {
    return fmt::format("mixed_precision_param = \"{}\"\nmixed_precision_reduce = \"{}\"\n", param,
                       reduce);
  };
  if (precision == "fp32") return lines("float32", "float32");
  if (precision == "bf16-mixed-reduce-bf16") return lines("bfloat16", "bfloat16");
  if (precision == "bf16-pure") return "dtype = \"bfloat16\"\n" + lines("bfloat16", "bfloat16");
  if (precision == (ddp ? "amp-fp16" : "fp16-mixed")) return lines("float16", "float32");
  if (precision != native) pen.leave("precision", precision);
  return lines("bfloat16", "float32");
}

std::string training_table(Pen& pen, bool ddp) {
  const Scenario& s = pen.s;
  std::string text = "[training]\n";
  const std::int64_t micro = pen.take("micro_batch", s.micro_batch).value_or(1);
  text += fmt::format("local_batch_size = {}\n", micro);
  const std::int64_t accumulation = s.accumulation.value_or(1);
  const auto world = pen.world();
  if (accumulation > 1 && world) {
    text += fmt::format("global_batch_size = {}\n", micro * accumulation * *world);
    pen.say("accumulation");
    if (s.accumulation_sync.value_or("every") == "every") pen.say("accumulation_sync");
  } else if (accumulation == 1) {
    pen.say("accumulation");
    pen.say("accumulation_sync");
  }
  // Without one torchtitan takes 2048, whatever the model.
  if (const auto length = pen.seq_len()) {
    text += fmt::format("seq_len = {}\n", *length);
    pen.say("seq_len");
  }
  // Without a limit of its own torchtitan clips at 1.
  const bool clip = pen.take("clip_grad_norm", s.clip_grad_norm).value_or(false);
  text += fmt::format("max_norm = {}\n", clip ? "1.0" : "0.0");
  return text + dtype_lines(pen, ddp) + "\n";
}

std::string parallelism_table(Pen& pen, const std::string& strategy) {
  const Scenario& s = pen.s;
  std::string replicate = "1", shard = "-1";
  const auto world = pen.world();
  if (strategy == "hsdp") {
    const auto& group = pen.take("shard_group", s.shard_group);
    if (!world || !group) {
      throw InputError(s.where("shard_group"),
                       "torchtitan's hsdp needs its shard group and the number of GPUs; give "
                       "shard_group and gpus");
    }
    replicate = std::to_string(*world / *group);
    shard = std::to_string(*group);
  } else if (strategy == "ddp") {
    if (!world || *world < 2) {
      throw InputError(s.where("gpus"),
                       "torchtitan's ddp needs the number of GPUs, 2 or more; give gpus");
    }
    replicate = std::to_string(*world);
    shard = "1";
    if (s.bucket_cap_mb == std::optional<double>(100.0)) {
      pen.say("bucket_cap_mb");
    } else if (!s.bucket_cap_mb_list) {
      pen.leave("bucket_cap_mb", ddp_bucket_cap_mb);
    }
  }
  std::string text = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n",
      replicate, shard);
  if (strategy != "ddp") {
    const auto& reshard = pen.take("reshard_after_forward", s.reshard_after_forward);
    if (reshard && reshard->count > 1) pen.leave("reshard_after_forward");
    const bool never = reshard && (!reshard->yes || reshard->count == 1);
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", never ? "never" : "default");
    // Its own units, whatever else was forecast.
    if (s.wrap == std::optional<std::string>("torchtitan")) {
      pen.say("wrap");
    } else {
      pen.leave("wrap", "block");
    }
  }
  return text + "tensor_parallel_degree = 1\n\n";
}

}  // namespace

std::string torchtitan_text(Pen& pen) {
  const std::string strategy = pen.strategy();
  std::string text = model_table(pen);
  text += training_table(pen, strategy == "ddp");
  text += parallelism_table(pen, strategy);
  const std::string mode = pen.take("checkpointing", pen.s.checkpointing).value_or("none");
  if (mode == "selective") pen.leave("checkpointing");  // its list of ops is another choice
  const bool by_op = mode.starts_with("selective");
  text +=
      fmt::format("[activation_checkpoint]\nmode = \"{}\"\n", by_op ? "selective" : mode.c_str());
  if (by_op) text += "selective_ac_option = \"op\"\n";
  if (const auto& optimizer = pen.take("optimizer", pen.s.optimizer)) {
    if (optimizer->starts_with("adamw-")) {
      const std::string how = optimizer->substr(6);
      text += fmt::format("\n[optimizer]\nname = \"AdamW\"\nimplementation = \"{}\"\n",
                          how == "unfused" ? "for-loop" : how);
    } else {
      pen.leave("optimizer");
    }
  }
  const auto& fp8 = pen.take("fp8", pen.s.fp8);
  if (fp8 == std::optional<std::string>("torchao-tensorwise")) {
    const bool gathers = pen.take("fp8_all_gather", pen.s.fp8_all_gather).value_or(false);
    const bool at_once =
        pen.take("fp8_precompute_scale", pen.s.fp8_precompute_scale).value_or(false);
    text += fmt::format(
        "\n[float8]\nenable_fsdp_float8_all_gather = {}\n"
        "precompute_float8_dynamic_scale_for_fsdp = {}\nfilter_fqns = [\"output\"]\n",
        gathers, at_once);
  } else if (fp8 && *fp8 != "none") {
    pen.leave("fp8");
  }
  const bool compiled = pen.s.profile.value_or("").ends_with("compile");
  text += fmt::format("\n[compile]\nenable = {}\n", compiled ? "true" : "false");
  return text;
}

}  // namespace stepcast::jobs
