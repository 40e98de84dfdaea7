// What one transformer block does for one micro-batch.
//
//   forward   norm, q k v, [q and k norms], [rotary], attention, output projection, [dropout],
//             residual, norm, MLP, [dropout], residual
//   backward  the same in reverse, as autograd runs it: of nodes that are ready, the one made last
//             in forward goes first (so down, up, gate and o, v, k, q); a tensor used several times
//             has its gradients added up.
//
// Eager software runs each elementwise step as kernels of its own; where `fused_elementwise`, a
// residual and the norm after it are one kernel, as are the activation with its product, the rotary
// embedding of q and k, and a norm's backward with the additions of gradients around it. The
// block's last residual is never fused: compiled blocks end there.
//
// Autocast (AMP): the residual stream and the norms are fp32; casts lead into and out of a branch.
//
// Encoders attend in both directions; bert's norms stand behind the residuals (post-norm):
// attention, residual, norm, MLP, residual, norm. Mixtral's MLP is in experts.cpp.
//
// Its memory is in block_memory.cpp. Cost: about 60 kernels, a few microseconds. Tested by
// tests/unit/models/work_test.cpp.

#include "models/experts.hpp"
#include "models/fp8.hpp"
#include "models/layout.hpp"
#include "models/work_parts.hpp"

namespace stepcast {
namespace {

struct Names {
  LinearNames query{"q_proj"}, key{"k_proj"}, value{"v_proj"}, qkv{"qkv_proj"}, output{"o_proj"};
  LinearNames gate{"gate_proj"}, up{"up_proj"}, down{"down_proj"};
  NormNames norm1{"norm1"}, norm2{"norm2"}, query_norm{"q_norm"}, key_norm{"k_norm"};
  Name rotary{"rope"}, rotary_backward{"rope.backward"};
  Name attention{"attention"}, attention_backward{"attention.backward"};
  Name attention_dropout{"attention_dropout"};
  Name attention_dropout_backward{"attention_dropout.backward"};
  Name dropout{"dropout"}, dropout_backward{"dropout.backward"};
  Name residual{"residual_add"}, add_gradients{"grad_add"}, enter_branch{"branch_grad_cast"};
};

const Names& names() {
  static const Names instance;
  return instance;
}

class Block {
 public:
  explicit Block(const Sizes& sizes)
      : z_(sizes),
        a_(*sizes.architecture),
        w_(*sizes.workload),
        layout_(block_layout(a_)),
        fused_(w_.fused_elementwise),
        width_(z_.tokens * z_.hidden) {}

  void forward(std::vector<Kernel>& list) const {
    const bool post = has_post_norm(a_.family);
    if (!post) norm_forward(z_, norm1(), list);
    attention_forward(list);
    end_branch(list, fused_);
    norm_forward(z_, post ? norm1() : norm2(), list, fused_);
    mlp_forward(list);
    end_branch(list, fused_ && post);
    if (post) norm_forward(z_, norm2(), list, fused_);
  }

  void backward(std::vector<BackwardKernel>& list) const {
    if (has_post_norm(a_.family)) {
      backward_post_norm(list);
      return;
    }
    enter_branch(list);
    mlp_backward(list);
    // Gate and up, or experts and router, each have a gradient of the norm's result.
    if (!fused_ && has_gated_mlp(a_.family)) add_gradients(list, z_.element);
    norm_backward(z_, norm2(), list, has_gated_mlp(a_.family) ? 2 : 1, fused_);
    if (!fused_) add_gradients(list, z_.stream);
    enter_branch(list);
    attention_backward(list);
    if (!fused_ && !has_fused_qkv(a_.family)) {
      add_gradients(list, z_.element);
      add_gradients(list, z_.element);
    }
    norm_backward(z_, norm1(), list, has_fused_qkv(a_.family) ? 1 : 3, fused_);
    if (!fused_) add_gradients(list, z_.stream);
  }

