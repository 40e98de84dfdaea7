#include "sim/forecast/interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "sim/engines/jitter.hpp"
#include "sim/kernels/gpu_family.hpp"
#include "sim/report/format.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

namespace {

constexpr double from_same_architecture = 0.022;
constexpr double from_another_architecture = 0.126;
constexpr double fp8_products = 0.064;
constexpr double convolutions = 0.27;
constexpr double assumed = 0.20;
constexpr double exposed_in_node = 0.15;
constexpr double exposed_between_nodes = 0.30;
constexpr double between_nodes = 0.02;
// Logarithms of how much ranks differ: where no fit determined it, and the most that one leaves
// that says it did (validate/published/factors.cpp, fit.cpp).
constexpr double unknown_jitter = 1.0;
constexpr double fitted_jitter = 0.7;
// Of devices whose blocks leave less than a twentieth free.
constexpr double full_device = 0.116;
constexpr double full = 0.95;
constexpr double one_in_ten = 1.2816;  // of a normal distribution

bool is_full(const Report& report) {
  return std::any_of(report.memory.begin(), report.memory.end(), [&](const RoleMemory& role) {
    return role.reserved && static_cast<double>(role.reserved->peak) >=
                                full * static_cast<double>(room_for_blocks(role, report.capacity));
  });
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Read once: an interval is asked for at every point of a sweep.
const std::vector<Gpu>& gpus_of_catalog() {
  static const std::vector<Gpu> gpus = [] {
    std::vector<Gpu> all;
    for (const std::string& name : catalog_gpus()) all.push_back(load_gpu(name));
    return all;
  }();
  return gpus;
}

// By Gpu::name or Gpu::full_name; none: a GPU of the user's own.
const Gpu* catalog_gpu(std::string Gpu::*member, const std::string& name) {
  const std::vector<Gpu>& gpus = gpus_of_catalog();
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.*member == name; });
  return found == gpus.end() ? nullptr : &*found;
}

// Of extrapolated costs on a GPU that no fit of the profile saw.
double spread_of_kernels(const Gpu* gpu) {
  if (gpu == nullptr) return from_another_architecture;
  const GpuFamily& family = family_of(*gpu);
  const Gpu* reference = catalog_gpu(&Gpu::name, family.reference);
  STEPCAST_ASSERT(reference != nullptr, "a family's reference is of the catalog");
  const bool measured = &family_of(*reference) == &family;
  return measured ? from_same_architecture : from_another_architecture;
}

// Of what the slowest of so many GPUs costs, what no fitted row held: the rest is in the factors.
double part_beyond_fit(std::int64_t gpus, const SoftwareProfile& profile) {
  const int fitted = std::max(1, profile.fitted_gpus);
  if (gpus <= fitted) return 0;
  return 1 - largest_of_normals(fitted).mean / largest_of_normals(static_cast<int>(gpus)).mean;
}

// Deviation of the loss, relative: half of what 8 of 10 lie within where its logarithm is normal.
double spread_of_jitter(const SoftwareProfile& profile) {
  const double of_logarithm = contains(profile.fitted, "jitter") ? fitted_jitter : unknown_jitter;
  return std::sinh(one_in_ten * of_logarithm) / one_in_ten;
}

bool fitted_on_measured_products(const SoftwareProfile& profile) {
  return !profile.fitted_on.empty() &&
         std::all_of(profile.fitted_on.begin(), profile.fitted_on.end(),
                     [](const std::string& name) {
                       return !figures_of(load_gpu(name)).gemm_table.empty();
                     });
}

}  // namespace

double StepInterval::deviation() const {
  return std::sqrt(profile * profile + kernels * kernels + network * network + scale * scale);
}

