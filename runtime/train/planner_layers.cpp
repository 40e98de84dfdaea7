// The layers and the optimizer of a plan: which views are activations, which tensors are there to
// compute with, which gradients to compute, and where AdamW finds each element.
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

OpPlan Planner::plan_layer(const Op& op) {
  LayerPlan plan;
  const std::string unit =
      op.unit < 0 ? "" : schedule_.units[static_cast<std::size_t>(op.unit)].str();
  const auto layer = layer_of_unit_.find(unit);
  if (layer == layer_of_unit_.end()) fail(op, "is no layer of the model that is trained");
  plan.layer = layer->second;
  plan.pass = op.verb == Name("recompute")  ? LayerPass::recompute
              : op.phase == Phase::backward ? LayerPass::backward
                                            : LayerPass::forward;
  const auto name_of = [&](const Extent& e) -> const std::string& {
    return schedule_.buffers[static_cast<std::size_t>(e.buffer)].name.str();
  };
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
    } else if (name == "tied_gradient") {
      plan.tied = parts_of(shape_.table(), sources_of({e}));
    } else {
      tensors.push_back(e);
    }
  }
  const std::vector<Source> sources = sources_of(tensors);
  for (int t = 0; t < shape_.tensors(); ++t) {
    TensorParts parts{t, parts_of(t, sources)};
    if (!parts.parts.empty() && complete(parts)) plan.weights.push_back(std::move(parts));
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

// ---- The optimizer ------------------------------------------------------------------------------

// At which position of the state each element's moments are: the order of the gradients when the
// optimizer first ran, whatever the order is later (DDP rebuilds its buckets).
const MasterCopy& Planner::positions_of(const Extent& state, const std::vector<Extent>& gradients) {
  MasterCopy& positions = positions_[state.buffer];
  if (!positions.runs.empty()) return positions;
  positions.state = state.buffer;
  std::int64_t before = 0;
  for (const Extent& e : gradients) {
    for (Run run : contents_.within(e.buffer, e.begin, e.end)) {
      run.at += before - e.begin;
      positions.runs.push_back(run);
    }
    before += e.count();
  }
  // The third part of the state, where there is one.
  const std::int64_t elements = state.count();
  if (elements == 3 * before) {
    MasterCopy master = positions;
    for (Run& run : master.runs) run.at += 2 * before;
    masters_.push_back(std::move(master));
  }
  return positions;
}

OpPlan Planner::plan_adam(const Op& op) {
  std::vector<Extent> states;
  std::vector<Extent> gradients;
  std::vector<Extent> parameters;
  std::vector<Extent> all = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  all.insert(all.end(), writes.begin(), writes.end());
  for (const Extent& e : all) {
    const bool read = e.view < op.reads.count;
    const BufferKind kind = schedule_.buffers[static_cast<std::size_t>(e.buffer)].kind;
    if (kind == BufferKind::optimizer_state) {
      if (read) states.push_back(e);
    } else if (kind == BufferKind::parameter) {
      if (!read) parameters.push_back(e);
    } else if (read) {
      gradients.push_back(e);
    }
  }
  if (states.size() != gradients.size() && states.size() != 1) {
    fail(op, "has states for some of its gradients");
  }
  // It updates in place: what it writes, it reads.
  for (const Extent& e : all) {
    if (e.view < op.reads.count) continue;
    const auto read = std::find_if(all.begin(), all.begin() + op.reads.count, [&](const Extent& r) {
      return r.buffer == e.buffer && r.begin == e.begin && r.end == e.end;
    });
    if (read == all.begin() + op.reads.count) fail(op, "writes a view that it does not read");
  }
  for (const Extent& e : all) {
    const BufferKind kind = schedule_.buffers[static_cast<std::size_t>(e.buffer)].kind;
    const bool updated = kind == BufferKind::optimizer_state || kind == BufferKind::parameter;
    if (e.view >= op.reads.count || !updated) continue;
    const auto written =
        std::find_if(all.begin() + op.reads.count, all.end(), [&](const Extent& w) {
          return w.buffer == e.buffer && w.begin == e.begin && w.end == e.end;
        });
    if (written == all.end()) fail(op, "reads a view that it does not update");
  }
  // Where a parameter's elements lie in the buffers it writes, wherever the view is.
  std::vector<Source> places;
  for (const Extent& e : parameters) {
    if (layout_of(e.buffer) == nullptr) fail(op, "writes parameters without a layout");
    for (const Run& run : layout_runs(e.buffer)) places.push_back({run, e.place(run.at)});
  }
  AdamPlan plan;
  for (std::size_t s = 0; s < states.size(); ++s) {
    const std::vector<Extent> mine =
        states.size() == 1 ? gradients : std::vector<Extent>{gradients[s]};
    std::int64_t total = 0;
    for (const Extent& e : mine) total += e.count();
    const Extent& state = states[s];
    const MasterCopy& positions = positions_of(state, mine);
    const bool master = state.count() == 3 * total;
    if (state.count() != 2 * total && !master) fail(op, "its state has another size");
    const std::vector<Source> sources = sources_of(mine);
    for (const Run& at : positions.runs) {
      std::int64_t found = 0;
      for (const Part& g : parts_of(at.tensor, sources)) {
        const std::int64_t begin = std::max(g.first, at.first);
        const std::int64_t end = std::min(g.first + g.count, at.first + at.count);
        if (begin >= end) continue;
        found += end - begin;
        const std::int64_t position = state.begin + at.at + begin - at.first;
        AdamPart part;
        part.count = end - begin;
        part.gradient = {g.place.view, g.place.dtype, g.place.at + begin - g.first};
        part.first_moment = state.place(position);
        part.second_moment = state.place(position + total);
        part.master.view = -1;
        part.parameter.view = -1;
        if (master) part.master = state.place(position + 2 * total);
        if (parameters.empty()) {
          plan.parts.push_back(part);
          continue;
        }
        for (const Part& p : parts_of(at.tensor, places)) {
          const std::int64_t from = std::max(p.first, begin);
          const std::int64_t to = std::min(p.first + p.count, end);
          if (from >= to) continue;
          AdamPart piece = part;
          const std::int64_t skip = from - begin;
          piece.count = to - from;
          for (Place* place :
               {&piece.gradient, &piece.first_moment, &piece.second_moment, &piece.master}) {
            place->at += skip;
          }
          piece.parameter = {p.place.view, p.place.dtype, p.place.at + from - p.first};
          plan.parts.push_back(piece);
        }
      }
      if (found != at.count) fail(op, "a gradient that it needs has not come");
    }
  }
  return plan;
}

OpPlan Planner::plan_from_master(const Op& op) {
  MovePlan plan;
  std::vector<Extent> reads = reads_of(op);
  for (const Extent& state : reads) {
    const auto positions = positions_.find(state.buffer);
    if (positions == positions_.end()) fail(op, "comes before the optimizer");
    for (const Extent& to : writes_of(op)) {
      if (layout_of(to.buffer) == nullptr) fail(op, "writes parameters without a layout");
      const std::int64_t master = state.count() / 3 * 2;
      std::vector<Source> sources;
      for (const Run& run : positions->second.runs) {
        sources.push_back({run, state.place(state.begin + run.at + master)});
      }
      for (const Run& run : layout_runs(to.buffer)) {
        for (const Part& p : parts_of(run.tensor, sources)) {
          const std::int64_t begin = std::max(p.first, run.first);
          const std::int64_t end = std::min(p.first + p.count, run.first + run.count);
          if (begin >= end) continue;
          const Place from{p.place.view, p.place.dtype, p.place.at + begin - p.first};
          plan.moves.push_back({from, to.place(run.at + begin - run.first), end - begin, 1, false});
        }
      }
    }
  }
  return plan;
}

}  // namespace stepcast::runtime