  Fp8Bytes fp8_bytes() const {
    Fp8Bytes bytes;
    const bool keeps = z_.fp8 == Fp8Recipe::te_delayed;
    // Adds linears of one input; whether all of them keep it in fp8.
    const auto add = [&](std::initializer_list<Linear> linears) {
      bool all = keeps;
      for (const Linear& linear : linears) {
        bytes.add(z_, linear);
        all = all && runs_in_fp8(z_, linear);
      }
      return all;
    };
    const bool pre_norm = !has_post_norm(a_.family);
    const bool of_norm1 = has_fused_qkv(a_.family) ? add({qkv()}) : add({query(), key(), value()});
    bytes.for_norm1 = pre_norm && of_norm1;
    add({output()});
    if (a_.experts > 0) return bytes;
    const bool of_norm2 = has_gated_mlp(a_.family) ? add({gate(), up()}) : add({up()});
    bytes.for_norm2 = pre_norm && of_norm2;
    bytes.for_inner = add({down()});
    return bytes;
  }

  void recompute(std::vector<Kernel>& list) const {
    switch (w_.checkpointing) {
      case Checkpointing::none: return;
      case Checkpointing::full:
        forward(list);
        if (w_.recompute_early_stop) stop_early(list);
        return;
      case Checkpointing::selective:
        if (!w_.fused_attention) {
          core_forward(list);
          return;
        }
        recompute_norms_and_activation(list);
        return;
      case Checkpointing::selective_op:
        forward(list);
        if (w_.recompute_early_stop) stop_early(list);
        drop_kept(list);
        return;
    }
  }

 private:
  // The same additions in another order: both branches start at a norm's result. The gradients that
  // reach the block's input are added up behind its last kernel, by software of any kind.
  void backward_post_norm(std::vector<BackwardKernel>& list) const {
    norm_backward(z_, norm2(), list);
    enter_branch(list);
    mlp_backward(list);
    if (!fused_) add_gradients(list, z_.stream);
    norm_backward(z_, norm1(), list, fused_ ? 2 : 1);
    enter_branch(list);
    attention_backward(list);
    add_gradients(list, z_.element);
    add_gradients(list, z_.element);
    add_gradients(list, z_.stream);
  }

  Linear linear(const LinearNames& linear_names, std::int64_t in, std::int64_t out, Role weight,
                Role bias) const {
    return Linear{linear_names, in, out, layout_.at(weight), layout_.at(bias)};
  }
  // The projection before it reads the same tensor.
  static Linear shared(Linear linear) {
    linear.shares_input = true;
    return linear;
  }
  Linear query() const {
    return linear(names().query, z_.hidden, z_.query, Role::query_weight, Role::query_bias);
  }
  Linear key() const {
    return shared(linear(names().key, z_.hidden, z_.key, Role::key_weight, Role::key_bias));
  }
  Linear value() const {
    return shared(linear(names().value, z_.hidden, z_.key, Role::value_weight, Role::value_bias));
  }
  Linear qkv() const {
    return linear(names().qkv, z_.hidden, z_.query + 2 * z_.key, Role::qkv_weight, Role::qkv_bias);
  }
  Linear output() const {
    return linear(names().output, z_.query, z_.hidden, Role::output_weight, Role::output_bias);
  }
  Linear gate() const {
    return linear(names().gate, z_.hidden, z_.ffn, Role::gate_weight, Role::gate_bias);
  }
  Linear up() const {
    const Linear up = linear(names().up, z_.hidden, z_.ffn, Role::up_weight, Role::up_bias);
    return has_gated_mlp(a_.family) ? shared(up) : up;
  }
  Linear down() const {
    return linear(names().down, z_.ffn, z_.hidden, Role::down_weight, Role::down_bias);
  }
  Norm norm1() const {
    return Norm{names().norm1,
                z_.tokens,
                z_.hidden,
                z_.stream,
                layout_.at(Role::norm1_weight),
                layout_.at(Role::norm1_bias)};
  }
  Norm norm2() const {
    return Norm{names().norm2,
                z_.tokens,
                z_.hidden,
                z_.stream,
                layout_.at(Role::norm2_weight),
                layout_.at(Role::norm2_bias)};
  }
  Norm query_norm() const {
    return Norm{names().query_norm, z_.tokens * a_.heads,         a_.head_size,
                z_.element,         layout_.at(Role::query_norm), -1};
  }
  Norm key_norm() const {
    return Norm{names().key_norm, z_.tokens * a_.kv_heads,    a_.head_size,
                z_.element,       layout_.at(Role::key_norm), -1};
  }

