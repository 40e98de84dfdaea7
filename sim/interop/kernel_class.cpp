#include "sim/interop/kernel_class.hpp"

#include <algorithm>

#include "base/letters.hpp"

namespace stepcast {

namespace {

struct Rule {
  const char* part;  // lower case, anywhere in the name
  KernelClass what;
};

// The first that fits counts: FlashAttention is CUTLASS too, and cuDNN's convolutions are GEMMs by
// name; an op of optimizers that Triton fused is still Triton's.
constexpr Rule rules[] = {{"triton_", KernelClass::fused},
                          {"flash", KernelClass::attention},
                          {"fmha", KernelClass::attention},
                          {"attention", KernelClass::attention},
                          {"attn_", KernelClass::attention},
                          {"sdpa", KernelClass::attention},
                          {"softmax", KernelClass::normalisation},
                          {"norm", KernelClass::normalisation},
                          {"gammabeta", KernelClass::normalisation},
                          {"bn_fw", KernelClass::normalisation},
                          {"bn_bw", KernelClass::normalisation},
                          {"nll_loss", KernelClass::normalisation},
                          {"cross_entropy", KernelClass::normalisation},
                          {"multi_tensor_apply", KernelClass::optimizer},
                          {"multitensorapply", KernelClass::optimizer},
                          {"adam", KernelClass::optimizer},
                          {"optimizer", KernelClass::optimizer},
                          {"sgd_", KernelClass::optimizer},
                          {"lamb_", KernelClass::optimizer},
                          {"convolution", KernelClass::convolution},
                          {"conv2d", KernelClass::convolution},
                          {"conv::", KernelClass::convolution},
                          {"conv_", KernelClass::convolution},
                          {"4conv6kernel", KernelClass::convolution},
                          {"fprop", KernelClass::convolution},
                          {"dgrad", KernelClass::convolution},
                          {"wgrad", KernelClass::convolution},
                          {"winograd", KernelClass::convolution},
                          {"implicitgem", KernelClass::convolution},
                          {"implicit_gemm", KernelClass::convolution},
                          {"nchwtonhwc", KernelClass::convolution},
                          {"nhwctonchw", KernelClass::convolution},
                          {"gemm", KernelClass::gemm},
                          {"nvjet", KernelClass::gemm},
                          {"gemv", KernelClass::gemm},
                          {"cublas", KernelClass::gemm},
                          {"cutlass", KernelClass::gemm},
                          {"splitkreduce", KernelClass::gemm},
                          {"cijk_", KernelClass::gemm},
                          {"matmul", KernelClass::gemm},
                          {"catarray", KernelClass::copy},
                          {"split_with_sizes_copy", KernelClass::copy},
                          {"chunk_cat", KernelClass::copy},
                          {"copy", KernelClass::copy},
                          {"memcpy", KernelClass::copy},
                          {"memset", KernelClass::copy},
                          {"fill", KernelClass::copy},
                          {"elementwise", KernelClass::elementwise},
                          {"reduce_kernel", KernelClass::elementwise},
                          {"dropout", KernelClass::elementwise},
                          {"embedding", KernelClass::elementwise},
                          {"index", KernelClass::elementwise},
                          {"gelu", KernelClass::elementwise},
                          {"silu", KernelClass::elementwise},
                          {"relu", KernelClass::elementwise},
                          {"pool", KernelClass::elementwise}};

struct Collective {
  const char* part;
  const char* kind;
};
// "Reduce_" only after those that it is a part of.
constexpr Collective collectives[] = {
    {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"},
    {"broadcast", "broadcast"},  {"sendrecv", "send_recv"},   {"alltoall", "all_to_all"},
    {"_reduce_", "reduce"}};

constexpr std::size_t longest = 400;  // letters: what follows are template arguments

}  // namespace

std::string_view to_string(KernelClass what) {
  switch (what) {
    case KernelClass::gemm: return "gemm";
    case KernelClass::attention: return "attention";
    case KernelClass::convolution: return "convolution";
    case KernelClass::normalisation: return "normalisation";
    case KernelClass::elementwise: return "elementwise";
    case KernelClass::fused: return "fused";
    case KernelClass::optimizer: return "optimizer";
    case KernelClass::copy: return "copy";
    case KernelClass::collective: return "collective";
    case KernelClass::other: return "other";
  }
  return "";
}

KernelClass class_of_kernel(std::string_view name) {
  const std::string text = lower(std::string_view(name).substr(0, longest));
  for (const char* start : {"nccl", "void nccl", "rccl", "void rccl"}) {
    if (text.starts_with(start)) return KernelClass::collective;
  }
  if (text.starts_with("gemm_")) return KernelClass::gemm;  // stepcast's, of a ".wgrad" too
  for (const Rule& rule : rules) {
    if (text.find(rule.part) != std::string::npos) return rule.what;
  }
  return KernelClass::other;
}

std::string collective_of_kernel(std::string_view name) {
  const std::string text = lower(std::string_view(name).substr(0, longest));
  for (const Collective& each : collectives) {
    if (text.find(each.part) != std::string::npos) return each.kind;
  }
  return "";
}

}  // namespace stepcast
