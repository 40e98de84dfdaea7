// A block that is put together from parts: its branches, their norms and residuals.

#include "models/composed_block.hpp"

#include <algorithm>

namespace stepcast {

void ComposedBlock::write(LayerWork& work) {
  run();
  tape_.write(work.forward, work.backward);
  mark_the_rest(work);
  memory(work);
  recompute(work);
}

int ComposedBlock::find(Part part, bool bias, int expert) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ModuleTensor& t = tensors_[i];
    if (t.bias == bias && t.expert == expert &&
        k_.modules[static_cast<std::size_t>(t.module)].part == part) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int ComposedBlock::weight(Part part) const { return find(part, false); }

int ComposedBlock::bias(Part part) const { return find(part, true); }

const Module* ComposedBlock::module(Part part) const {
  for (const Module& m : k_.modules) {
    if (m.part == part) return &m;
  }
  return nullptr;
}

bool ComposedBlock::has(Part part) const { return module(part) != nullptr; }

// All tensors of a part, the last expert's first, a bias before its weight.
std::vector<int> ComposedBlock::all_of(Part part) const {
  std::vector<int> list;
  for (std::size_t i = tensors_.size(); i-- > 0;) {
    if (k_.modules[static_cast<std::size_t>(tensors_[i].module)].part == part) {
      list.push_back(static_cast<int>(i));
    }
  }
  return list;
}

void ComposedBlock::append(std::vector<int>& list, Part part) const {
  const std::vector<int> more = all_of(part);
  list.insert(list.end(), more.begin(), more.end());
}

// Every parameter has a gradient at the end, what no kernel of its own makes included (a
// router's correction, a layer's scale).
void ComposedBlock::mark_the_rest(LayerWork& work) const {
  std::vector<bool> marked(tensors_.size(), false);
  for (const BackwardKernel& b : work.backward) {
    for (const int i : b.ready) marked[static_cast<std::size_t>(i)] = true;
  }
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (!marked[i]) work.backward.back().ready.push_back(static_cast<int>(i));
  }
}

bool ComposedBlock::attends() const {
  return has(Part::q) || has(Part::qkv) || has(Part::q_b) || has(Part::kv_a);
}

bool ComposedBlock::mixes() const { return k_.state > 0 && has(Part::linear); }

bool ComposedBlock::has_mlp() const { return has(Part::down) || has_experts(); }

bool ComposedBlock::has_experts() const {
  return has(Part::expert_down) || has(Part::experts_down);
}

bool ComposedBlock::latent() const { return has(Part::kv_a); }

bool ComposedBlock::post_norm() const { return k_.arrangement == Arrangement::post_norm; }

void ComposedBlock::linear(const char* name, Part part) {
  const std::vector<std::int64_t> shape = shape_of(*module(part), k_, a_);
  tape_.linear(name, shape[1], shape[0], weight(part), bias(part));
}

int ComposedBlock::attention_readers() const {
  if (mixes()) return std::max(1, static_cast<int>(count(Part::linear)) - 1);
  int readers = has(Part::qkv) ? 1 : latent() ? 2 : 3;
  return readers + static_cast<int>(count(Part::linear));  // an indexer's
}

int ComposedBlock::mlp_readers() const {
  int readers = 0;
  if (has_experts()) {
    readers = 2;  // router, rows of the experts
    if (has(Part::shared_up)) ++readers;
    if (has(Part::shared_gate)) ++readers;
    if (has(Part::shared_switch)) ++readers;
  }
  if (has(Part::gate_up)) ++readers;
  if (has(Part::gate)) ++readers;
  if (has(Part::up)) ++readers;
  return readers;
}

std::int64_t ComposedBlock::count(Part part) const {
  return std::count_if(k_.modules.begin(), k_.modules.end(),
                       [&](const Module& m) { return m.part == part; });
}

void ComposedBlock::run() {
  if (k_.arrangement == Arrangement::parallel) return parallel();
  const bool first = attends() || mixes();
  const bool cross = has(Part::cross_q);
  if (first) {
    branch(Part::norm1, Part::post1, attention_readers(), !cross && !has_mlp(),
           [&] { return mixes() ? mixer() : attention(); });
  }
  if (cross) {
    branch(Part::cross_norm, Part::count, 1, !has_mlp(), [&] { cross_attention(); });
  }
  if (has_mlp()) {
    const Part norm = has(Part::norm2) || post_norm() ? Part::norm2 : Part::norm1;
    branch(first && !has(Part::norm2) && !post_norm() ? Part::count : norm, Part::post2,
           mlp_readers(), true, [&] { mlp(); });
  }
}