  // Dropout and residual after a branch; `joined`: the norm that follows adds.
  void end_branch(std::vector<Kernel>& list, bool joined) const {
    if (a_.residual_dropout) {
      list.push_back(dropout_forward(z_, names().dropout, width_, z_.element));
    }
    if (!joined) list.push_back(add_residual());
  }

  Kernel add_residual() const {
    return memory_bound(names().residual, z_.dtype, (z_.stream + z_.element) * width_,
                        z_.stream * width_);
  }

  // Two gradients of one tensor are summed.
  void add_gradients(std::vector<BackwardKernel>& list, Bytes element) const {
    list.push_back(marks_nothing(
        memory_bound(names().add_gradients, z_.dtype, 2 * element * width_, element * width_)));
  }

  // From the gradient of the residual stream to that of a branch's last product.
  void enter_branch(std::vector<BackwardKernel>& list) const {
    if (z_.stream > z_.element) {
      list.push_back(marks_nothing(
          memory_bound(names().enter_branch, z_.dtype, z_.stream * width_, z_.element * width_)));
    }
    if (a_.residual_dropout) {
      list.push_back(
          marks_nothing(dropout_backward(z_, names().dropout_backward, width_, z_.element)));
    }
  }

  // Eager rotary embedding of n elements, by the rotate-half form: x cos; negated half, joined;
  // sin; sum. Read 5.5 n, written 4.5 n, 5 kernels each for q and k. Fused: read and written once.
  Kernel rotary(Name name) const {
    const std::int64_t n = z_.tokens * (z_.query + z_.key);
    return fused_ ? elementwise(z_, name, n, n) : elementwise(z_, name, 11 * n / 2, 9 * n / 2, 10);
  }

  // The products of queries, keys and values, with what unfused software puts between them.
  void core_forward(std::vector<Kernel>& list) const {
    list.push_back(attention(names().attention, KernelKind::attention_forward, z_.dtype, z_.batch,
                             a_.heads, a_.kv_heads, z_.seq, z_.seq, a_.head_size,
                             is_causal(a_.family), w_.fused_attention));
    if (drops_scores()) {
      list.push_back(dropout_forward(z_, names().attention_dropout, z_.scores, z_.element));
    }
  }

  void attention_forward(std::vector<Kernel>& list) const {
    if (has_fused_qkv(a_.family)) {
      linear_forward(z_, qkv(), list);
    } else {
      linear_forward(z_, query(), list);
      linear_forward(z_, key(), list);
      linear_forward(z_, value(), list);
    }
    if (a_.query_key_norm) {
      norm_forward(z_, query_norm(), list);
      norm_forward(z_, key_norm(), list);
    }
    if (has_rotary(a_.family)) list.push_back(rotary(names().rotary));
    core_forward(list);
    linear_forward(z_, output(), list);
  }

  void attention_backward(std::vector<BackwardKernel>& list) const {
    linear_backward(z_, output(), list);
    if (drops_scores()) {
      list.push_back(marks_nothing(
          dropout_backward(z_, names().attention_dropout_backward, z_.scores, z_.element)));
    }
    list.push_back(marks_nothing(attention(
        names().attention_backward, KernelKind::attention_backward, z_.dtype, z_.batch, a_.heads,
        a_.kv_heads, z_.seq, z_.seq, a_.head_size, is_causal(a_.family), w_.fused_attention)));
    if (has_rotary(a_.family)) list.push_back(marks_nothing(rotary(names().rotary_backward)));
    if (has_fused_qkv(a_.family)) {
      linear_backward(z_, qkv(), list);
      return;
    }
    linear_backward(z_, value(), list);
    if (a_.query_key_norm) norm_backward(z_, key_norm(), list);
    linear_backward(z_, key(), list);
    if (a_.query_key_norm) norm_backward(z_, query_norm(), list);
    linear_backward(z_, query(), list);
  }

