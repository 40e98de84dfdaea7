#include "sim/sweep/outputs.hpp"

#include "base/error.hpp"

namespace stepcast {

int output_index(std::string_view name) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Result result_of(const Evaluation& e) {
  Result r;
  constexpr std::string_view states[] = {"ok", "does_not_fit", "infeasible", "refused"};
  r.state = states[static_cast<std::size_t>(e.state)];
  r.why = e.why;
  r.binding = e.binding;
  if (!e.has_time()) return r;
  const auto set = [&r](std::string_view name, double value) {
    const int index = output_index(name);
    STEPCAST_ASSERT(index >= 0, "an output without a column");
    r.numbers[static_cast<std::size_t>(index)] = value;
  };
  set("world_size", e.gpus);
  set("step_time_s", e.step_time);
  if (e.fitted_profile) {
    set("step_time_low_s", e.interval.low);
    set("step_time_high_s", e.interval.high);
  }
  set("samples_per_s", e.samples_per_second);
  set("samples_per_s_per_gpu", e.samples_per_second / e.gpus);
  if (e.tokens_per_step > 0) {
    set("tokens_per_s", e.tokens_per_second);
    set("tokens_per_s_per_gpu", e.tokens_per_second / e.gpus);
  }
  set("tflops_per_gpu", e.tflops_per_gpu);
  set("mfu", e.mfu);
  set("hfu", e.hfu);
  set("compute_s", e.split.compute);
  set("copies_s", e.split.copies);
  set("interference_s", e.split.interference);
  set("optimizer_s", e.split.optimizer);
  set("host_s", e.split.host);
  set("other_s", e.split.other);
  set("exposed_s", e.split.exposed_total());
  if (e.perturbed_step_time > 0) set("perturbed_step_time_s", e.perturbed_step_time);
  set("memory_peak_bytes", static_cast<double>(e.memory_peak));
  set("memory_reserved_bytes", static_cast<double>(e.memory_reserved));
  set("memory_capacity_bytes", static_cast<double>(e.memory_capacity));
  set("memory_free",
      1 - static_cast<double>(e.memory_peak) / static_cast<double>(e.memory_capacity));
  return r;
}

}  // namespace stepcast