template <typename Body>
void ComposedBlock::branch(Part norm, Part post, int readers, bool last, Body body) {
  if (post_norm()) {
    tape_.fork(2, width_, z_.stream);
    tape_.fork(readers, width_, z_.element);
    body();
    end_branch(fused_);
    norm_of(norm, z_.stream, fused_, fused_ ? 2 : 1, false);
    keep_norm(z_.stream * width_, last ? 0 : z_.element * width_);
    return;
  }
  tape_.fork(2, width_, z_.stream);
  if (norm != Part::count && has(norm)) {
    norm_of(norm, z_.stream, fused_ && branches_ > 0, readers, fused_);
    keep_norm(z_.stream * width_, z_.element * width_);
  } else {
    tape_.keep(z_.element * width_);  // the branch's input is its first product's
  }
  tape_.fork(readers, width_, z_.element);
  body();
  if (post != Part::count && has(post)) {
    norm_of(post, z_.element, false, 1, false);
    tape_.keep(z_.element * width_);
    ends_with_norm_ = true;
  } else {
    ends_with_norm_ = false;
  }
  end_branch(fused_ && !last);
  ++branches_;
}

void ComposedBlock::parallel() {
  const bool two = has(Part::norm2);
  tape_.fork(two ? 3 : 2, width_, z_.stream);
  const int mlp_count = mlp_readers();
  norm_of(Part::norm1, z_.stream, false, attention_readers() + (two ? 0 : mlp_count), fused_);
  keep_norm(z_.stream * width_, z_.element * width_);
  tape_.fork(attention_readers() + (two ? 0 : mlp_count), width_, z_.element);
  attention();
  if (two) {
    norm_of(Part::norm2, z_.stream, false, mlp_count, fused_);
    keep_norm(0, z_.element * width_);  // of the same input
    tape_.fork(mlp_count, width_, z_.element);
  }
  mlp();
  end_branch(fused_);
  end_branch(false);
  residuals_ = fused_ ? 1 : 2;
}

void ComposedBlock::norm_of(Part part, Bytes input, bool added, int gradients, bool joined) {
  const Module* m = module(part);
  if (m == nullptr) return;
  const char* name = part == Part::norm1   ? "norm1"
                     : part == Part::norm2 ? "norm2"
                     : part == Part::post1 ? "post_norm1"
                     : part == Part::post2 ? "post_norm2"
                                           : "cross_norm";
  tape_.norm(name, z_.tokens, z_.hidden, input, weight(part), bias(part), added, gradients, joined);
  Sizes z = z_;
  const NormNames names(name);
  if (part != Part::post1 && part != Part::post2) {
    norm_forward(z, Norm{names, z_.tokens, z_.hidden, input, weight(part), bias(part)}, again_);
  }
}

void ComposedBlock::keep_norm(Bytes input, Bytes output) {
  tape_.keep(input + output);
  norm_outputs_ += output;
}

// Dropout and residual after a branch; `joined`: the norm that follows adds.
void ComposedBlock::end_branch(bool joined) {
  std::vector<Kernel> forward;
  std::vector<BackwardKernel> backward;
  static const Name dropout{"dropout"}, dropout_back{"dropout.backward"};
  static const Name residual{"residual_add"}, enter{"branch_grad_cast"};
  if (a_.residual_dropout) {
    forward.push_back(dropout_forward(z_, dropout, width_, z_.element));
    tape_.keep(width_);
  }
  if (!joined) {
    forward.push_back(
        memory_bound(residual, z_.dtype, (z_.stream + z_.element) * width_, z_.stream * width_));
  }
  if (z_.stream > z_.element) {
    backward.push_back(
        marks_nothing(memory_bound(enter, z_.dtype, z_.stream * width_, z_.element * width_)));
  }
  if (a_.residual_dropout) {
    backward.push_back(marks_nothing(dropout_backward(z_, dropout_back, width_, z_.element)));
  }
  tape_.pair(std::move(forward), std::move(backward));
}

void composed_block_work(const Sizes& sizes, const BlockKind& kind, LayerWork& work) {
  ComposedBlock(sizes, kind).write(work);
}

}  // namespace stepcast
