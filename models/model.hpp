#pragma once
// What is trained. A Model is data: parameter tensors in registration order and layers in
// execution order. `work_of` says what one layer does for one micro-batch: kernels forward and
// backward, the order in which gradients become ready, the activations it keeps.
//
//   Model model = load_model("llama-3-8b");              // catalog name or a config.json
//   LayerWork work = work_of(model, 3, workload);        // layer 3
//
// Tested by tests/unit/models.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/kernel.hpp"
#include "base/name.hpp"
#include "base/units.hpp"

namespace stepcast {

struct Parameter {
  Name name;                        // as PyTorch names it: "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // dim 0 first; FSDP2 shards dim 0
  std::int64_t elements() const;
};

// A tensor of the module that is not trained and that DDP broadcasts before each forward:
// BatchNorm's running mean and variance (fp32) and its count of batches (int64, no dimension).
struct ModuleBuffer {
  Name name;                        // "layer1.0.bn1.running_mean"
  std::vector<std::int64_t> shape;  // empty: one number
  Dtype dtype = Dtype::fp32;
  std::int64_t elements() const;
};

enum class LayerKind : std::uint8_t { embedding, stem, block, final_norm, head };
inline constexpr std::size_t layer_kinds = 5;

// A slice of the model that runs as a whole: the embedding (of images: the stem), one transformer
// or residual block, the final norm, the head with the loss. Layers run in this order forward,
// reversed backward.
struct Layer {
  Name name;  // "layers.3"
  LayerKind kind = LayerKind::block;
  int first_parameter = 0;  // into Model::parameters
  int parameter_count = 0;
  // Layers with one shape_class do the same work and hold tensors of the same shapes: callers
  // compute it once. Dense values 0..Model::shape_classes-1.
  int shape_class = 0;
  int block_kind = 0;  // composed models: into Composition::kinds
  // Index of a parameter of another layer that this one also uses (tied head), or -1. Its gradient
  // is ready only when both have contributed: with the embedding, last in backward.
  int tied_parameter = -1;
};

//   gpt2, llama, mpt  decoders
//   mixtral           llama whose MLPs are mixtures of experts
//   bert              encoder, norms after the residuals, heads of BertForPreTraining
//   vit               encoder of image patches, class head
//   resnet            residual blocks of convolutions, class head
//   mlp               residual blocks of two projections, h + W2 tanh(W1 h + b1) + b2; no
//                     attention, no norms: what `stepcast run --compute train` trains with real
//                     numbers
//   composed          put together from parts: every other transformer (models/composition.hpp)
enum class Family : std::uint8_t { gpt2, llama, mpt, mixtral, bert, vit, resnet, mlp, composed };

struct Composition;

constexpr bool takes_images(Family family) {
  return family == Family::vit || family == Family::resnet;
}

// Sizes of a transformer in the notation of the literature. A ResNet has `stages`, `bottleneck`,
// `image_size` and `classes`; complete() works out its `layers` (residual blocks) and `hidden` (the
// last stage's channels).
struct Architecture {
  Family family = Family::llama;
  std::int64_t hidden = 0;      // h
  std::int64_t layers = 0;      // L
  std::int64_t heads = 0;       // a
  std::int64_t kv_heads = 0;    // k
  std::int64_t head_size = 0;   // d
  std::int64_t ffn_hidden = 0;  // f
  std::int64_t vocabulary = 0;  // V
  // The longest sequence the model was made for. Rows of the position table where
  // learned_positions; elsewhere (rotary, ALiBi) only the default of Workload::seq_len.
  std::int64_t max_positions = 0;
  bool learned_positions = false;
  bool tied_embeddings = false;
  bool attention_bias = false;  // on q, k, v (fused or not)
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool norm_bias = false;
  bool query_key_norm = false;  // an RMSNorm over each head of q and k (qwen3)
  // Dropout with probability above 0, which keeps one byte an element as a mask.
  bool embedding_dropout = false;
  bool attention_dropout = false;
  bool residual_dropout = false;
  // mixtral: each token goes through `experts_per_token` of `experts` MLPs. 0: dense.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  // bert
  std::int64_t token_types = 0;  // rows of the segment table
  bool next_sentence = false;    // pooler and next-sentence head beside the masked-token head
  double masked_share = 1;       // of the positions, which the masked-token head is run on
  // vit, resnet
  std::int64_t image_size = 0;  // pixels a side; vit's position table is made for it
  std::int64_t patch_size = 0;  // vit: pixels a side
  std::int64_t classes = 0;
  std::array<std::int64_t, 4> stages{};  // resnet: residual blocks of each stage
  bool bottleneck = false;               // resnet: blocks of 1x1, 3x3, 1x1 instead of two 3x3
  // composed: the parts. Heads and widths above are then a summary, the largest of any block.
  std::shared_ptr<const Composition> composition;
};

struct Model {
  std::string name;
  std::string source;  // where the sizes come from: catalog file with its source, or a path
  Architecture architecture;
  Dtype stored_dtype = Dtype::fp32;   // torch_dtype of the file; the precision recipe decides
  std::vector<Parameter> parameters;  // registration order, shared tensors once
  std::vector<ModuleBuffer> buffers;  // registration order; none for transformers
  std::vector<Layer> layers;          // execution order
  int shape_classes = 0;
  // What is counted right but costed by rule of thumb, or left out: said with every forecast.
  std::vector<std::string> approximations;

