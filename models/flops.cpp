// FLOPs a token by the conventions that MFU and HFU are printed with.
//
//   model     6 N + 12 L (a d) s             PaLM, appendix B: forward 2 N + 4 L (a d) s, backward
//                                            twice that; the full s x s square though it is causal
//   hardware  8 N + 16 L (a d) s             full recomputation: the forward once more
//             model + 4 L (a d) s            selective with unfused attention: its core once more
//
// A mixture of experts has in N the experts that one token meets. Images have no such convention:
// three times the products of a forward, four with full recomputation; ResNet-50 at 224 pixels is
// 3 x 8.18 GFLOP an image (4.09 G multiply-adds).
//
// N: all parameters where the head is tied (the table is used as a matrix once), else all but the
// input tables. That is how published tables count: Llama-3-8B at 8,192 is 57.914 GFLOP a token,
// MPT-7B at 2,048 is 43.174. Norms, biases and learned positions are in N although they multiply
// nothing; the kernels of work_of() leave them out, at most 1 % (gpt2) of N.
// Tested by tests/unit/models/flops_test.cpp.

#include <vector>

#include "base/error.hpp"
#include "models/composition.hpp"
#include "models/model.hpp"

namespace stepcast {
namespace {

struct Terms {
  double parameters = 0;  // N
  double attention = 0;   // L (a d) s
};

Terms formula_terms(const Model& model, std::int64_t seq_len) {
  const Architecture& a = model.architecture;
  const std::int64_t length = seq_len == 0 ? a.max_positions : seq_len;
  if (length <= 0) {
    throw InputError({"", 0, "seq_len"}, std::to_string(length) +
                                             " is not a sequence length; accepted: 1 or more (" +
                                             model.name + " has no default)");
  }
  STEPCAST_ASSERT(!takes_images(a.family), "FLOPs a token are asked of text models");
  Terms terms;
  if (a.family == Family::composed) {
    const ComposedTerms of_parts = terms_of(model, length);
    return {of_parts.parameters, of_parts.attention};
  }
  terms.parameters =
      static_cast<double>(model.active_parameter_elements() -
                          (a.tied_embeddings ? 0 : model.input_embedding_elements()));
  terms.attention = static_cast<double>(a.layers) * static_cast<double>(a.heads * a.head_size) *
                    static_cast<double>(length);
  return terms;
}

// Matrix products and convolutions of one image's forward.
double forward_flops(const Model& model, const Workload& workload) {
  Workload one;
  one.micro_batch = 1;
  one.image_size = workload.image_size;
  std::vector<double> by_class(static_cast<std::size_t>(model.shape_classes), -1.0);
  double sum = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    double& flops = by_class[static_cast<std::size_t>(model.layers[i].shape_class)];
    if (flops < 0) {
      flops = 0;
      for (const Kernel& k : work_of(model, static_cast<int>(i), one).forward) {
        flops += model_flops(k);
      }
    }
    sum += flops;
  }
  return sum;
}

// Products that run again, a token.
double recomputed_flops(const Model& model, std::int64_t seq_len, Checkpointing checkpointing,
                        bool fused_attention) {
  Workload one;
  one.seq_len = seq_len == 0 ? model.architecture.max_positions : seq_len;
  one.checkpointing = checkpointing;
  one.fused_attention = fused_attention;
  std::vector<double> by_class(static_cast<std::size_t>(model.shape_classes), -1.0);
  double sum = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    double& flops = by_class[static_cast<std::size_t>(model.layers[i].shape_class)];
    if (flops < 0) {
      flops = 0;
      for (const Kernel& k : work_of(model, static_cast<int>(i), one).recompute) {
        flops += model_flops(k);
      }
    }
    sum += flops;
  }
  return sum / static_cast<double>(one.seq_len);
}

std::int64_t tokens_of(const Model& model, const Workload& w) {
  return w.seq_len == 0 ? model.architecture.max_positions : w.seq_len;
}

}  // namespace

double model_flops_per_sample(const Model& model, const Workload& w) {
  if (takes_images(model.architecture.family)) return 3.0 * forward_flops(model, w);
  return static_cast<double>(tokens_of(model, w)) * model_flops_per_token(model, w.seq_len);
}

double hardware_flops_per_sample(const Model& model, const Workload& w) {
  if (takes_images(model.architecture.family)) {
    return (w.checkpointing == Checkpointing::full ? 4.0 : 3.0) * forward_flops(model, w);
  }
  return static_cast<double>(tokens_of(model, w)) *
         hardware_flops_per_token(model, w.seq_len, w.checkpointing, w.fused_attention);
}

double model_flops_per_token(const Model& model, std::int64_t seq_len) {
  const Terms terms = formula_terms(model, seq_len);
  return 6.0 * terms.parameters + 12.0 * terms.attention;
}

double hardware_flops_per_token(const Model& model, std::int64_t seq_len,
                                Checkpointing checkpointing, bool fused_attention) {
  const Terms terms = formula_terms(model, seq_len);
  switch (checkpointing) {
    case Checkpointing::none: break;
    case Checkpointing::full: return 8.0 * terms.parameters + 16.0 * terms.attention;
    case Checkpointing::selective:
      return 6.0 * terms.parameters + (fused_attention ? 12.0 : 16.0) * terms.attention;
    case Checkpointing::selective_op:
      return 6.0 * terms.parameters + 12.0 * terms.attention +
             recomputed_flops(model, seq_len, checkpointing, fused_attention);
  }
  return 6.0 * terms.parameters + 12.0 * terms.attention;
}

}  // namespace stepcast
