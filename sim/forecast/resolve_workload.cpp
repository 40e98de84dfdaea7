#include "sim/forecast/resolve_workload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.hpp"
#include "models/checkpointing.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

constexpr std::int64_t usual_sequence = 8192;  // what is longer is worth a word if nobody said it

Checkpointing parse_checkpointing(const std::string& text) {
  if (text == "full") return Checkpointing::full;
  if (text == "selective-op") return Checkpointing::selective_op;
  return text == "selective" ? Checkpointing::selective : Checkpointing::none;
}

// The recipe that was asked for, or the strategy's default; on GPUs before bf16 its fp16 twin.
Precision resolve_precision(const Scenario& s, const StrategyChoice& strategy, const Gpu& gpu,
                            std::vector<std::string>& notes) {
  const bool has_bf16 = multiplies(gpu, Dtype::bf16);
  const Precision precision =
      precision_recipe(s.precision.value_or(default_precision(strategy.kind, has_bf16)));
  if (!multiplies(gpu, precision.compute)) {
    std::string accepted;
    for (const std::string& name : precision_recipes_of(strategy.kind)) {
      if (!multiplies(gpu, precision_recipe(name).compute)) continue;
      accepted += (accepted.empty() ? "" : ", ") + name;
    }
    throw InputError(
        s.where("precision"),
        fmt::format("'{}' needs matrix products in {}, which {} does not have; "
                    "accepted: {}",
                    precision.name, to_string(precision.compute), gpu.full_name, accepted));
  }
  if (!s.precision && !has_bf16) {
    notes.push_back(
        fmt::format("precision {}: {} has no bf16 matrix products", precision.name, gpu.full_name));
  }
  return precision;
}

InputError no_convolutions(const Scenario& s, const Model& model) {
  return {s.where("channels_last"),
          fmt::format("applies to the convolutions of a resnet, which {} has not", model.name)};
}

// Text has a sequence length, images have a size; the other would be ignored in silence.
// `compiled`: torch.compile lays a resnet's tensors out by itself.
void resolve_input(const Scenario& s, const Model& model, bool compiled, Workload& workload) {
  const Architecture& a = model.architecture;
  if (takes_images(a.family)) {
    if (s.seq_len) {
      throw InputError(s.where("seq_len"),
                       fmt::format("applies to text only, and {} reads images; accepted: "
                                   "image_size",
                                   model.name));
    }
    if (a.family == Family::resnet && s.fused_attention) {
      throw InputError(s.where("fused_attention"),
                       fmt::format("applies to attention, which {} has not", model.name));
    }
    if (a.family != Family::resnet && s.channels_last) throw no_convolutions(s, model);
    workload.image_size = s.image_size.value_or(a.image_size);
    workload.channels_last = s.channels_last.value_or(false) || compiled;
    return;
  }
  if (s.channels_last) throw no_convolutions(s, model);
  if (s.image_size) {
    throw InputError(
        s.where("image_size"),
        fmt::format("applies to images only, and {} reads text; accepted: seq_len", model.name));
  }
  workload.seq_len = s.seq_len.value_or(a.max_positions);
  if (workload.seq_len <= 0) {
    throw InputError(s.where("seq_len"), "the model has no sequence length of its own; give one");
  }
}

bool takes_long_sequences(const Scenario& s, const Model& model) {
  return !s.seq_len && !takes_images(model.architecture.family) &&
         model.architecture.max_positions > usual_sequence;
}

// Sizes that would overflow 64-bit byte counts, and that no GPU holds.
void check_sizes(const Scenario& s, const Workload& workload, const Model& model) {
  const auto b = static_cast<double>(workload.micro_batch);
  const auto n = static_cast<double>(workload.seq_len);
  if (b * n > 1e9) {
    throw InputError(s.where(s.micro_batch ? "micro_batch" : "seq_len"),
                     fmt::format("{} tokens a micro-batch are not accepted; accepted: at most 1e9",
                                 number_text(b * n)));
  }
  const double scores = b * static_cast<double>(model.architecture.heads) * n * n;
  if (!s.fused_attention.value_or(true) && scores > 1e15) {
    throw InputError(s.where("fused_attention"),
                     fmt::format("{} attention scores a layer are not accepted; accepted: at "
                                 "most 1e15",
                                 number_text(scores)));
  }
}

}  // namespace

bool multiplies(const Gpu& gpu, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return gpu.peak_bf16.has_value();
    case Dtype::fp16: return gpu.peak_fp16.has_value();
    case Dtype::tf32: return gpu.peak_tf32.has_value();
    case Dtype::fp8: return gpu.peak_fp8.has_value();
    default: return gpu.peak_fp32.has_value();
  }
}

void resolve_workload(const Scenario& s, const StrategyChoice& strategy, Resolved& r) {
  TrainingStep& step = r.step;
  step.workload.micro_batch = s.micro_batch.value_or(1);
  resolve_input(s, step.model, r.profile.fused_elementwise, step.workload);
  if (takes_long_sequences(s, step.model)) {
    r.notes.push_back(fmt::format("seq_len was not said: the model's maximum, {}",
                                  grouped(static_cast<double>(step.workload.seq_len))));
  }
  check_sizes(s, step.workload, step.model);
  step.workload.checkpointing = parse_checkpointing(s.checkpointing.value_or("none"));
  step.workload.fused_attention = s.fused_attention.value_or(true);
  step.workload.fused_elementwise = r.profile.fused_elementwise;
  step.workload.fused_loss = r.profile.fused_loss;
  step.precision = resolve_precision(s, strategy, r.cluster.machine.gpu, r.notes);
  step.workload.compute_dtype = step.precision.compute;
  step.workload.autocast_weights = step.precision.autocast;
}

std::vector<std::string> levels_of_model(const Scenario& scenario,
                                         const std::vector<std::string>& levels) {
  if (!scenario.model) return levels;
  try {
    const Model model = load_model(scenario_path(scenario, "model", *scenario.model),
                                   scenario.seq_len.value_or(0), scenario.image_size.value_or(0));
    const std::vector<std::string> known = checkpointing_levels(model.architecture);
    std::vector<std::string> its;
    for (const std::string& level : levels) {
      if (std::find(known.begin(), known.end(), level) != known.end()) its.push_back(level);
    }
    return its;
  } catch (const InputError&) {
    return levels;
  }
}

}  // namespace stepcast
