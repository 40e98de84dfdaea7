#include "sim/report/trace_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace stepcast {

namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

const char* nccl_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return "f64";
    case Dtype::fp32:
    case Dtype::tf32: return "f32";
    case Dtype::fp16: return "f16";
    case Dtype::bf16: return "bf16";
    case Dtype::fp8: return "f8e4m3";
    case Dtype::int64: return "i64";
    case Dtype::int32: return "i32";
    case Dtype::int8: return "i8";
  }
  return "";
}

const char* nccl_operation(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "AllReduce";
    case CollectiveKind::all_gather: return "AllGather";
    case CollectiveKind::reduce_scatter: return "ReduceScatter";
    case CollectiveKind::broadcast: return "Broadcast";
    case CollectiveKind::reduce: return "Reduce";
    case CollectiveKind::scatter:
    case CollectiveKind::gather: return "SendRecv";
  }
  return "";
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce;
}

}  // namespace

std::string nccl_kernel_name(const Op& collective, const std::string& choice) {
  std::string name = fmt::format("ncclDevKernel_{}", nccl_operation(collective.collective));
  if (reduces(collective.collective)) {
    const char* sum = collective.reduction == Reduction::max ? "Max" : "Sum";
    name += fmt::format("_{}_{}", sum, nccl_dtype(collective.dtype));
  }
  const std::size_t slash = choice.find('/');
  const std::size_t space = choice.find(' ');
  if (slash != std::string::npos && space != std::string::npos && slash < space) {
    name += "_" + upper(choice.substr(0, slash)) + "_" +
            upper(choice.substr(slash + 1, space - slash - 1));
  }
  return name + "(ncclDevKernelArgsStorage<4096ul>)";
}

int nccl_channels(const std::string& choice) {
  const std::size_t space = choice.rfind(' ');
  if (space == std::string::npos || !choice.ends_with("ch")) return 0;
  return std::clamp(std::atoi(choice.c_str() + space + 1), 0, 1024);
}

std::string torch_collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "allreduce";
    case CollectiveKind::all_gather: return "_allgather_base";
    case CollectiveKind::reduce_scatter: return "_reduce_scatter_base";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::reduce: return "reduce";
    case CollectiveKind::scatter: return "scatter";
    case CollectiveKind::gather: return "gather";
  }
  return "";
}

std::string torch_dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return "Double";
    case Dtype::fp32:
    case Dtype::tf32: return "Float";
    case Dtype::fp16: return "Half";
    case Dtype::bf16: return "BFloat16";
    case Dtype::fp8: return "Float8_e4m3fn";
    case Dtype::int64: return "Long";
    case Dtype::int32: return "Int";
    case Dtype::int8: return "Char";
  }
  return "";
}

std::string torch_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 30;
  if (ranks.size() <= most) return fmt::format("[{}]", fmt::join(ranks, ", "));
  return fmt::format("[{}, ..., {}]",
                     fmt::join(ranks.begin(), ranks.begin() + static_cast<int>(most) - 1, ", "),
                     ranks.back());
}

std::string kernel_name(const Kernel& kernel) {
  const std::string_view dtype = to_string(kernel.dtype);
  std::string what;
  switch (kernel.kind) {
    case KernelKind::gemm:
    case KernelKind::convolution:
      what = fmt::format("{}_{}_{}x{}x{}",
                         kernel.kind == KernelKind::gemm ? "gemm" : "implicit_gemm_convolution",
                         dtype, kernel.m, kernel.n, kernel.k);
      if (kernel.batch > 1) what += fmt::format("x{}", kernel.batch);
      break;
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      what = fmt::format("{}attention_{}_{}_{}x{}x{}x{}", kernel.fused ? "flash_" : "",
                         kernel.kind == KernelKind::attention_forward ? "fwd" : "bwd", dtype,
                         kernel.batch, kernel.heads, kernel.m, kernel.k);
      break;
    case KernelKind::memory: what = fmt::format("elementwise_{}", dtype); break;
  }
  if (!kernel.name.empty()) what += " (" + kernel.name.str() + ")";
  return what;
}

std::string memcpy_name(CopyKind kind) {
  switch (kind) {
    case CopyKind::host_to_device: return "Memcpy HtoD (Pinned -> Device)";
    case CopyKind::device_to_host: return "Memcpy DtoH (Device -> Pinned)";
    case CopyKind::device_to_device: return "Memcpy DtoD (Device -> Device)";
    case CopyKind::peer: return "Memcpy PtoP (Device -> Device)";
  }
  return "";
}

}  // namespace stepcast
