#include "sim/strategies/fsdp1/size_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/error.hpp"

namespace stepcast::fsdp1 {
namespace {

// A module by the dots in its parameters' names.
struct Module {
  std::string name;
  std::vector<std::unique_ptr<Module>> children;  // registration order
  std::vector<int> own;                           // parameters directly on it
  std::int64_t elements = 0;                      // of all below it

  Module& child(const std::string& full_name) {
    for (const std::unique_ptr<Module>& c : children) {
      if (c->name == full_name) return *c;
    }
    children.push_back(std::make_unique<Module>());
    children.back()->name = full_name;
    return *children.back();
  }

  // Its children are numbered: a ModuleList, which the policy never wraps.
  bool is_list() const {
    return !children.empty() && std::all_of(children.begin(), children.end(), [](const auto& c) {
      const std::string& full = c->name;
      const std::size_t dot = full.rfind('.');
      const std::string last = dot == std::string::npos ? full : full.substr(dot + 1);
      return std::all_of(last.begin(), last.end(),
                         [](unsigned char letter) { return std::isdigit(letter) != 0; });
    });
  }
};

Module tree_of(const Model& model) {
  Module root;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const std::string& name = model.parameters[p].name.str();
    const std::int64_t elements = model.parameters[p].elements();
    Module* at = &root;
    at->elements += elements;
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      at = &at->child(name.substr(0, dot));
      at->elements += elements;
    }
    at->own.push_back(static_cast<int>(p));
  }
  return root;
}

class Policy {
 public:
  explicit Policy(std::int64_t min_parameters) : min_(min_parameters) {}

  // Parameters that no unit within the module has taken.
  std::vector<int> visit(const Module& module, bool is_root) {
    std::vector<int> rest = module.own;
    if (module.elements < min_) {
      for (const auto& child : module.children) append(rest, all_of(*child));
      return rest;
    }
    std::int64_t wrapped_before = wrapped_elements_;
    for (const auto& child : module.children) append(rest, visit(*child, false));
    const std::int64_t remainder = module.elements - (wrapped_elements_ - wrapped_before);
    if (is_root || remainder < min_ || module.is_list()) return rest;
    std::sort(rest.begin(), rest.end());
    wrapped.push_back({module.name, std::move(rest)});
    wrapped_elements_ += remainder;
    return {};
  }

  std::vector<WrappedModule> wrapped;

 private:
  static void append(std::vector<int>& list, const std::vector<int>& more) {
    list.insert(list.end(), more.begin(), more.end());
  }
  static std::vector<int> all_of(const Module& module) {
    std::vector<int> list = module.own;
    for (const auto& child : module.children) append(list, all_of(*child));
    return list;
  }

  std::int64_t min_;
  std::int64_t wrapped_elements_ = 0;
};

std::vector<int> parameters_of(const Layer& layer) {
  std::vector<int> list;
  for (int i = 0; i < layer.parameter_count; ++i) list.push_back(layer.first_parameter + i);
  return list;
}

}  // namespace

std::vector<WrappedModule> wrapped_by_size(const Model& model, std::int64_t min_parameters) {
  Policy policy(min_parameters);
  policy.visit(tree_of(model), true);
  return std::move(policy.wrapped);
}

std::vector<WrapUnit> wrap_by_size(const Model& model, std::int64_t min_parameters) {
  const std::vector<WrappedModule> wrapped = wrapped_by_size(model, min_parameters);
  std::vector<int> unit_of(model.layers.size(), -1);
  for (std::size_t w = 0; w < wrapped.size(); ++w) {
    const auto layer = std::find_if(model.layers.begin(), model.layers.end(), [&](const Layer& l) {
      return parameters_of(l) == wrapped[w].parameters;
    });
    if (layer == model.layers.end()) {
      std::int64_t elements = 0;
      for (const int p : wrapped[w].parameters) {
        elements += model.parameters[static_cast<std::size_t>(p)].elements();
      }
      throw InputError(
          {"", 0, "wrap_min_params"},
          fmt::format("{} makes a unit of {} ({} parameters), which is no whole layer; "
                      "accepted: a size at which units are layers, or wrap block",
                      min_parameters, wrapped[w].name, elements));
    }
    unit_of[static_cast<std::size_t>(layer - model.layers.begin())] = static_cast<int>(w);
  }
  std::vector<WrapUnit> units(1);
  units[0].name = "root";
  units[0].root = true;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (layer.tied_parameter >= 0 && unit_of[i] < 0) {
      // A tied head computes with the embedding's parameter, which must be the root's too.
      for (std::size_t owner = 0; owner < model.layers.size(); ++owner) {
        const std::vector<int> theirs = parameters_of(model.layers[owner]);
        const bool owns =
            std::find(theirs.begin(), theirs.end(), layer.tied_parameter) != theirs.end();
        if (owns && unit_of[owner] >= 0) {
          throw InputError({"", 0, "wrap_min_params"},
                           fmt::format("{} makes a unit of the embedding, whose parameter the tied "
                                       "head of {} uses outside it; accepted: a larger size, or "
                                       "wrap block",
                                       min_parameters, model.name));
        }
      }
    }
    WrapUnit* unit = &units[0];
    if (unit_of[i] >= 0) {
      units.emplace_back();
      unit = &units.back();
      unit->name = layer.name;
    }
    unit->layers.push_back(static_cast<int>(i));
    const std::vector<int> parameters = parameters_of(layer);
    unit->parameters.insert(unit->parameters.end(), parameters.begin(), parameters.end());
  }
  return units;
}

}  // namespace stepcast::fsdp1
