// accelerate's YAML of a scenario. ZeRO is said inline, which takes the stage but no bucket sizes:
// those are left out, and DeepSpeed's own JSON (--emit deepspeed) says them.

#include <fmt/format.h>

#include "sim/jobs/emit_parts.hpp"

namespace stepcast::jobs {

namespace {

const char* word(bool value) { return value ? "true" : "false"; }

// accelerate's one word for compute, gathers and reduction.
std::string mixed_precision(Pen& pen, const std::string& strategy) {
  const bool zero = strategy.starts_with("zero");
  const bool ddp = strategy == "ddp";
  const std::string native = zero ? "bf16-master" : ddp ? "amp-bf16" : "bf16-mixed-reduce-bf16";
  const std::string half = zero ? "fp16-master" : ddp ? "amp-fp16" : "fp16-mixed";
  const std::string precision = pen.precision();
  if (precision == "fp32") return "'no'";
  if (precision == half) return "fp16";
  if (precision != native) pen.leave("precision", precision);
  return precision.find("fp16") == std::string::npos ? "bf16" : "fp16";
}

template <typename T>
std::string line(Pen& pen, const char* key, const std::optional<T>& field) {
  if (!pen.take(key, field)) return "";
  return fmt::format("  fsdp_{}: {}\n", key, *field);
}

std::string wrap_lines(Pen& pen) {
  const std::string wrap = pen.take("wrap", pen.s.wrap).value_or("block");
  if (wrap == "size") {
    std::string text = "  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n";
    text += fmt::format("  fsdp_min_num_params: {}\n",
                        pen.take("wrap_min_params", pen.s.wrap_min_params).value_or(100'000'000));
    return text;
  }
  if (wrap != "block") pen.leave("wrap");
  return "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
}

std::string checkpointing_line(Pen& pen) {
  const auto& how = pen.take("checkpointing", pen.s.checkpointing);
  if (!how) return "";
  if (how->starts_with("selective")) {
    pen.leave("checkpointing");
    return "";
  }
  return fmt::format("  fsdp_activation_checkpointing: {}\n", word(*how == "full"));
}

std::string fsdp_1(Pen& pen) {
  const Scenario& s = pen.s;
  std::string strategy = pen.take("sharding_strategy", s.sharding_strategy).value_or("FULL_SHARD");
  if (strategy.starts_with("_")) strategy.erase(0, 1);
  std::string text = "fsdp_config:\n  fsdp_version: 1\n";
  text += wrap_lines(pen);
  text += fmt::format("  fsdp_sharding_strategy: {}\n", strategy);
  const std::string prefetch = pen.take("backward_prefetch", s.backward_prefetch).value_or("pre");
  text += fmt::format("  fsdp_backward_prefetch: {}\n", prefetch == "pre"    ? "BACKWARD_PRE"
                                                        : prefetch == "post" ? "BACKWARD_POST"
                                                                             : "NO_PREFETCH");
  text += line(pen, "forward_prefetch", s.forward_prefetch);
  text += line(pen, "limit_all_gathers", s.limit_all_gathers);
  text += line(pen, "use_orig_params", s.use_orig_params);
  return text + checkpointing_line(pen);
}

std::string fsdp_2(Pen& pen) {
  std::string text = "fsdp_config:\n  fsdp_version: 2\n";
  text += wrap_lines(pen);
  const auto& reshard = pen.take("reshard_after_forward", pen.s.reshard_after_forward);
  const bool yes = !reshard || (reshard->yes && reshard->count != 1);
  if (reshard && reshard->count > 1) pen.leave("reshard_after_forward");
  text += fmt::format("  fsdp_reshard_after_forward: {}\n", word(yes));
  return text + checkpointing_line(pen);
}

std::string degrees(Pen& pen) {
  const auto world = pen.world();
  const auto& group = pen.take("shard_group", pen.s.shard_group);
  if (!world || !group) {
    throw InputError(pen.s.where("shard_group"),
                     "accelerate's hsdp needs its shard group and the number of GPUs; give "
                     "shard_group and gpus");
  }
  return fmt::format(
      "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n"
      "  parallelism_config_dp_shard_size: {}\n  parallelism_config_tp_size: 1\n"
      "  parallelism_config_cp_size: 1\n",
      *world / *group, *group);
}

std::string zero(Pen& pen, const std::string& strategy) {
  std::string text = fmt::format("deepspeed_config:\n  zero_stage: {}\n", strategy.back());
  text += fmt::format("  gradient_accumulation_steps: {}\n",
                      pen.take("accumulation", pen.s.accumulation).value_or(1));
  if (const auto& clip = pen.take("clip_grad_norm", pen.s.clip_grad_norm)) {
    text += fmt::format("  gradient_clipping: {}\n", *clip ? "1.0" : "0.0");
  }
  pen.say("accumulation_sync");
  return text +
         "  offload_optimizer_device: none\n  offload_param_device: none\n"
         "  zero3_init_flag: false\n";
}

}  // namespace

std::string accelerate_text(Pen& pen) {
  const std::string strategy = pen.strategy();
  const bool is_zero = strategy.starts_with("zero");
  std::string text = "compute_environment: LOCAL_MACHINE\n";
  text += fmt::format("distributed_type: {}\n", strategy == "ddp" ? "MULTI_GPU"
                                                : is_zero         ? "DEEPSPEED"
                                                                  : "FSDP");
  text += fmt::format("mixed_precision: {}\n", mixed_precision(pen, strategy));
  if (strategy == "fsdp1") text += fsdp_1(pen);
  if (strategy == "fsdp2" || strategy == "hsdp") text += fsdp_2(pen);
  if (strategy == "hsdp") text += degrees(pen);
  if (is_zero) text += zero(pen, strategy);
  if (!is_zero && pen.s.accumulation) {
    // Read by accelerate's launcher for scripts that ask for it.
    text += fmt::format("gradient_accumulation_steps: {}\n",
                        *pen.take("accumulation", pen.s.accumulation));
  }
  const auto world = pen.world();
  const auto nodes = pen.nodes();
  if (world) text += fmt::format("num_processes: {}\n", *world);
  // An uneven last node is more than accelerate's launcher can say.
  if (world && nodes && *world % *nodes == 0) {
    text += fmt::format("num_machines: {}\nmachine_rank: 0\n", *nodes);
  }
  return text +
         "main_training_function: main\nrdzv_backend: static\nsame_network: true\n"
         "use_cpu: false\n";
}

}  // namespace stepcast::jobs
