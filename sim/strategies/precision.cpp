#include "base/error.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {
namespace {

Precision recipe(std::string name, Dtype parameter, Dtype compute, Dtype gather, Dtype gradient,
                 Dtype reduce, Dtype moments) {
  Precision p;
  p.name = std::move(name);
  p.parameter = parameter;
  p.compute = compute;
  p.gather = gather;
  p.gradient = gradient;
  p.reduce = reduce;
  p.moments = moments;
  return p;
}

std::vector<Precision> all_recipes() {
  constexpr Dtype fp32 = Dtype::fp32;
  constexpr Dtype bf16 = Dtype::bf16;
  constexpr Dtype fp16 = Dtype::fp16;
  Precision amp = recipe("amp-bf16", fp32, bf16, fp32, fp32, fp32, fp32);
  amp.autocast = true;
  Precision master = recipe("bf16-master", bf16, bf16, bf16, bf16, bf16, fp32);
  master.master_copy = true;
  // Backward writes bf16; each gradient is added to an fp32 one and is reduced from there.
  Precision accumulated = recipe("bf16-master-grad-fp32", bf16, bf16, bf16, fp32, fp32, fp32);
  accumulated.master_copy = true;
  Precision amp16 = recipe("amp-fp16", fp32, fp16, fp32, fp32, fp32, fp32);
  amp16.autocast = true;
  Precision master16 = recipe("fp16-master", fp16, fp16, fp16, fp16, fp16, fp32);
  master16.master_copy = true;
  return {
      amp,
      recipe("bf16-mixed", fp32, bf16, bf16, bf16, fp32, fp32),
      recipe("bf16-mixed-reduce-bf16", fp32, bf16, bf16, bf16, bf16, fp32),
      master,
      accumulated,
      recipe("bf16-pure", bf16, bf16, bf16, bf16, bf16, bf16),
      amp16,
      recipe("fp16-mixed", fp32, fp16, fp16, fp16, fp32, fp32),
      master16,
      recipe("fp32", fp32, fp32, fp32, fp32, fp32, fp32),
      recipe("tf32", fp32, Dtype::tf32, fp32, fp32, fp32, fp32),
  };
}

}  // namespace

std::vector<std::string> precision_recipes() {
  std::vector<std::string> names;
  for (const Precision& p : all_recipes()) names.push_back(p.name);
  return names;
}

Precision precision_recipe(const std::string& name) {
  for (const Precision& p : all_recipes()) {
    if (p.name == name) return p;
  }
  throw not_accepted({"", 0, "precision"}, name, precision_recipes());
}

std::vector<std::string> precision_recipes_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::ddp:
      return {"amp-bf16",  "bf16-master", "bf16-master-grad-fp32",
              "bf16-pure", "amp-fp16",    "fp16-master",
              "fp32",      "tf32"};
    case StrategyKind::dp:
      return {"amp-bf16", "bf16-master", "bf16-pure", "amp-fp16", "fp16-master", "fp32", "tf32"};
    case StrategyKind::zero1:
      return {"bf16-master", "bf16-master-grad-fp32", "fp16-master", "fp32", "tf32"};
    case StrategyKind::zero2:
    case StrategyKind::zero3: return {"bf16-master", "fp16-master", "fp32", "tf32"};
    case StrategyKind::fsdp1:
    case StrategyKind::fsdp2:
    case StrategyKind::hsdp:
      return {"bf16-mixed", "bf16-mixed-reduce-bf16", "bf16-pure", "fp16-mixed", "fp32", "tf32"};
  }
  return {};
}

std::string default_precision(StrategyKind kind, bool has_bf16) {
  std::string name = precision_recipes_of(kind).front();
  if (has_bf16) return name;
  // The same recipe in fp16, with a loss scale.
  name.replace(name.find("bf16"), 4, "fp16");
  return name;
}

}  // namespace stepcast
