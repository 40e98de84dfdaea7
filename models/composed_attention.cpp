// A composed block's attention: plain, latent, across to an encoder.

#include <algorithm>

#include "models/composed_block.hpp"

namespace stepcast {

void ComposedBlock::attention() {
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
void ComposedBlock::index_product(int tensor) {
  const ModuleTensor& t = tensors_[static_cast<std::size_t>(tensor)];
  if (t.bias || k_.modules[static_cast<std::size_t>(t.module)].part != Part::linear) return;
  tape_.linear("indexer", t.shape[1], t.shape[0], tensor, -1);
  tape_.keep(z_.element * z_.tokens * t.shape[0]);
}

void ComposedBlock::latent_rows() {
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

void ComposedBlock::head_norm(const char* name, Part part, std::int64_t heads,
                              std::int64_t elements) {
  const Module* m = module(part);
  if (m == nullptr) return;
  const std::int64_t width = m->wide ? heads * k_.head_size : k_.head_size;
  tape_.norm(name, elements / width, width, z_.element, weight(part), bias(part));
  tape_.keep(z_.element * elements);
}

// block_work.cpp has the counts.
void ComposedBlock::rotary(std::int64_t n) {
  static const Name name{"rope"}, back{"rope.backward"};
  const auto kernel = [&](Name which) {
    return fused_ ? elementwise(z_, which, n, n)
                  : elementwise(z_, which, 11 * n / 2, 9 * n / 2, 10);
  };
  tape_.pair(kernel(name), kernel(back));
}

void ComposedBlock::attend(std::int64_t keys, bool causal, const char* name, Part tensors) {
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
  backward.push_back(marks_nothing(
      stepcast::attention(text + ".backward", KernelKind::attention_backward, z_.dtype, batch,
                          k_.heads, k_.kv_heads, queries, keys, size, causal, w_.fused_attention)));
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

void ComposedBlock::cross_attention() {
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

}  // namespace stepcast
