// What a block that is put together from parts does for one micro-batch (models/composition.hpp),
// and what it keeps. The rules are block_work.cpp's and block_memory.cpp's; a tape (tape.hpp) puts
// the backward in order.
//
//   attention   q, k, v apart or fused; latent: queries and keys are made from compressed rows, and
//               one rotary key is joined to every head's; a window or chunk leaves pairs out
//   cross       queries of this sequence, keys and values of the encoder's output
//   experts     router, top k, rows copied by expert, grouped products, rows added back
//               (experts.hpp); shared experts run on every token beside them
//   mixer       state-space layers and linear attention: their projections as products, what lies
//               between (convolution, scan) as a kernel bound by memory that reads 4 and writes 2
//               elements of its inner width, by rule of thumb
//
// Latent attention multiplies heads of d_qk with keys and of d_v with values: one kernel of heads
// of (d_qk + d_v) / 2, whose FLOPs are the same. A window of w in s tokens leaves w s - w (w - 1) /
// 2 pairs: an attention without mask of as many keys a query, where fused; unfused software
// computes all scores.
//
// Cost: about 80 kernels a kind. Tested by tests/unit/models/composition_test.cpp.

#include <algorithm>

#include "models/composition.hpp"
#include "models/tape.hpp"

namespace stepcast {
namespace {

class ComposedBlock {
 public:
  ComposedBlock(const Sizes& sizes, const BlockKind& kind)
      : z_(sizes),
        a_(*sizes.architecture),
        w_(*sizes.workload),
        k_(kind),
        tape_(z_),
        fused_(w_.fused_elementwise),
        width_(z_.tokens * z_.hidden),
        tensors_(tensors_of(kind.modules, kind, a_)) {}

  void write(LayerWork& work) {
    run();
    tape_.write(work.forward, work.backward);
    mark_the_rest(work);
    memory(work);
    recompute(work);
  }

 private:
  // ---- tensors ----------------------------------------------------------------------------------
  int find(Part part, bool bias, int expert = -1) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const ModuleTensor& t = tensors_[i];
      if (t.bias == bias && t.expert == expert &&
          k_.modules[static_cast<std::size_t>(t.module)].part == part) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }
  int weight(Part part) const { return find(part, false); }
  int bias(Part part) const { return find(part, true); }
  const Module* module(Part part) const {
    for (const Module& m : k_.modules) {
      if (m.part == part) return &m;
    }
    return nullptr;
  }
  bool has(Part part) const { return module(part) != nullptr; }

  // All tensors of a part, the last expert's first, a bias before its weight.
  std::vector<int> all_of(Part part) const {
    std::vector<int> list;
    for (std::size_t i = tensors_.size(); i-- > 0;) {
      if (k_.modules[static_cast<std::size_t>(tensors_[i].module)].part == part) {
        list.push_back(static_cast<int>(i));
      }
    }
    return list;
  }
  void append(std::vector<int>& list, Part part) const {
    const std::vector<int> more = all_of(part);
    list.insert(list.end(), more.begin(), more.end());
  }

  // Every parameter has a gradient at the end, what no kernel of its own makes included (a
  // router's correction, a layer's scale).
  void mark_the_rest(LayerWork& work) const {
    std::vector<bool> marked(tensors_.size(), false);
    for (const BackwardKernel& b : work.backward) {
      for (const int i : b.ready) marked[static_cast<std::size_t>(i)] = true;
    }
    for (std::size_t i = 0; i < marked.size(); ++i) {
      if (!marked[i]) work.backward.back().ready.push_back(static_cast<int>(i));
    }
  }

  // ---- parts ------------------------------------------------------------------------------------
  bool attends() const {
    return has(Part::q) || has(Part::qkv) || has(Part::q_b) || has(Part::kv_a);
  }
  bool mixes() const { return k_.state > 0 && has(Part::linear); }
  bool has_mlp() const { return has(Part::down) || has_experts(); }
  bool has_experts() const { return has(Part::expert_down) || has(Part::experts_down); }
  bool latent() const { return has(Part::kv_a); }
  bool post_norm() const { return k_.arrangement == Arrangement::post_norm; }

