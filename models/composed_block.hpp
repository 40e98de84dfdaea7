#pragma once
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

#include <vector>

#include "models/composition.hpp"
#include "models/tape.hpp"

namespace stepcast {

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

  void write(LayerWork& work);

 private:
  // tensors
  int find(Part part, bool bias, int expert = -1) const;
  int weight(Part part) const;
  int bias(Part part) const;
  const Module* module(Part part) const;
  bool has(Part part) const;
  std::vector<int> all_of(Part part) const;
  void append(std::vector<int>& list, Part part) const;
  void mark_the_rest(LayerWork& work) const;
  // parts
  bool attends() const;
  bool mixes() const;
  bool has_mlp() const;
  bool has_experts() const;
  bool latent() const;
  bool post_norm() const;
  void linear(const char* name, Part part);
  int attention_readers() const;
  int mlp_readers() const;
  std::int64_t count(Part part) const;
  // the whole
  void run();
  template <typename Body>
  void branch(Part norm, Part post, int readers, bool last, Body body);
  void parallel();
  void norm_of(Part part, Bytes input, bool added, int gradients, bool joined);
  void keep_norm(Bytes input, Bytes output);
  void end_branch(bool joined);
  // attention
  void attention();
  void index_product(int tensor);
  void latent_rows();
  void head_norm(const char* name, Part part, std::int64_t heads, std::int64_t elements);
  void rotary(std::int64_t n);
  void attend(std::int64_t keys, bool causal, const char* name, Part tensors);
  void cross_attention();
  // mixer
  void mixer();
  // MLP
  void activation(std::int64_t inner, bool gated);
  void mlp();
  void experts();
  void shared_experts();
  // memory
  void memory(LayerWork& work) const;
  void recompute(LayerWork& work) const;

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
  Bytes down_inputs_ = 0;  // of them, what the down projection reads
  Bytes softmax_ = 0;
  Bytes scores_ = 0;       // unfused: of one attention
  Bytes alive_inner_ = 0;  // inside the MLP
  Bytes routed_ = 0;
};

void composed_block_work(const Sizes& sizes, const BlockKind& kind, LayerWork& work);

}  // namespace stepcast
