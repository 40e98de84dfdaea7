// From a composition to tensors and layers (models/composition.hpp).
//
// Tensors stand in registration order, layers in execution order. The two differ where a module is
// registered before others that run earlier: OPT's last norm lies between its tables and its
// blocks.

#include <map>

#include "base/error.hpp"
#include "models/composition.hpp"

namespace stepcast {
namespace {

class Composer {
 public:
  Composer(const std::string& name, const Architecture& architecture)
      : composition_(*architecture.composition) {
    model_.name = name;
    model_.architecture = architecture;
    model_.approximations = composition_.approximations;
  }

  Model take() && {
    const std::vector<Section>& segments = composition_.segments;
    std::vector<std::vector<Layer>> layers(segments.size());
    bool blocks_met = false;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].kind == LayerKind::block && !blocks_met) {
        blocks_met = true;
        for (std::size_t late = i; late < segments.size(); ++late) {
          if (segments[late].registered_early) add_single(segments[late], late, layers[late]);
        }
      }
      if (segments[i].kind == LayerKind::block) {
        add_blocks(segments[i], i, layers[i]);
      } else if (!segments[i].registered_early) {
        add_single(segments[i], i, layers[i]);
      }
    }
    for (std::vector<Layer>& of_segment : layers) {
      for (Layer& layer : of_segment) model_.layers.push_back(layer);
    }
    number_classes();
    if (model_.architecture.tied_embeddings) tie();
    return std::move(model_);
  }

 private:
  // Classes by (segment, kind), numbered in order of execution afterwards.
  static int class_key(std::size_t segment, int kind) {
    return static_cast<int>(segment) * 64 + kind;
  }

  void add_single(const Section& segment, std::size_t number, std::vector<Layer>& layers) {
    Layer& layer = layers.emplace_back();
    layer.name = Name(segment.name);
    layer.kind = segment.kind;
    layer.shape_class = class_key(number, 0);
    add_tensors(layer, segment.prefix, segment.modules, {});
  }

  void add_blocks(const Section& segment, std::size_t number, std::vector<Layer>& layers) {
    std::int64_t total = 0;
    for (const Section& s : composition_.segments)
      total += static_cast<std::int64_t>(s.order.size());
    const auto own = static_cast<std::int64_t>(segment.order.size());
    const std::int64_t count = own == total ? model_.architecture.layers : own;
    for (std::int64_t i = 0; i < count; ++i) {
      const int kind = kind_at(segment, i, count);
      Layer& layer = layers.emplace_back();
      layer.name = Name(segment.name + std::to_string(i));
      layer.kind = LayerKind::block;
      layer.shape_class = class_key(number, kind);
      layer.block_kind = kind;
      const BlockKind& k = composition_.kinds[static_cast<std::size_t>(kind)];
      add_tensors(layer, segment.prefix + std::to_string(i) + ".", k.modules, k);
    }
  }

  void add_tensors(Layer& layer, const std::string& prefix, const std::vector<Module>& modules,
                   const BlockKind& kind) {
    layer.first_parameter = static_cast<int>(model_.parameters.size());
    for (ModuleTensor& tensor : tensors_of(modules, kind, model_.architecture)) {
      Parameter& parameter = model_.parameters.emplace_back();
      parameter.name = Name(prefix + tensor.name);
      parameter.shape = std::move(tensor.shape);
    }
    layer.parameter_count = static_cast<int>(model_.parameters.size()) - layer.first_parameter;
  }

  void number_classes() {
    std::map<int, int> classes;
    for (Layer& layer : model_.layers) {
      layer.shape_class =
          classes.emplace(layer.shape_class, static_cast<int>(classes.size())).first->second;
    }
    model_.shape_classes = static_cast<int>(classes.size());
  }

  void tie() {
    int layer = 0;
    for (const Section& segment : composition_.segments) {
      for (std::size_t i = 0; i < segment.modules.size(); ++i) {
        if (segment.modules[i].part != Part::tokens) continue;
        int tensor = 0;
        for (const ModuleTensor& t : tensors_of(segment.modules, {}, model_.architecture)) {
          if (static_cast<std::size_t>(t.module) == i) break;
          ++tensor;
        }
        model_.layers.back().tied_parameter =
            model_.layers[static_cast<std::size_t>(layer)].first_parameter + tensor;
      }
      layer += segment.kind == LayerKind::block ? blocks_of(segment) : 1;
    }
  }

  int blocks_of(const Section& segment) const {
    int count = 0;
    for (const Layer& layer : model_.layers) {
      if (layer.kind == LayerKind::block && layer.name.str().starts_with(segment.name)) ++count;
    }
    return count;
  }

  const Composition& composition_;
  Model model_;
};

}  // namespace

Model compose(const std::string& name, const Architecture& architecture) {
  return Composer(name, architecture).take();
}

}  // namespace stepcast