  std::int64_t parameter_elements() const;  // Ψ
  // Those that one token meets: of a mixture of experts, experts_per_token of them.
  std::int64_t active_parameter_elements() const;
  std::int64_t parameter_elements(const Layer& layer) const;
  std::int64_t input_embedding_elements() const;  // token (and position) tables
};

// What is kept of a block's activations (docs/models.md).
//   none       everything autograd asks for
//   selective  unfused attention: all but its a*s*s tensors, whose core runs again (Korthikanti et
//              al.); fused attention: all but the outputs of norms and activation functions
//   selective_op  the block's input, the results of attention and of every second product, as
//              torchtitan's selective_ac_option = "op" (and PyTorch's context_fn) keeps them;
//              everything between runs again
//   full       the block's input; its forward runs again
enum class Checkpointing : std::uint8_t { none, selective, selective_op, full };

// Whether the products of linear layers run in fp8, and by which recipe (models/fp8.hpp).
enum class Fp8Recipe : std::uint8_t { none, te_delayed, torchao_tensorwise };

// One micro-batch on one rank.
struct Workload {
  std::int64_t micro_batch = 1;  // b, sequences or images a rank
  std::int64_t seq_len = 0;      // s; 0 takes the model's max_positions (images: 0 only)
  std::int64_t image_size = 0;   // pixels a side; 0 takes the model's (text: 0 only)
  Dtype compute_dtype = Dtype::bf16;
  Checkpointing checkpointing = Checkpointing::none;
  bool fused_attention = true;  // FlashAttention; false stores the a*s*s scores
  // A resnet's tensors lie as tensor cores read them (NHWC). false: PyTorch's own order, NCHW.
  bool channels_last = false;
  // How much memory-bound work is fused (a software profile sets these).
  // torch.compile: a norm with its residual, SwiGLU, rope in one kernel each.
  bool fused_elementwise = false;
  // No fp32 copy of the logits.
  bool fused_loss = false;
  // AMP: fp32 weights are cast to compute_dtype in forward (the copies are kept for backward) and
  // gradients back; norms, residual stream and softmax are fp32. The kernels are in the lists.
  bool autocast_weights = false;
  // Full checkpointing: the recomputation ends once the last tensor that backward needs exists, so
  // it leaves out the block's last matrix product (PyTorch's non-reentrant checkpoint, 2.1 on).
  // false: the whole forward again (the reentrant one, Megatron).
  bool recompute_early_stop = true;
  // The head ends with the logits, its output; loss_of() is the rest (nn.DataParallel computes the
  // loss on one GPU for all).
  bool loss_apart = false;
  // GPUs that share one replica (tensor, pipeline, context parallel): activations and working sets
  // are a k-th each. Kernels stay the whole model's; their times are then given (replica_step_ms).
  int replica_gpus = 1;
  Fp8Recipe fp8 = Fp8Recipe::none;
  bool fp8_gathered = false;  // torchao_tensorwise: the strategy gathers weights in fp8
};

struct BackwardKernel {
  Kernel kernel;
  // Parameters (index within the layer, 0-based) whose gradient is complete after this kernel, in
  // the order in which autograd accumulates them: Linear bias before weight, norm weight before
  // bias, modules in reverse order (facts in docs/sources.md, "gradient-ready order").
  std::vector<int> ready;
};

// Whether it casts an operand of the fp8 product that follows it in the list.
bool casts_to_fp8(const Kernel& kernel);

struct LayerWork {
  std::vector<Kernel> forward;
  std::vector<BackwardKernel> backward;
  std::vector<Kernel> recompute;  // run before backward under checkpointing; empty for none
  // Bytes kept from forward to backward under the workload's checkpointing. A layer's input is
  // counted by the layer itself (its norm keeps it), its output by the next one; token ids by none.
  // Includes weight_copies.
  Bytes saved_activations = 0;
  // The part of saved_activations that is compute_dtype copies of weights (autocast_weights).
  Bytes weight_copies = 0;
  // Bytes that the recompute makes and backward frees again (0 without checkpointing).
  Bytes recomputed_activations = 0;
  // Largest short-lived working set within the layer beyond saved tensors (logits in fp32, unfused
  // scores, gradients of activations). The layer's output and the gradients of its input and output
  // are the caller's.
  Bytes forward_workspace = 0;
  Bytes backward_workspace = 0;
  // Where a workspace is several tensors, the largest of them (the loss's fp32 logits): what an
  // allocator is asked for piece by piece. 0: taken as one tensor.
  Bytes workspace_tensor = 0;
  Bytes output = 0;  // the hidden state handed to the next layer
};

// Throws InputError when the workload does not fit the model (seq_len beyond learned positions).
LayerWork work_of(const Model& model, int layer, const Workload& workload);

// What the host sends for one micro-batch: token ids and labels (int64; bert: segment ids and mask
// too), or fp32 images and labels.
Bytes input_bytes(const Model& model, const Workload& workload);
// The labels among them.
Bytes label_bytes(const Model& model, const Workload& workload);

// The loss by itself (Workload::loss_apart) over the workload's sequences. All of it is zero for a
// model without a loss (model_of_tensors).
struct LossWork {
  std::vector<Kernel> forward, backward;
  Bytes logits = 0;           // what it is given; their gradient is as large
  bool keeps_logits = false;  // backward reads the logits themselves (a fused loss)
  Bytes saved = 0;            // kept from forward to backward, beside the logits
  // Largest working set beside logits, `saved` and the gradient of the logits.
  Bytes forward_workspace = 0;
  Bytes backward_workspace = 0;
};
LossWork loss_of(const Model& model, const Workload& workload);

// ---- Wrap units -------------------------------------------------------------------------------
// Which layers share one FSDP unit (one all-gather, one reduce-scatter).
enum class WrapPolicy : std::uint8_t {
  block,       // each block a unit; embedding, norm and head are the root's
  torchtitan,  // embedding; each block; {norm, head} together with reshard_after_forward=false
};

struct WrapUnit {
  Name name;                        // "root", "layers.3"
  std::vector<int> layers;          // into Model::layers
  std::vector<int> parameters;      // into Model::parameters, registration order
  bool root = false;                // run first forward, never resharded after forward by default
  bool keep_after_forward = false;  // torchtitan's last group
};

// In the order in which forward first enters them. A tied head's parameter is in the root unit
// once (torchtitan policy with tied embeddings: refused with InputError).
std::vector<WrapUnit> wrap_units(const Model& model, WrapPolicy policy);

// ---- FLOPs and sizes by formula ---------------------------------------------------------------
// Training FLOPs of one sequence or image. Text: tokens times the figures below. Images: three
// times the matrix products and convolutions of a forward, four with full checkpointing.
double model_flops_per_sample(const Model& model, const Workload& workload);
double hardware_flops_per_sample(const Model& model, const Workload& workload);

// Training FLOPs a token by the PaLM convention: 6 N + 12 L (a d) s. N leaves out the input tables
// (tokens and positions) when the head has a matrix of its own, and is every parameter when tied;
// of experts it has those that a token meets. Text only. seq_len 0 takes the model's max_positions.
double model_flops_per_token(const Model& model, std::int64_t seq_len);
// With the recomputation that `checkpointing` makes: full counts the forward twice; selective
// counts the attention's two products again where it is unfused, and nothing where it is fused;
// selective_op counts the products that run again.
double hardware_flops_per_token(const Model& model, std::int64_t seq_len,
                                Checkpointing checkpointing, bool fused_attention = true);

// ---- Where models come from -------------------------------------------------------------------
// NAME is a catalog name ("llama-3-8b"), or a path to a Hugging Face config.json (a directory that
// holds one will do), or a stepcast model TOML. Throws InputError naming file, line and key.
// seq_len sizes learned positions where the catalog says so (llm-foundry's MPT), image_size those
// of a vit; 0 = the model's own.
Model load_model(const std::string& name_or_path, std::int64_t seq_len = 0,
                 std::int64_t image_size = 0);
Model model_from_hf_config(const std::string& path, std::int64_t image_size = 0);
std::vector<std::string> catalog_models();
// Throws InputError naming the field when the sizes do not make a model.
Model build_model(const std::string& name, const Architecture& architecture);

// What one of k GPUs holds of a model that they share: every tensor cut along its first dimension
// that k divides, else along the first one, rounded up. With k = 1 the model itself.
Model share_of(Model model, int replica_gpus);

// A model of plain tensors, one layer each: for bucket and padding rules. work_of() gives each a
// backward kernel of no work that marks its parameter ready, and nothing else.
Model model_of_tensors(const std::vector<Parameter>& parameters);

std::string_view to_string(Checkpointing checkpointing);
std::string_view to_string(Fp8Recipe recipe);  // "te-delayed"
std::string_view to_string(LayerKind kind);

}  // namespace stepcast