double spread_of_profiles(Rate which, const SoftwareProfile& around) {
  struct Fitted {
    const char* factor;
    double SoftwareProfile::*efficiency;
    std::vector<std::pair<std::string, double>> found;  // by profile
  };
  // By Rate; a convolution has no factor of its own.
  static const std::array<Fitted, 5> all = [] {
    std::array<Fitted, 5> rates = {{{"gemm", &SoftwareProfile::gemm_efficiency, {}},
                                    {"gemm", &SoftwareProfile::gemm_efficiency, {}},
                                    {"attention", &SoftwareProfile::attention_efficiency, {}},
                                    {"memory", &SoftwareProfile::memory_efficiency, {}},
                                    {"head", &SoftwareProfile::head_efficiency, {}}}};
    for (const std::string& name : catalog_profiles()) {
      const SoftwareProfile profile = load_profile(name);
      if (!fitted_on_measured_products(profile)) continue;
      for (Fitted& rate : rates) {
        if (!contains(profile.fitted, rate.factor)) continue;
        rate.found.emplace_back(name, profile.*rate.efficiency);
      }
    }
    return rates;
  }();
  const Fitted& fitted = all[static_cast<std::size_t>(which)];
  double squares = 0;
  int others = 0;
  for (const auto& [name, found] : fitted.found) {
    if (name == around.name) continue;
    const double apart = std::log(found / (around.*fitted.efficiency));
    squares += apart * apart;
    ++others;
  }
  STEPCAST_ASSERT(others > 0, "several profiles of the catalog are fitted");
  return std::sqrt(squares / others);
}

StepInterval interval_of(const Report& report, const SoftwareProfile& profile) {
  StepInterval interval;
  const TimeSplit& split = report.split;
  const Seconds slowest = split.exposed_by("slowest_rank");  // `scale` has it
  const auto share = [&](Provenance p) {
    const Seconds time =
        split.by_provenance[static_cast<std::size_t>(p)] - (p == profile.provenance ? slowest : 0);
    return time / report.step_time;
  };
  const Gpu* gpu = catalog_gpu(&Gpu::full_name, report.gpu);
  const bool seen = gpu != nullptr && contains(profile.fitted_on, gpu->name);
  interval.borrowed = profile.residual == 0;
  interval.carried = !interval.borrowed && !seen && !profile.fitted_on.empty();
  interval.profile = profile.residual;
  if (interval.borrowed || interval.carried) {
    const double products = spread_of_profiles(Rate::gemm, profile);
    double squares = profile.residual * profile.residual + products * products;
    for (const Rate rate : {Rate::attention, Rate::memory, Rate::head}) {
      const double part = split.by_rate[static_cast<std::size_t>(rate)] / report.step_time *
                          spread_of_profiles(rate, profile);
      squares += part * part;
    }
    interval.profile = std::sqrt(squares);
  }
  double extrapolated = seen ? 0 : spread_of_kernels(gpu);
  if (!report.fp8.empty()) extrapolated = std::max(extrapolated, fp8_products);
  interval.kernels =
      extrapolated * share(Provenance::extrapolated) + assumed * share(Provenance::assumed);
  if (!seen) {
    const Seconds convolving = split.by_rate[static_cast<std::size_t>(Rate::convolution)];
    interval.kernels = std::hypot(interval.kernels, convolutions * convolving / report.step_time);
  }
  interval.network = (split.exposed_total() - slowest) / report.step_time *
                     (report.nodes > 1 ? exposed_between_nodes : exposed_in_node);
  interval.scale = std::hypot(report.nodes > 1 ? between_nodes : 0,
                              slowest / report.step_time * part_beyond_fit(report.gpus, profile) *
                                  spread_of_jitter(profile));
  interval.memory = is_full(report) ? full_device : 0;
  // In logarithms, so that a wide interval stays above 0.
  const double either_way = interval.deviation();
  interval.low = report.step_time / std::exp(one_in_ten * either_way);
  interval.high = report.step_time * std::exp(one_in_ten * std::hypot(either_way, interval.memory));
  for (const RoleMemory& role : report.memory) {
    if (role.reserved) interval.high = std::max(interval.high, role.reserved->retried_step);
  }
  return interval;
}

std::string words(const StepInterval& i) {
  return fmt::format(
      "8 steps in 10 take {} to {}; deviations: profile {:.1f} %{}, kernels {:.1f} %, network "
      "{:.1f} %, scale {:.1f} %{}",
      human_seconds(i.low), human_seconds(i.high), i.profile * 100,
      i.borrowed  ? " (not fitted: as fitted ones differ)"
      : i.carried ? " (fitted on another GPU)"
                  : "",
      i.kernels * 100, i.network * 100, i.scale * 100,
      i.memory == 0 ? "" : fmt::format(", upwards a full device {:.1f} %", i.memory * 100));
}

}  // namespace stepcast
