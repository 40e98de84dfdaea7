#pragma once
// What a GPU kernel does, by its name: kernels of cuBLAS, cuDNN, CUTLASS, FlashAttention, ATen,
// Triton, Tensile (AMD), and those of stepcast's own traces.
//
//   "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT"             gemm
//   "void cutlass::device_kernel<flash::enable_sm90...>"    attention, although CUTLASS
//   "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)"     collective
//   "triton_poi_fused__to_copy_t_8"                         fused: what it fuses, nobody knows
//
// A name that nothing fits is `other`, not a guess. Tested by tests/unit/interop/trace_test.cpp.

#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

enum class KernelClass : std::uint8_t {
  gemm,
  attention,
  convolution,
  normalisation,  // layer, batch and RMS norms, softmax, losses
  elementwise,    // activations, casts, sums, dropout
  fused,          // torch.compile's
  optimizer,
  copy,  // device copies, concatenation, memcpy, memset
  collective,
  other,
};
constexpr int kernel_classes = 10;

std::string_view to_string(KernelClass what);
KernelClass class_of_kernel(std::string_view name);

// "all_gather", "send_recv", ... of an NCCL or RCCL kernel's name; "" where it does not say
// (RCCL's ncclDevKernel_Generic).
std::string collective_of_kernel(std::string_view name);

}  // namespace stepcast
