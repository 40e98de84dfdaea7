#pragma once
// Names as PyTorch, CUDA and NCCL write them into a trace. Tested by
// tests/unit/report/trace_test.cpp.

#include <string>
#include <vector>

#include "base/kernel.hpp"
#include "base/units.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

// "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)" of a choice
// like "Ring/Simple 24ch"; of another text the name ends before the algorithm.
std::string nccl_kernel_name(const Op& collective, const std::string& choice);
int nccl_channels(const std::string& choice);  // 24; 0 where the text does not say

// "_allgather_base", "allreduce": PyTorch's "Collective name".
std::string torch_collective_name(CollectiveKind kind);
// "BFloat16", "Float": the c10 name of a dtype.
std::string torch_dtype_name(Dtype dtype);
// "[0, 1, 2, 3]"; of more than 30 ranks the first ones, "..." and the last, as PyTorch does.
std::string torch_ranks(const std::vector<int>& ranks);

// "gemm_bf16_8192x4096x14336 (mlp_down)": what the kernel does, by size, and the model's name of
// it.
std::string kernel_name(const Kernel& kernel);
// "Memcpy HtoD (Pinned -> Device)"
std::string memcpy_name(CopyKind kind);

}  // namespace stepcast
