#include "cli/gpu_kernels.hpp"

namespace stepcast::cli {

GpuKernels gpu_kernels(const Gpu& gpu) {
  GpuKernels found;
  found.figures = figures_of(gpu);
  found.profile = "pytorch-eager";
  found.dtype = gpu.peak_bf16 ? Dtype::bf16 : Dtype::fp16;
  const Dtype dtype = found.dtype;
  const KernelModel model(gpu, load_profile(found.profile));
  const auto add = [&](const std::string& what, const Kernel& kernel) {
    found.kernels.push_back({what, model.cost(kernel), hardware_flops(kernel),
                             static_cast<double>(kernel.bytes_read + kernel.bytes_written)});
  };
  add("product 8,192 x 4,096 x 4,096", gemm("g", dtype, 8192, 4096, 4096));
  add("product 8,192 x 14,336 x 4,096", gemm("g", dtype, 8192, 14336, 4096));
  add("product 1,024 x 1,024 x 1,024", gemm("g", dtype, 1024, 1024, 1024));
  for (const KernelKind kind : {KernelKind::attention_forward, KernelKind::attention_backward}) {
    add(kind == KernelKind::attention_forward ? "attention 8,192, 32 heads of 128, forward"
                                              : "attention, its backward",
        attention("a", kind, dtype, 1, 32, 8, 8192, 8192, 128, true));
  }
  add("memory, 1 GB read, 1 GB written", memory_bound("m", dtype, 1'000'000'000, 1'000'000'000));
  return found;
}

}  // namespace stepcast::cli