  void linear(const char* name, Part part) {
    const std::vector<std::int64_t> shape = shape_of(*module(part), k_, a_);
    tape_.linear(name, shape[1], shape[0], weight(part), bias(part));
  }

  int attention_readers() const {
    if (mixes()) return std::max(1, static_cast<int>(count(Part::linear)) - 1);
    int readers = has(Part::qkv) ? 1 : latent() ? 2 : 3;
    return readers + static_cast<int>(count(Part::linear));  // an indexer's
  }
  int mlp_readers() const {
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
  std::int64_t count(Part part) const {
    return std::count_if(k_.modules.begin(), k_.modules.end(),
                         [&](const Module& m) { return m.part == part; });
  }

  // ---- the whole --------------------------------------------------------------------------------
  void run() {
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
  void branch(Part norm, Part post, int readers, bool last, Body body) {
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

  void parallel() {
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

  void norm_of(Part part, Bytes input, bool added, int gradients, bool joined) {
    const Module* m = module(part);
    if (m == nullptr) return;
    const char* name = part == Part::norm1   ? "norm1"
                       : part == Part::norm2 ? "norm2"
                       : part == Part::post1 ? "post_norm1"
                       : part == Part::post2 ? "post_norm2"
                                             : "cross_norm";
    tape_.norm(name, z_.tokens, z_.hidden, input, weight(part), bias(part), added, gradients,
               joined);
    Sizes z = z_;
    const NormNames names(name);
    if (part != Part::post1 && part != Part::post2) {
      norm_forward(z, Norm{names, z_.tokens, z_.hidden, input, weight(part), bias(part)}, again_);
    }
  }
  void keep_norm(Bytes input, Bytes output) {
    tape_.keep(input + output);
    norm_outputs_ += output;
  }

  // Dropout and residual after a branch; `joined`: the norm that follows adds.
  void end_branch(bool joined) {
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

  // ---- attention --------------------------------------------------------------------------------
  void attention() {
    const std::int64_t queries = z_.tokens * k_.heads * k_.head_size;
    const std::int64_t keys = z_.tokens * k_.kv_heads * k_.head_size;
    const std::int64_t values = z_.tokens * k_.kv_heads * k_.value_size;
    const std::int64_t results = z_.tokens * k_.heads * k_.value_size;
    for (std::size_t i = 0; i < tensors_.size(); ++i) index_product(static_cast<int>(i));
    if (latent()) {
      latent_rows();
    } else if (has(Part::qkv)) {
      linear("qkv_proj", Part::qkv);
      tape_.keep(z_.element * (queries + keys + values));
    } else {
      linear("q_proj", Part::q);
      linear("k_proj", Part::k);
      linear("v_proj", Part::v);
      tape_.keep(z_.element * (queries + keys + values + (k_.query_gate ? queries : 0)));
    }
    head_norm("q_norm", Part::q_norm, k_.heads, queries);
    head_norm("k_norm", Part::k_norm, k_.kv_heads, keys);
    if (k_.rotary > 0 && !latent()) {
      rotary(z_.tokens * (k_.heads + k_.kv_heads) * k_.rotary);
    }
    attend(z_.seq, k_.causal, "attention", Part::tensor);  // sinks, relative biases
    tape_.keep(z_.element * results);
    if (k_.query_gate) {
      static const Name gate{"attention_gate"}, gate_back{"attention_gate.backward"};
      tape_.pair(elementwise(z_, gate, 3 * results, 2 * results, 2),
                 elementwise(z_, gate_back, 5 * results, 3 * results, 3));
      tape_.keep(z_.element * results);
    }
    linear("o_proj", Part::o);
  }

  // An indexer of sparse attention: products beside the queries, of whatever shape.
  void index_product(int tensor) {
    const ModuleTensor& t = tensors_[static_cast<std::size_t>(tensor)];
    if (t.bias || k_.modules[static_cast<std::size_t>(t.module)].part != Part::linear) return;
    tape_.linear("indexer", t.shape[1], t.shape[0], tensor, -1);
    tape_.keep(z_.element * z_.tokens * t.shape[0]);
  }

  void latent_rows() {
    const std::int64_t queries = z_.tokens * k_.heads * k_.head_size;
    const std::int64_t made = z_.tokens * k_.heads * (k_.head_size - k_.rope_size + k_.value_size);
    if (has(Part::q_a)) {
      linear("q_a_proj", Part::q_a);
      if (has(Part::q_a_norm)) {
        tape_.norm("q_a_norm", z_.tokens, k_.q_rank, z_.element, weight(Part::q_a_norm),
                   bias(Part::q_a_norm));
        tape_.keep(z_.element * z_.tokens * k_.q_rank);
      }
      tape_.keep(z_.element * z_.tokens * k_.q_rank);
      linear("q_b_proj", Part::q_b);
    } else {
      linear("q_proj", Part::q);
    }
    linear("kv_a_proj", Part::kv_a);
    if (has(Part::kv_a_norm)) {
      tape_.norm("kv_a_norm", z_.tokens, k_.kv_rank, z_.element, weight(Part::kv_a_norm),
                 bias(Part::kv_a_norm));
      tape_.keep(z_.element * z_.tokens * k_.kv_rank);
    }
    tape_.keep(z_.element * z_.tokens * (k_.kv_rank + k_.rope_size));
    linear("kv_b_proj", Part::kv_b);
    rotary(z_.tokens * (k_.heads + 1) * k_.rope_size);
    // Queries put together again; the one rotary key copied to every head's.
    static const Name join{"latent_join"}, join_back{"latent_join.backward"};
    tape_.pair(elementwise(z_, join, 2 * queries, 2 * queries, 2),
               elementwise(z_, join_back, 2 * queries, 2 * queries, 3));
    tape_.keep(z_.element * (2 * queries + made));  // q, k, and v as part of what kv_b made
  }

  void head_norm(const char* name, Part part, std::int64_t heads, std::int64_t elements) {
    const Module* m = module(part);
    if (m == nullptr) return;
    const std::int64_t width = m->wide ? heads * k_.head_size : k_.head_size;
    tape_.norm(name, elements / width, width, z_.element, weight(part), bias(part));
    tape_.keep(z_.element * elements);
  }

  // block_work.cpp has the counts.
  void rotary(std::int64_t n) {
    static const Name name{"rope"}, back{"rope.backward"};
    const auto kernel = [&](Name which) {
      return fused_ ? elementwise(z_, which, n, n)
                    : elementwise(z_, which, 11 * n / 2, 9 * n / 2, 10);
    };
    tape_.pair(kernel(name), kernel(back));
  }

  void attend(std::int64_t keys, bool causal, const char* name, Part tensors) {
    std::int64_t batch = z_.batch;
    std::int64_t queries = z_.seq;
    const std::int64_t size = (k_.head_size + k_.value_size) / 2;
    if (w_.fused_attention && k_.chunk > 0 && k_.chunk < queries && keys == queries) {
      batch *= ceil_div(queries, k_.chunk);
      queries = keys = k_.chunk;
    }
    if (w_.fused_attention && causal && k_.window > 0 && k_.window < keys) {
      const std::int64_t pairs = k_.window * keys - k_.window * (k_.window - 1) / 2;
      keys = std::max<std::int64_t>(1, pairs / queries);
      causal = false;
    }
    const std::int64_t scores = z_.tokens * k_.heads * keys;
    std::vector<Kernel> forward;
    std::vector<BackwardKernel> backward;
    const std::string text(name);
    forward.push_back(stepcast::attention(text, KernelKind::attention_forward, z_.dtype, batch,
                                          k_.heads, k_.kv_heads, queries, keys, size, causal,
                                          w_.fused_attention));
    const bool drops = a_.attention_dropout && !w_.fused_attention;
    if (drops) {
      forward.push_back(dropout_forward(z_, text + "_dropout", scores, z_.element));
      backward.push_back(
          marks_nothing(dropout_backward(z_, text + "_dropout.backward", scores, z_.element)));
    }
    core_ = forward;
    backward.push_back(marks_nothing(stepcast::attention(
        text + ".backward", KernelKind::attention_backward, z_.dtype, batch, k_.heads, k_.kv_heads,
        queries, keys, size, causal, w_.fused_attention)));
    if (!has(Part::linear)) append(backward.back().ready, tensors);
    tape_.pair(std::move(forward), std::move(backward));

    Bytes softmax = 4 * z_.tokens * k_.heads;
    if (!w_.fused_attention) {
      softmax = z_.stream * scores;
      if (drops) softmax += (z_.element + 1) * scores;
      if (!drops && z_.casts) softmax += z_.element * scores;
      scores_ = std::max(scores_, z_.stream * scores);
    }
    softmax_ += softmax;
    tape_.keep(softmax);
  }

  void cross_attention() {
    const std::int64_t seen = k_.memory > 0 ? k_.memory : z_.seq;
    const std::int64_t rows = z_.batch * seen;
    const auto over_memory = [&](const char* name, Part part) {
      const std::vector<std::int64_t> shape = shape_of(*module(part), k_, a_);
      tape_.linear(name, shape[1], shape[0], weight(part), bias(part), rows);
    };
    linear("cross_q_proj", Part::cross_q);
    tape_.fork(3, rows * z_.hidden, z_.element);  // keys, values, and the other blocks' gradient
    over_memory("cross_k_proj", Part::cross_k);
    over_memory("cross_v_proj", Part::cross_v);
    attend(seen, false, "cross_attention", Part::count);
    tape_.keep(z_.element * (2 * z_.tokens * k_.heads * k_.head_size +
                             rows * k_.kv_heads * (k_.head_size + k_.value_size)));
    linear("cross_o_proj", Part::cross_o);
  }

  // ---- mixer ------------------------------------------------------------------------------------
  void mixer() {
    static const Name scan{"scan"}, scan_back{"scan.backward"};
    const std::int64_t last = count(Part::linear) - 1;
    const std::int64_t inner = z_.tokens * k_.state;
    std::int64_t number = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const ModuleTensor& t = tensors_[i];
      if (t.bias || k_.modules[static_cast<std::size_t>(t.module)].part != Part::linear) continue;
      if (number++ == last) {
        std::vector<BackwardKernel> backward{
            marks_nothing(elementwise(z_, scan_back, 10 * inner, 6 * inner, 10))};
        append(backward.back().ready, Part::norm);
        append(backward.back().ready, Part::tensor);
        tape_.pair({elementwise(z_, scan, 4 * inner, 2 * inner, 6)}, std::move(backward));
        tape_.keep(z_.element * 4 * inner);
      }
      const bool biased = i + 1 < tensors_.size() && tensors_[i + 1].bias;
      tape_.linear("mixer_proj", t.shape[1], t.shape[0], static_cast<int>(i),
                   biased ? static_cast<int>(i) + 1 : -1);
      if (number <= last) tape_.keep(z_.element * z_.tokens * t.shape[0]);
    }
  }

  // ---- MLP --------------------------------------------------------------------------------------
  // SwiGLU or GELU over the inner elements (block_work.cpp has the counts).
  void activation(std::int64_t inner, bool gated) {
    static const Name name{"activation"}, back{"activation.backward"};
    Kernel forward;
    Kernel backward;
    if (!gated) {
      forward = elementwise(z_, name, inner, inner);
      backward = elementwise(z_, back, 2 * inner, inner);
    } else if (fused_) {
      forward = elementwise(z_, name, 2 * inner, inner);
      backward = elementwise(z_, back, 3 * inner, 2 * inner);
    } else {
      forward = elementwise(z_, name, 3 * inner, 2 * inner, 2);
      backward = elementwise(z_, back, 6 * inner, 3 * inner, 3);
    }
    tape_.pair(forward, backward);
    again_.push_back(forward);
    const Bytes outputs = z_.element * inner * (gated && !fused_ ? 2 : 1);
    tape_.keep(z_.element * inner * (gated ? 2 : 1) + outputs);
    activation_outputs_ += outputs;
    alive_inner_ += z_.element * inner * (gated ? 3 : 2);
  }

  void mlp() {
    if (has_experts()) experts();
    if (!has(Part::down)) return;
    const bool gated = has(Part::gate) || has(Part::gate_up);
    if (has(Part::gate_up)) {
      linear("gate_up_proj", Part::gate_up);
    } else {
      if (has(Part::gate)) linear("gate_proj", Part::gate);
      linear("up_proj", Part::up);
    }
    activation(z_.tokens * k_.ffn, gated);
    linear("down_proj", Part::down);
  }

  void experts() {
    static const Name choose{"top_k"}, choose_back{"top_k.backward"};
    static const Name permute{"permute"}, permute_back{"permute.backward"};
    static const Name combine{"combine"}, combine_back{"combine.backward"};
    const std::int64_t chosen = z_.tokens * k_.experts_per_token;
    const std::int64_t rows = ceil_div(chosen, k_.experts);
    const std::int64_t copied = chosen * z_.hidden;
    const std::int64_t routed = z_.tokens * k_.experts;
    const bool gated = has(Part::expert_gate) || has(Part::experts_gate_up);
    shared_experts();
    linear("router", Part::router);
    tape_.pair(memory_bound(choose, z_.dtype, (z_.element + 4) * routed + 8 * chosen,
                            4 * routed + (8 + 4 + z_.element) * chosen, 4),
               memory_bound(choose_back, z_.dtype, 8 * routed + 12 * chosen,
                            8 * routed + z_.element * routed, 4));
    tape_.pair(elementwise(z_, permute, copied, copied, 2),
               elementwise(z_, permute_back, copied, z_.tokens * z_.hidden, 1));
    if (has(Part::experts_gate_up)) {
      std::vector<int> ready = all_of(Part::experts_gate_up_bias);
      append(ready, Part::experts_gate_up);
      tape_.grouped("experts_gate_up", z_.hidden, 2 * k_.expert_ffn, rows, k_.experts,
                    std::move(ready));
    } else {
      if (has(Part::expert_gate)) {
        tape_.fork(2, copied, z_.element);
        tape_.grouped("experts_gate", z_.hidden, k_.expert_ffn, rows, k_.experts,
                      all_of(Part::expert_gate));
      }
      tape_.grouped("experts_up", z_.hidden, k_.expert_ffn, rows, k_.experts,
                    all_of(Part::expert_up));
    }
    activation(chosen * k_.expert_ffn, gated);
    if (has(Part::experts_down)) {
      std::vector<int> ready = all_of(Part::experts_down_bias);
      append(ready, Part::experts_down);
      tape_.grouped("experts_down", k_.expert_ffn, z_.hidden, rows, k_.experts, std::move(ready));
    } else {
      tape_.grouped("experts_down", k_.expert_ffn, z_.hidden, rows, k_.experts,
                    all_of(Part::expert_down));
    }
    tape_.pair(fused_ ? elementwise(z_, combine, copied, width_)
                      : elementwise(z_, combine, 3 * copied, 2 * copied, 2),
               fused_ ? elementwise(z_, combine_back, 2 * copied, copied)
                      : elementwise(z_, combine_back, 5 * copied, 3 * copied, 4));
    routed_ = 2 * z_.element * copied + 4 * routed + (8 + z_.element) * chosen;
    tape_.keep(routed_);
  }

  void shared_experts() {
    if (!has(Part::shared_down)) return;
    static const Name add{"shared_add"}, add_back{"shared_add.backward"};
    static const Name weigh{"shared_switch"}, weigh_back{"shared_switch.backward"};
    if (has(Part::shared_gate)) linear("shared_gate_proj", Part::shared_gate);
    if (has(Part::shared_up)) linear("shared_up_proj", Part::shared_up);
    activation(z_.tokens * k_.shared_ffn, has(Part::shared_gate));
    linear("shared_down_proj", Part::shared_down);
    if (has(Part::shared_switch)) {
      linear("shared_expert_gate", Part::shared_switch);
      tape_.pair(elementwise(z_, weigh, width_, width_, 2),
                 elementwise(z_, weigh_back, 2 * width_, width_, 3));
      tape_.keep(z_.element * width_);
    }
    tape_.pair({elementwise(z_, add, 2 * width_, width_)}, {});  // to what the experts made
  }

  // ---- memory -----------------------------------------------------------------------------------
  void memory(LayerWork& work) const {
    const Bytes e = z_.element;
    const Bytes stream = z_.stream * width_;
    const Bytes hidden = e * width_;
    const Bytes everything = tape_.kept();
    const Bytes norms_again = post_norm() ? std::min(hidden, norm_outputs_) : norm_outputs_;
    work.saved_activations = everything;
    if (w_.checkpointing == Checkpointing::full) work.saved_activations = stream;
    if (w_.checkpointing == Checkpointing::selective) {
      work.saved_activations -= w_.fused_attention ? norms_again + activation_outputs_ : softmax_;
    }
    work.recomputed_activations = everything - work.saved_activations;
    if (w_.checkpointing == Checkpointing::full) {
      work.recomputed_activations += tape_.copies();
    } else {
      work.weight_copies = tape_.copies();
      work.saved_activations += tape_.copies();
    }
    work.output = stream;

    const std::int64_t queries = z_.tokens * k_.heads * k_.head_size;
    const Bytes projections =
        e * (queries + z_.tokens * k_.kv_heads * (k_.head_size + k_.value_size));
    const Bytes results = e * z_.tokens * k_.heads * k_.value_size;
    const Bytes norm_result = z_.casts && !fused_ ? stream : 0;
    const Bytes norms = norm_result + norm_workspace(z_, width_);
    work.forward_workspace = std::max({hidden, norms, scores_});
    if (w_.checkpointing == Checkpointing::selective) {
      const Bytes dropped = w_.fused_attention ? activation_outputs_ : softmax_ + scores_;
      work.forward_workspace = std::max(work.forward_workspace, hidden + dropped);
    }
    if (w_.checkpointing == Checkpointing::full) {
      const Bytes attention_alive = hidden + projections + results + softmax_ + scores_;
      const Bytes mlp_alive = stream + hidden + alive_inner_ + routed_;
      work.forward_workspace =
          std::max({attention_alive, mlp_alive, work.forward_workspace + stream}) + tape_.copies();
    }
    const Bytes extra = w_.fused_attention ? 4 * queries : 2 * scores_;
    const Bytes entry = z_.casts || a_.residual_dropout ? hidden : 0;
    const Bytes attention_gradients = entry + results + projections + extra;
    const Bytes mlp_gradients = entry + alive_inner_ + routed_;
    work.backward_workspace = std::max({attention_gradients, mlp_gradients, hidden + norms});
  }

  void recompute(LayerWork& work) const {
    switch (w_.checkpointing) {
      case Checkpointing::none: return;
      case Checkpointing::selective: work.recompute = w_.fused_attention ? again_ : core_; return;
      case Checkpointing::selective_op:  // refused
      case Checkpointing::full: break;
    }
    work.recompute = work.forward;
    if (!w_.recompute_early_stop || post_norm()) return;
    // The residuals, and the last product unless something behind it is kept (block_work.cpp).
    std::vector<Kernel>& list = work.recompute;
    for (int i = 0; i < residuals_ && list.size() > 1; ++i) list.pop_back();
    if (a_.residual_dropout || list.size() < 2) return;
    list.pop_back();
  }

  const Sizes& z_;
  const Architecture& a_;
  const Workload& w_;
  const BlockKind& k_;
  Tape tape_;
  bool fused_;
  std::int64_t width_;  // elements of a hidden state
  std::vector<ModuleTensor> tensors_;

  int branches_ = 0;
  int residuals_ = 1;
  bool ends_with_norm_ = false;
  std::vector<Kernel> again_;  // norms and activations: what selective checkpointing runs again
  std::vector<Kernel> core_;   // attention: the same where it is unfused
  Bytes norm_outputs_ = 0;
  Bytes activation_outputs_ = 0;
  Bytes softmax_ = 0;
  Bytes scores_ = 0;       // unfused: of one attention
  Bytes alive_inner_ = 0;  // inside the MLP
  Bytes routed_ = 0;
};

}  // namespace

void composed_block_work(const Sizes& sizes, const BlockKind& kind, LayerWork& work) {
  ComposedBlock(sizes, kind).write(work);
}

}  // namespace stepcast
