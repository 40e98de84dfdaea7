#include "models/work_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "models/architecture.hpp"
#include "models/checkpointing.hpp"
#include "models/composition.hpp"
#include "models/fp8.hpp"
#include "models/layout.hpp"

namespace stepcast {
namespace {

// An eager RMSNorm is a chain of kernels in fp32 (transformers' LlamaRMSNorm, and nn.RMSNorm before
// it had a kernel of its own). Bytes an element, E = activation bytes:
//
//   forward          read     written      backward              read     written
//   to fp32          E        4            times weight          E        E
//   square           4        4            weight's grad         2E + E   E      (product, sum)
//   mean             4        -            from E to fp32        E        4
//   times rsqrt      4        4            times rsqrt           4        4
//   to E             4        E            rsqrt's grad          8 + 4    4      (product, sum)
//   times weight     E        E            square's grad         12       12     (x, 2x, times)
//                                          sum of both           8        4
//                                          to E                  4        E
//
// In fp32 the casts fall away. Small tensors (one number a row) are launches without bytes: mean's
// epsilon and rsqrt forward, rsqrt's and mean's gradient backward.
struct PerElement {
  Bytes read = 0;
  Bytes written = 0;
  int launches = 0;
};

PerElement eager_rms_forward(Bytes element) {
  if (element == 4) return {4 + 4 + 4 + 4, 4 + 4 + 4, 6};
  return {element + 4 + 4 + 4 + 4 + element, 4 + 4 + 4 + element + element, 8};
}

PerElement eager_rms_backward(Bytes element) {
  if (element == 4) return {4 + 12 + 4 + 12 + 12 + 8, 4 + 4 + 4 + 4 + 12 + 4, 11};
  return {element + 3 * element + element + 4 + 12 + 12 + 8 + 4,
          element + element + 4 + 4 + 4 + 12 + 4 + element, 13};
}

bool eager_rms(const Sizes& sizes) { return sizes.rms_norm && !sizes.workload->fused_elementwise; }

// a * b * c * ... <= limit, in double.
double product(std::initializer_list<std::int64_t> factors) {
  double result = 1;
  for (const std::int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

}  // namespace

LinearNames::LinearNames(const std::string& name)
    : forward(name),
      cast(name + ".cast"),
      dgrad(name + ".dgrad"),
      wgrad(name + ".wgrad"),
      bias_grad(name + ".bias_grad"),
      grad_cast(name + ".grad_cast"),
      fp8_input(name + ".fp8_input"),
      fp8_weight(name + ".fp8_weight"),
      fp8_gradient(name + ".fp8_gradient") {}

NormNames::NormNames(const std::string& name)
    : forward(name),
      backward(name + ".backward"),
      cast(name + ".cast"),
      grad_cast(name + ".grad_cast") {}

namespace {

// Tokens a sequence.
std::int64_t sequence_of(const Model& model, const Workload& w) {
  const Architecture& a = model.architecture;
  constexpr std::int64_t most_positions = SizeLimits::max_positions;
  if (w.image_size != 0) {
    throw InputError({"", 0, "image_size"},
                     fmt::format("{} says nothing to {}, which reads text; accepted: seq_len",
                                 w.image_size, model.name));
  }
  const std::int64_t seq = w.seq_len == 0 ? a.max_positions : w.seq_len;
  if (w.seq_len == 0 && seq == 0) {
    throw InputError({"", 0, "seq_len"},
                     fmt::format("is missing, and {} has no default; accepted: 1 to {} tokens",
                                 model.name, most_positions));
  }
  if (seq < 1 || seq > most_positions) {
    throw InputError({"", 0, "seq_len"}, fmt::format("{} is out of range; accepted: 1 to {} tokens",
                                                     seq, most_positions));
  }
  if (a.learned_positions && seq > a.max_positions) {
    throw InputError({"", 0, "seq_len"},
                     fmt::format("{} is beyond the {} learned positions of {}; accepted: 1 to {}",
                                 seq, a.max_positions, model.name, a.max_positions));
  }
  return seq;
}

// Pixels a side.
std::int64_t image_of(const Model& model, const Workload& w) {
  const Architecture& a = model.architecture;
  if (w.seq_len != 0) {
    throw InputError({"", 0, "seq_len"},
                     fmt::format("{} says nothing to {}, which reads images; accepted: image_size",
                                 w.seq_len, model.name));
  }
  const std::int64_t side = w.image_size == 0 ? a.image_size : w.image_size;
  if (side < 32 || side > SizeLimits::image_size) {
    throw InputError({"", 0, "image_size"}, fmt::format("{} is out of range; accepted: 32 to {} "
                                                        "pixels",
                                                        side, SizeLimits::image_size));
  }
  if (a.family == Family::vit && side != a.image_size) {
    throw InputError({"", 0, "image_size"},
                     fmt::format("{} is not what {} has positions for; accepted: {}", side,
                                 model.name, a.image_size));
  }
  return side;
}

}  // namespace

Sizes sizes_of(const Model& model, const Workload& w) {
  const Architecture& a = model.architecture;
  if (!takes_checkpointing(a, w.checkpointing)) {
    throw not_accepted({"", 0, "checkpointing"}, to_string(w.checkpointing),
                       checkpointing_levels(a));
  }
  constexpr std::int64_t most_samples = 1ll << 20;
  const bool images = takes_images(a.family);
  if (w.micro_batch < 1 || w.micro_batch > most_samples) {
    throw InputError({"", 0, "micro_batch"},
                     fmt::format("{} is out of range; accepted: 1 to {} {} a rank", w.micro_batch,
                                 most_samples, images ? "images" : "sequences"));
  }
  Sizes z;
  if (images) z.image = image_of(model, w);
  z.seq = !images ? sequence_of(model, w) : a.family == Family::vit ? a.max_positions : 1;
  switch (w.compute_dtype) {
    case Dtype::bf16:
    case Dtype::fp16:
    case Dtype::fp32:
    case Dtype::tf32: break;
    default:
      throw not_accepted({"", 0, "compute_dtype"}, to_string(w.compute_dtype),
                         {"bf16", "fp16", "fp32", "tf32"});
  }
  z.batch = w.micro_batch;
  z.tokens = z.batch * z.seq;
  z.hidden = a.hidden;
  z.query = a.heads * a.head_size;
  z.key = a.kv_heads * a.head_size;
  z.ffn = a.ffn_hidden;
  z.vocabulary = images ? a.classes : a.vocabulary;
  // The largest byte counts below are 128 a token and width, and 32 a score.
  constexpr double limit = 9e18 / 128;
  const std::int64_t longest = a.composition ? std::max(z.seq, longest_of(*a.composition)) : z.seq;
  const std::int64_t composed = a.composition ? widest_of(*a.composition) : 1;
  const double widest =
      std::max({product({z.batch, longest, composed}), product({z.batch, longest, z.hidden}),
                product({z.batch, longest, a.heads, longest}), product({z.tokens, z.hidden}),
                product({z.tokens, z.query}), product({z.tokens, z.ffn}),
                product({z.tokens, z.vocabulary}), product({z.tokens, a.heads, z.seq}),
                product({z.tokens, std::max<std::int64_t>(1, a.experts_per_token), z.ffn}),
                product({z.batch, 64, z.image, z.image})});
  if (widest > limit) {
    throw InputError(
        {"", 0, images ? "micro_batch" : "seq_len"},
        images ? fmt::format("{} images of {} pixels make tensors of {:.1e} elements "
                             "in {}; accepted: at most {:.0e}",
                             z.batch, z.image, widest, model.name, limit)
               : fmt::format("{} with {} sequences a rank makes tensors of {:.1e} elements in "
                             "{}; accepted: at most {:.0e}",
                             z.seq, z.batch, widest, model.name, limit));
  }
  z.scores = z.tokens * a.heads * z.seq;
  z.dtype = w.compute_dtype;
  z.element = bytes_per_element(w.compute_dtype);
  z.casts = w.autocast_weights && z.element < 4;
  z.parameter = z.casts ? 4 : z.element;
  z.stream = z.parameter;
  z.rms_norm = a.composition ? a.composition->rms_norm : has_rms_norm(a.family);
  z.architecture = &a;
  z.workload = &w;
  return z;
}

void linear_forward(const Sizes& z, const Linear& linear, std::vector<Kernel>& list) {
  if (runs_in_fp8(z, linear)) {
    fp8_linear_forward(z, linear, list);
    return;
  }
  if (z.casts) {
    const std::int64_t elements = linear.in * linear.out + (linear.bias >= 0 ? linear.out : 0);
    list.push_back(memory_bound(linear.names.cast, z.dtype, z.parameter * elements,
                                z.element * elements, linear.bias >= 0 ? 2 : 1));
  }
  list.push_back(gemm(linear.names.forward, z.dtype, z.tokens, linear.out, linear.in));
}

void linear_backward(const Sizes& z, const Linear& linear, std::vector<BackwardKernel>& list) {
  if (runs_in_fp8(z, linear)) {
    fp8_linear_backward(z, linear, list);
  } else {
    if (linear.bias >= 0) {
      // A sum over tokens; autocast casts the few numbers to fp32 in a launch of its own.
      BackwardKernel& sum = list.emplace_back();
      sum.kernel = memory_bound(linear.names.bias_grad, z.dtype, z.element * z.tokens * linear.out,
                                z.parameter * linear.out, z.casts ? 2 : 1);
      sum.ready.push_back(linear.bias);
    }
    list.push_back(
        marks_nothing(gemm(linear.names.dgrad, z.dtype, z.tokens, linear.in, linear.out)));
    list.push_back(
        marks_nothing(gemm(linear.names.wgrad, z.dtype, linear.out, linear.in, z.tokens)));
  }
  if (z.casts) {
    const std::int64_t elements = linear.in * linear.out;
    list.push_back(marks_nothing(memory_bound(linear.names.grad_cast, z.dtype, z.element * elements,
                                              z.parameter * elements)));
  }
  if (linear.weight >= 0) list.back().ready.push_back(linear.weight);
}

void norm_forward(const Sizes& z, const Norm& norm, std::vector<Kernel>& list, bool added) {
  const std::int64_t elements = norm.rows * norm.width;
  const Bytes weights = z.parameter * norm.width * (norm.bias >= 0 ? 2 : 1);
  if (z.workload->fused_elementwise) {
    // The cast is part of the kernel.
    list.push_back(memory_bound(norm.names.forward, z.dtype,
                                (norm.input + (added ? z.element : 0)) * elements + weights,
                                (z.element + (added ? norm.input : 0)) * elements));
    return;
  }
  if (z.rms_norm) {
    const PerElement each = eager_rms_forward(norm.input);
    list.push_back(memory_bound(norm.names.forward, z.dtype, each.read * elements + weights,
                                each.written * elements, each.launches));
  } else {
    list.push_back(memory_bound(norm.names.forward, z.dtype, norm.input * elements + weights,
                                norm.input * elements));
  }
  if (norm.input > z.element) {
    list.push_back(
        memory_bound(norm.names.cast, z.dtype, norm.input * elements, z.element * elements));
  }
}

void norm_backward(const Sizes& z, const Norm& norm, std::vector<BackwardKernel>& list,
                   int gradients, bool joined) {
  const std::int64_t elements = norm.rows * norm.width;
  const Bytes weights = z.parameter * norm.width * (norm.bias >= 0 ? 2 : 1);
  const bool fused = z.workload->fused_elementwise;
  if (!fused && norm.input > z.element) {
    list.push_back(marks_nothing(
        memory_bound(norm.names.grad_cast, z.dtype, z.element * elements, norm.input * elements)));
  }
  BackwardKernel& backward = list.emplace_back();
  if (eager_rms(z)) {
    const PerElement each = eager_rms_backward(norm.input);
    backward.kernel = memory_bound(norm.names.backward, z.dtype, each.read * elements + weights,
                                   each.written * elements + weights, each.launches);
  } else {
    // Two kernels read the gradient and the input: one for the input's gradient (which takes the
    // residual's along where joined), one for the sums over rows.
    const Bytes gradient = fused ? z.element * gradients : norm.input;
    const Bytes read = 2 * (gradient + norm.input) + (joined ? norm.input : 0);
    backward.kernel = memory_bound(norm.names.backward, z.dtype, read * elements + weights,
                                   norm.input * elements + weights, 2);
  }
  if (norm.weight >= 0) backward.ready.push_back(norm.weight);
  if (norm.bias >= 0) backward.ready.push_back(norm.bias);
}

Kernel elementwise(const Sizes& z, Name name, std::int64_t read, std::int64_t write, int launches) {
  return memory_bound(name, z.dtype, z.element * read, z.element * write, launches);
}

Kernel dropout_forward(const Sizes& z, Name name, std::int64_t elements, Bytes element) {
  return memory_bound(name, z.dtype, element * elements, (element + 1) * elements);
}

Kernel dropout_backward(const Sizes& z, Name name, std::int64_t elements, Bytes element) {
  return memory_bound(name, z.dtype, (element + 1) * elements, element * elements);
}

Bytes norm_workspace(const Sizes& z, std::int64_t elements) {
  return eager_rms(z) ? 8 * elements : 0;
}

}  // namespace stepcast
