// The layers of a plan: which views are activations, which tensors are there to compute with, and
// which gradients to compute.
//
// A strategy may run a layer in pieces (DDP cuts a backward where a bucket is complete, ZeRO-3 at
// its modules). A piece does what its tensors allow: with W1 the first half of a block, with W2 the
// second, with both everything; and it computes the gradients that its written views are for.

#include <algorithm>
#include <string_view>

#include "runtime/train/planner.hpp"

namespace stepcast::runtime {
namespace {

bool starts(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace

std::vector<Part> Planner::parts_of(int tensor, const std::vector<Source>& sources) const {
  std::vector<Part> parts;
  for (const Source& source : sources) {
    if (source.run.tensor != tensor) continue;
    parts.push_back({source.run.first, source.run.count, source.place});
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.first < b.first; });
  return parts;
}

bool Planner::complete(const TensorParts& tensor) const {
  std::int64_t next = 0;
  for (const Part& part : tensor.parts) {
    if (part.first > next) return false;
    next = std::max(next, part.first + part.count);
  }
  return next == shape_.elements(tensor.tensor);
}

Activation Planner::activation(const Extent& e) const {
  return {e.view, e.dtype, e.begin, e.count() * bytes_per_element(e.dtype)};
}

Activation Planner::exact(const Extent& e) const {
  Activation a = activation(e);
  a.exact = true;
  return a;
}

OpPlan Planner::plan_layer(const Op& op) {
  LayerPlan plan;
  const std::string unit =
      op.unit < 0 ? "" : schedule_.units[static_cast<std::size_t>(op.unit)].str();
  if (unit == "loss") return plan_loss(op);
  const auto layer = layer_of_unit_.find(unit);
  if (layer == layer_of_unit_.end()) fail(op, "is no layer of the model that is trained");
  plan.layer = layer->second;
  plan.pass = op.verb == Name("recompute")  ? LayerPass::recompute
              : op.phase == Phase::backward ? LayerPass::backward
                                            : LayerPass::forward;
  std::vector<Extent> tensors;
  for (const Extent& e : reads_of(op)) {
    const std::string& name = name_of(e);
    if (name == "tokens") {
      plan.tokens = activation(e);
    } else if (starts(name, "hidden.")) {
      plan.input = activation(e);
    } else if (starts(name, "saved.")) {
      plan.saved = activation(e);
    } else if (starts(name, "recomputed.")) {
      plan.recomputed = activation(e);
    } else if (starts(name, "grad_hidden.")) {
      plan.grad_in = activation(e);
    } else if (starts(name, "logits_gradient")) {
      plan.grad_in = exact(e);
    } else if (name == "tied_gradient") {
      plan.tied = parts_of(shape_.table(), sources_of({e}));
    } else {
      tensors.push_back(e);
    }
  }
  const std::vector<Source> sources = sources_of(tensors);
  for (int t = 0; t < shape_.tensors(); ++t) {
    TensorParts parts{t, parts_of(t, sources)};
    if (parts.parts.empty()) continue;
    const bool whole = complete(parts);
    if (!whole && shape_.uses(plan.layer, t)) fail(op, "reads a part of a tensor");
    if (whole) plan.weights.push_back(std::move(parts));
  }
  for (const Extent& e : tensors) {
    // ZeRO-3 hands every layer all of the parameters that are never released.
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(e.buffer)];
    if (buffer.persistent && e.begin == 0 &&
        e.count() * bytes_per_element(e.dtype) == buffer.bytes) {
      continue;
    }
    const std::vector<Run> runs = contents_.within(e.buffer, e.begin, e.end);
    const bool used = std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
      return shape_.uses(plan.layer, run.tensor);
    });
    if (!used) fail(op, "reads " + name_of(e) + ", which has no tensor of the layer");
  }
  for (const Extent& e : writes_of(op)) {
    const std::string& name = name_of(e);
    if (starts(name, "hidden.")) {
      plan.hidden = activation(e);
    } else if (starts(name, "saved.")) {
      plan.saved = activation(e);
    } else if (starts(name, "recomputed.")) {
      plan.recomputed = activation(e);
    } else if (starts(name, "grad_hidden.")) {
      plan.grad_out = activation(e);
    } else if (starts(name, "forward_workspace.") || starts(name, "backward_workspace.")) {
      plan.workspace = activation(e);
      plan.scratch.push_back(plan.workspace);
    } else if (layout_of(e.buffer) != nullptr) {
      for (const Run& run : layout_runs(e.buffer)) {
        const Run part = cut(run, e.begin, e.end);
        if (part.count <= 0) continue;
        plan.gradients.push_back({part.tensor, {{part.first, part.count, e.place(part.at)}}});
        contents_.put(e.buffer, part.at, part.at + part.count, {part});
      }
    } else {
      fail(op, "writes " + name + ", of which nobody has said what it holds");
    }
  }
  return plan;
}

// nn.DataParallel: the loss of the gathered batch on GPU 0, or of a GPU's own on each.
OpPlan Planner::plan_loss(const Op& op) const {
  LossPlan plan;
  plan.backward = op.phase == Phase::backward;
  plan.upstream.view = -1;
  for (const Extent& e : reads_of(op)) {
    const std::string& name = name_of(e);
    if (name == "labels") {
      plan.labels = activation(e);
    } else if (name == "gathered_logits" || starts(name, "hidden.")) {
      plan.logits = exact(e);
    } else if (name == "saved.loss") {
      plan.saved = activation(e);
    } else if (name == "losses" || name == "loss_gradient") {
      plan.upstream = e.place(e.begin);
    } else {
      fail(op, "reads " + name + ", which is no loss's");
    }
  }
  for (const Extent& e : writes_of(op)) {
    const std::string& name = name_of(e);
    if (name == "saved.loss") {
      plan.saved = activation(e);
    } else if (name == "logits_gradient") {
      plan.gradient = exact(e);
    } else if (name.find("workspace.") != std::string::npos) {
      plan.scratch.push_back(activation(e));
    } else {
      fail(op, "writes " + name + ", which is no loss's");
    }
  }
  return plan;
}

}  // namespace stepcast::runtime
