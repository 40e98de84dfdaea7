#pragma once
// The parts that layers are made of: linear layers, norms, casts, as kernels forward and backward.
// All bytes are HBM traffic with every operand read and every result written once a kernel; the
// counts are derived in work_parts.cpp. Internal to models/.

#include <vector>

#include "base/kernel.hpp"
#include "models/model.hpp"

namespace stepcast {

// Everything a layer's work depends on, checked and worked out once. Counts are elements.
struct Sizes {
  std::int64_t batch = 0;       // b
  std::int64_t seq = 0;         // s
  std::int64_t tokens = 0;      // b s
  std::int64_t hidden = 0;      // h
  std::int64_t query = 0;       // a d
  std::int64_t key = 0;         // k d
  std::int64_t ffn = 0;         // f
  std::int64_t vocabulary = 0;  // V, or the classes of an image
  std::int64_t image = 0;       // pixels a side; 0: text
  std::int64_t scores = 0;      // b a s s
  Dtype dtype = Dtype::bf16;    // of activations and matrix products
  Bytes element = 2;            // bytes of an activation
  Bytes parameter = 2;          // bytes of a parameter as the layer meets it (4 under autocast)
  // Bytes of the residual stream. Under autocast norms run in fp32 and what a 16-bit branch is
  // added to stays fp32, from the embedding to the head.
  Bytes stream = 2;
  bool casts = false;               // autocast: parameter > element
  Fp8Recipe fp8 = Fp8Recipe::none;  // of a block's linears; elsewhere none
  bool rms_norm = false;
  const Architecture* architecture = nullptr;
  const Workload* workload = nullptr;
};

// Throws InputError when the workload does not fit the model.
Sizes sizes_of(const Model& model, const Workload& workload);

struct LinearNames {
  explicit LinearNames(const std::string& name);
  Name forward, cast, dgrad, wgrad, bias_grad, grad_cast;
  Name fp8_input, fp8_weight, fp8_gradient;
};

// y = x W^T + c for every token.
struct Linear {
  const LinearNames& names;
  std::int64_t in = 0;
  std::int64_t out = 0;
  int weight = -1;            // index within the layer; -1: not this layer's to complete
  int bias = -1;              // -1: none
  bool shares_input = false;  // the linear before it in forward reads the same tensor
};

struct NormNames {
  explicit NormNames(const std::string& name);
  Name forward, backward, cast, grad_cast;
};

// Over the last dimension of `rows` rows of `width`. Its result is an activation of `element`
// bytes: where the input has more (the residual stream under autocast) a cast follows.
struct Norm {
  const NormNames& names;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  Bytes input = 0;  // bytes of an element of the input
  int weight = -1;
  int bias = -1;
};

void linear_forward(const Sizes& sizes, const Linear& linear, std::vector<Kernel>& list);
// Bias gradient, input gradient, weight gradient: the bias is ready before the weight.
void linear_backward(const Sizes& sizes, const Linear& linear, std::vector<BackwardKernel>& list);

// `added`: a branch is added to the residual stream first and the sum kept (one kernel where
// fused).
void norm_forward(const Sizes& sizes, const Norm& norm, std::vector<Kernel>& list,
                  bool added = false);
// `gradients`: how many gradients of the result arrive as separate tensors; `joined`: the
// residual's gradient is added to the result. Only where fused.
void norm_backward(const Sizes& sizes, const Norm& norm, std::vector<BackwardKernel>& list,
                   int gradients = 1, bool joined = false);

// A kernel that reads and writes so many elements of activations.
Kernel elementwise(const Sizes& sizes, Name name, std::int64_t read, std::int64_t write,
                   int launches = 1);
// Dropout writes a mask of one byte an element, and reads it in backward.
Kernel dropout_forward(const Sizes& sizes, Name name, std::int64_t elements, Bytes element);
Kernel dropout_backward(const Sizes& sizes, Name name, std::int64_t elements, Bytes element);

inline BackwardKernel marks_nothing(Kernel kernel) { return BackwardKernel{kernel, {}}; }

// Largest working set of a norm beyond its input and output (an eager RMSNorm's fp32 copies).
Bytes norm_workspace(const Sizes& sizes, std::int64_t elements);

// The loss of `rows` rows of `classes` logits (work.cpp says what is kept). It adds to the lists;
// bytes kept and needed are added to the work's.
void loss_work(const Sizes& sizes, std::int64_t rows, std::int64_t classes, LayerWork& work);
// A Linear of `batch` rows with its bias, and the loss. Its weight is the layer's tensor
// `first_tensor`. Kept besides the layer's input: what the loss keeps, and weight copies.
void class_head_work(const Sizes& sizes, const LinearNames& names, std::int64_t width,
                     int first_tensor, LayerWork& work);

// The rows that bert's masked-token head runs on, Architecture::masked_share of all.
Sizes masked_rows(const Sizes& sizes);
void bert_embedding_work(const Sizes& sizes, LayerWork& work);
void bert_head_work(const Sizes& sizes, LayerWork& work);
void vit_embedding_work(const Sizes& sizes, LayerWork& work);
void vit_head_work(const Sizes& sizes, LayerWork& work);

LayerWork mlp_block_work(const Sizes& sizes);            // mlp_work.cpp
void block_work(const Sizes& sizes, LayerWork& work);    // kernels, and:
void block_memory(const Sizes& sizes, LayerWork& work);  // bytes kept and needed

}  // namespace stepcast
