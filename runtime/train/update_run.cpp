#include "runtime/train/update_run.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

// The parts of an update one after another; `compute` gets gradient, moments and weight in place.
template <typename Compute>
void each_part(const std::vector<AdamPart>& parts, const std::vector<Activation>& scratch,
               std::byte* const* memory, const std::string& name, Compute&& compute) {
  for (const Activation& a : scratch) {
    std::memset(memory[a.view] + a.at * bytes_per_element(a.dtype), poison_byte,
                static_cast<std::size_t>(a.bytes));
  }
  std::vector<double> g, m, v, w;
  for (const AdamPart& part : parts) {
    const auto fetch = [&](std::vector<double>& to, const Place& from) {
      to.assign(static_cast<std::size_t>(part.count), 0);
      if (from.view < 0) return;
      read(to.data(), memory[from.view], from.dtype, from.at, part.count, name);
    };
    const auto keep = [&](const Place& to, const std::vector<double>& from) {
      if (to.view >= 0) write(memory[to.view], to.dtype, to.at, from.data(), part.count);
    };
    fetch(g, part.gradient);
    fetch(m, part.first_moment);
    fetch(v, part.second_moment);
    fetch(w, part.master.view >= 0 ? part.master : part.parameter);
    for (std::size_t i = 0; i < g.size(); ++i) compute(g[i], m[i], v[i], w[i]);
    keep(part.first_moment, m);
    keep(part.second_moment, v);
    keep(part.master, w);
    keep(part.parameter, w);
  }
}

}  // namespace

void run_adam(const AdamPlan& plan, const AdamW& a, int step, std::byte* const* memory,
              const std::string& name) {
  const double correct1 = 1 - std::pow(a.beta1, step);
  const double correct2 = 1 - std::pow(a.beta2, step);
  each_part(plan.parts, plan.scratch, memory, name, [&](double g, double& m, double& v, double& w) {
    w -= a.rate * a.decay * w;
    m = a.beta1 * m + (1 - a.beta1) * g;
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    w -= a.rate * (m / correct1) / (std::sqrt(v / correct2) + a.epsilon);
  });
}

void run_sgd(const SgdPlan& plan, const Sgd& sgd, std::byte* const* memory,
             const std::string& name) {
  each_part(plan.parts, plan.scratch, memory, name, [&](double g, double& m, double&, double& w) {
    m = sgd.momentum * m + g;  // without a buffer m is 0 before and forgotten after
    w -= sgd.rate * m;
  });
}

}  // namespace stepcast::runtime
