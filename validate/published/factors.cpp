#include "validate/published/factors.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/kernels/efficiency_limit.hpp"

namespace stepcast {

namespace {

constexpr double most_jitter = 0.3;  // as a profile may say
// Where the base profile has none. GPUs of one kind in one cluster are 8 % apart on average,
// fastest to slowest without outliers (Sinha et al., "Not All GPUs Are Created Equal", SC 2022,
// arXiv 2208.11035): for a normal's whiskers, 5.4 deviations apart, 1.5 %.
constexpr double survey_jitter = 0.015;

// Not beyond what a profile may say, so that a fitted one can be read again.
void speed_up(double& efficiency, double by) {
  efficiency = std::min(efficiency / by, most_efficiency);
}

}  // namespace

const std::vector<Factor>& all_factors() {
  static const std::vector<Factor> factors = {
      {"gemm", "time of matrix products and convolutions", 0.3,
       [](SoftwareProfile& p, double by) { speed_up(p.gemm_efficiency, by); }},
      {"attention", "time of attention kernels", 0.5,
       [](SoftwareProfile& p, double by) { speed_up(p.attention_efficiency, by); }},
      {"memory", "time of memory-bound kernels", 0.3,
       [](SoftwareProfile& p, double by) { speed_up(p.memory_efficiency, by); }},
      {"head", "time of the output layer and the loss", 0.5,
       [](SoftwareProfile& p, double by) { speed_up(p.head_efficiency, by); }},
      {"optimizer", "time of the optimizer's kernels", 0.5,
       [](SoftwareProfile& p, double by) { speed_up(p.optimizer_efficiency, by); }},
      {"collective", "time of collectives", 0.3,
       [](SoftwareProfile& p, double by) { speed_up(p.collective_efficiency, by); }},
      {"launch", "host time of a CUDA launch", 0.7,
       [](SoftwareProfile& p, double by) { p.launch_us *= by; }},
      {"host", "named host works", 0.7,
       [](SoftwareProfile& p, double by) {
         for (auto& [work, us] : p.host_us) us *= by;
       }},
      {"overlap", "what collectives take from kernels beside them", 0.5,
       [](SoftwareProfile& p, double by) { p.overlap_interference *= by; }},
      {"jitter", "deviation between ranks, of 1.5 % where the base has none", 1.0,
       [](SoftwareProfile& p, double by) {
         p.rank_jitter =
             std::min(most_jitter, (p.rank_jitter > 0 ? p.rank_jitter : survey_jitter) * by);
       }},
  };
  return factors;
}

const Factor& factor_named(const std::string& name, const Where& where) {
  std::vector<std::string> known;
  for (const Factor& factor : all_factors()) {
    if (name == factor.name) return factor;
    known.emplace_back(factor.name);
  }
  throw not_accepted(where, name, known);
}

SoftwareProfile scaled(const SoftwareProfile& base, const std::vector<const Factor*>& factors,
                       const std::vector<double>& by) {
  SoftwareProfile profile = base;
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i]->scale(profile, by[i]);
  return profile;
}

}  // namespace stepcast
