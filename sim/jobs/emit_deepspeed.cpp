// DeepSpeed's JSON of a scenario. The batch size a GPU, accumulation, dtype, the stage and every
// knob that is set; what is not set is left to DeepSpeed, whose defaults are stepcast's.

#include <nlohmann/json.hpp>

#include "sim/jobs/emit_parts.hpp"

namespace stepcast::jobs {

namespace {

using Json = nlohmann::ordered_json;

template <typename T>
void put(Pen& pen, Json& into, const char* key, const std::optional<T>& field) {
  if (pen.take(key, field)) into[key] = *field;
}

void put_dtype(Pen& pen, Json& json) {
  const std::string precision = pen.precision();
  const auto names = [&](const char* dtype) { return precision.find(dtype) != std::string::npos; };
  // Gradients in fp32 are stage 1's; under stage 0 they would make DeepSpeed shard the state.
  const bool wide = precision == "bf16-master-grad-fp32" && pen.strategy() == "zero1";
  if (names("bf16")) {
    json["bf16"] = {{"enabled", true}};
  } else if (names("fp16")) {
    json["fp16"] = {{"enabled", true}};
  }
  const bool said = precision == "bf16-master" || precision == "fp16-master" || wide;
  if (!said && precision != "fp32") pen.leave("precision", precision);
  if (wide) json["data_types"] = {{"grad_accum_dtype", "fp32"}};
}

void put_optimizer(Pen& pen, Json& json) {
  const auto& kind = pen.take("optimizer", pen.s.optimizer);
  if (!kind) return;
  if (*kind == "adamw-fused") {
    json["optimizer"] = {{"type", "AdamW"}};
  } else if (*kind == "adamw-foreach") {
    json["optimizer"] = {{"type", "AdamW"}, {"params", {{"torch_adam", true}}}};
  } else if (*kind == "sgd") {
    json["optimizer"] = {{"type", "SGD"}};
  } else if (*kind == "sgd-momentum") {
    json["optimizer"] = {{"type", "SGD"}, {"params", {{"momentum", 0.9}}}};
  } else {
    pen.leave("optimizer");
  }
}

}  // namespace

std::string deepspeed_text(Pen& pen) {
  const Scenario& s = pen.s;
  Json json = Json::object();
  if (pen.take("micro_batch", s.micro_batch)) {
    json["train_micro_batch_size_per_gpu"] = *s.micro_batch;
  } else {
    json["train_micro_batch_size_per_gpu"] = 1;
  }
  json["gradient_accumulation_steps"] = pen.take("accumulation", s.accumulation).value_or(1);
  if (pen.take("clip_grad_norm", s.clip_grad_norm)) {
    json["gradient_clipping"] = *s.clip_grad_norm ? 1.0 : 0.0;
  }
  put_dtype(pen, json);
  put_optimizer(pen, json);

  const std::string strategy = pen.strategy();
  const int stage = strategy == "ddp" ? 0 : strategy.back() - '0';
  Json zero = {{"stage", stage}};
  if (stage == 0) {
    // One bucket is what stage 0 does; others are DistributedDataParallel's.
    if (s.bucket_cap_mb == std::optional<double>(1e6)) {
      pen.say("bucket_cap_mb");
    } else if (!s.bucket_cap_mb_list) {
      pen.leave("bucket_cap_mb", ddp_bucket_cap_mb);
    }
  } else {
    put(pen, zero, "reduce_bucket_size", s.reduce_bucket_size);
    put(pen, zero, "overlap_comm", s.overlap_comm);
  }
  if (stage == 1 || stage == 2) {
    put(pen, zero, "contiguous_gradients", s.contiguous_gradients);
    put(pen, zero, "reduce_scatter", s.reduce_scatter);
    put(pen, zero, "use_multi_rank_bucket_allreduce", s.use_multi_rank_bucket_allreduce);
  }
  if (stage == 3) {
    put(pen, zero, "stage3_prefetch_bucket_size", s.stage3_prefetch_bucket_size);
    put(pen, zero, "stage3_param_persistence_threshold", s.stage3_param_persistence_threshold);
    put(pen, zero, "stage3_max_live_parameters", s.stage3_max_live_parameters);
    put(pen, zero, "stage3_max_reuse_distance", s.stage3_max_reuse_distance);
    put(pen, zero, "sub_group_size", s.sub_group_size);
    put(pen, zero, "zero_hpz_partition_size", s.zero_hpz_partition_size);
  }
  // When each stage reduces is fixed: saying it adds nothing.
  if (stage > 0) pen.say("accumulation_sync");
  json["zero_optimization"] = std::move(zero);
  return json.dump(2) + "\n";
}

}  // namespace stepcast::jobs
