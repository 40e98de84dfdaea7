#include "sim/strategies/zero/modules.hpp"

#include <algorithm>
#include <string>

namespace stepcast::zero {
namespace {

std::string module_name(const Parameter& parameter) {
  const std::string& name = parameter.name.str();
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

// Where each product begins, with the fp8 casts of its operands.
template <typename Kernels, typename KernelOf>
std::vector<int> gemms(const Kernels& kernels, const KernelOf& kernel_of) {
  std::vector<int> at;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernel_of(kernels[k]).kind != KernelKind::gemm) continue;
    std::size_t first = k;
    while (first > 0 && casts_to_fp8(kernel_of(kernels[first - 1]))) --first;
    at.push_back(static_cast<int>(first));
  }
  return at;
}

// Cuts [0, kernels) at `starts`; what lies before the first start belongs to the first.
void cut(const std::vector<int>& starts, int kernels, std::vector<int>& first,
         std::vector<int>& count) {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int begin = i == 0 ? 0 : starts[i];
    const int end = i + 1 < starts.size() ? starts[i + 1] : kernels;
    first.push_back(begin);
    count.push_back(end - begin);
  }
}

}  // namespace

ModulePlan plan_modules(const Model& model, const LayerWalk& walk,
                        std::int64_t persistence_threshold, bool leaf_layers) {
  ModulePlan plan;
  plan.of_layer.resize(model.layers.size());
  for (int layer = 0; layer < walk.layers(); ++layer) {
    const Layer& l = model.layers[static_cast<std::size_t>(layer)];
    std::vector<Module> found;
    std::string current;
    for (int p = l.first_parameter; p < l.first_parameter + l.parameter_count; ++p) {
      const Parameter& parameter = model.parameters[static_cast<std::size_t>(p)];
      if (parameter.elements() <= persistence_threshold) {
        plan.persistent.push_back(p);
        continue;
      }
      const std::string name = module_name(parameter);
      if (found.empty() || (name != current && !leaf_layers)) {
        found.push_back({});
        found.back().layer = layer;
      }
      current = name;
      found.back().parameters.push_back(p);
      found.back().elements += parameter.elements();
    }
    const LayerWork& work = walk.work(layer);
    const int forward = static_cast<int>(work.forward.size());
    const int backward = static_cast<int>(work.backward.size());
    const std::vector<int> forward_gemms = gemms(work.forward, [](const Kernel& k) { return k; });
    const std::vector<int> backward_gemms =
        gemms(work.backward, [](const BackwardKernel& k) { return k.kernel; });
    if (found.size() > 1 &&
        (forward_gemms.size() != found.size() || backward_gemms.size() != 2 * found.size())) {
      for (std::size_t m = 1; m < found.size(); ++m) {
        found[0].parameters.insert(found[0].parameters.end(), found[m].parameters.begin(),
                                   found[m].parameters.end());
        found[0].elements += found[m].elements;
      }
      found.resize(1);
    }
    std::vector<int> first, count, backward_first, backward_count;
    if (found.size() > 1) {
      cut(forward_gemms, forward, first, count);
      std::vector<int> starts;  // every second product, in backward order
      for (std::size_t g = 0; g < backward_gemms.size(); g += 2)
        starts.push_back(backward_gemms[g]);
      cut(starts, backward, backward_first, backward_count);
    } else {
      first = backward_first = {0};
      count = {forward};
      backward_count = {backward};
    }
    if (found.empty()) {  // nothing to gather: the layer runs as it is
      found.push_back({});
      found.back().layer = layer;
    }
    for (std::size_t m = 0; m < found.size(); ++m) {
      const std::size_t reverse = found.size() - 1 - m;
      found[m].forward_first = first[m];
      found[m].forward_count = count[m];
      found[m].backward_first = backward_first[reverse];
      found[m].backward_count = backward_count[reverse];
      plan.of_layer[static_cast<std::size_t>(layer)].push_back(
          static_cast<int>(plan.modules.size()));
      plan.modules.push_back(std::move(found[m]));
    }
  }
  return plan;
}

}  // namespace stepcast::zero