  void mlp_forward(std::vector<Kernel>& list) const {
    if (a_.experts > 0) {
      experts_forward(z_, layout_, list);
      return;
    }
    if (has_gated_mlp(a_.family)) linear_forward(z_, gate(), list);
    linear_forward(z_, up(), list);
    list.push_back(activation_forward(z_));
    linear_forward(z_, down(), list);
  }

  void mlp_backward(std::vector<BackwardKernel>& list) const {
    if (a_.experts > 0) {
      experts_backward(z_, layout_, list);
      return;
    }
    linear_backward(z_, down(), list);
    list.push_back(marks_nothing(activation_backward(z_)));
    linear_backward(z_, up(), list);
    if (has_gated_mlp(a_.family)) linear_backward(z_, gate(), list);
  }

  // PyTorch's non-reentrant checkpoint stops when the last tensor that backward needs has been
  // made. That is the input of the down projection, unless dropout after it makes a mask or a
  // token's experts are weighted; a norm at the end keeps its statistics.
  void stop_early(std::vector<Kernel>& list) const {
    if (has_post_norm(a_.family)) return;
    list.pop_back();  // the residual
    if (a_.residual_dropout) return;
    // An autograd.Function in Python saves its tensors when its forward is through: eager fp8
    // linears run to their end.
    if (runs_in_fp8(z_, down()) && !(fused_ && z_.fp8 == Fp8Recipe::torchao_tensorwise)) return;
    list.pop_back();
    while (casts_to_fp8(list.back())) list.pop_back();
  }

  // Selective, fused attention. What fp8 copies stand in for nobody asks for again; of a SwiGLU of
  // two kernels that leaves silu's result.
  void recompute_norms_and_activation(std::vector<Kernel>& list) const {
    const Fp8Bytes fp8 = fp8_bytes();
    if (!fp8.for_norm1) norm_forward(z_, norm1(), list);
    if (!has_post_norm(a_.family) && !fp8.for_norm2) norm_forward(z_, norm2(), list);
    if (!fp8.for_inner) {
      list.push_back(activation_forward(z_));
    } else if (has_gated_mlp(a_.family) && !fused_) {
      list.push_back(silu_forward(z_));
    }
  }

  // selective_op: results that are kept are not made again: fused attention's, and of the products
  // the first, the third and so on.
  void drop_kept(std::vector<Kernel>& list) const {
    int products = 0;
    const auto kept = [&](const Kernel& kernel) {
      if (kernel.kind == KernelKind::gemm) return ++products % 2 == 1;
      return kernel.kind == KernelKind::attention_forward && w_.fused_attention;
    };
    // fp8 casts of the weights of products that are not made again are not either; casts of inputs
    // are shared with the next product.
    const auto idle_cast = [](const Kernel& kernel) {
      for (const LinearNames* n : {&names().query, &names().value, &names().gate, &names().down}) {
        if (kernel.name == n->fp8_weight) return true;
      }
      return kernel.name == names().down.fp8_input;
    };
    std::vector<Kernel> again;
    for (const Kernel& kernel : list) {
      if (!kept(kernel) && !idle_cast(kernel)) again.push_back(kernel);
    }
    list = std::move(again);
  }

  bool drops_scores() const { return a_.attention_dropout && !w_.fused_attention; }

  const Sizes& z_;
  const Architecture& a_;
  const Workload& w_;
  BlockLayout layout_;
  bool fused_;
  std::int64_t width_;  // elements of a hidden state
};

}  // namespace

Fp8Bytes fp8_bytes_of_block(const Sizes& sizes) { return Block(sizes).fp8_bytes(); }

void block_work(const Sizes& sizes, LayerWork& work) {
  const Block block(sizes);
  work.forward.reserve(24);
  work.backward.reserve(48);
  block.forward(work.forward);
  block.backward(work.backward);
  block.recompute(work.recompute);
  block_memory(sizes, work);
}

}  // namespace stepcast
