#include "sim/report/trace_kernels.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/report/trace_names.hpp"

namespace stepcast {

namespace {

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string TraceKernels::collective_args(const Op& op, int rank) const {
  const Communicator& comm = schedule_.communicators[static_cast<std::size_t>(op.comm)];
  const std::int64_t n = schedule_.mesh.size(comm.axis);
  const bool gathers =
      op.collective == CollectiveKind::all_gather || op.collective == CollectiveKind::gather;
  const bool scatters =
      op.collective == CollectiveKind::reduce_scatter || op.collective == CollectiveKind::scatter;
  return fmt::format(
      R"("Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":{},"dtype":"{}","In split size":"[]","Out split size":"[]","Process Group Name":"{}","Process Group Description":{},"Process Group Ranks":"{}")",
      torch_collective_name(op.collective), gathers ? op.elements / n : op.elements,
      scatters ? op.elements / n : op.elements, n, torch_dtype_name(op.dtype), op.comm,
      json_text(comm.name.str()), group_ranks(comm.axis, rank));
}

const std::string& TraceKernels::group_ranks(Axis axis, int rank) const {
  const auto [at, fresh] = ranks_.emplace(std::pair(axis, rank), "");
  if (fresh) at->second = torch_ranks(ranks_of_group(schedule_.mesh, axis, rank));
  return at->second;
}

std::vector<TraceKernel> TraceKernels::of(const Op& op, const std::string& choice,
                                          const std::string& name, int rank) const {
  TraceKernel slice;
  if (op.kind == OpKind::copy) {
    slice.name = memcpy_name(op.copy);
    slice.category = "gpu_memcpy";
    slice.launch = "cudaMemcpyAsync";
    slice.args = fmt::format(R"(,"bytes":{})", op.bytes);
    return {slice};
  }
  if (op.kind == OpKind::collective) {
    const Communicator& comm = schedule_.communicators[static_cast<std::size_t>(op.comm)];
    const bool copies =
        op.collective == CollectiveKind::scatter || op.collective == CollectiveKind::gather;
    if (copies || schedule_.mesh.size(comm.axis) < 2) {
      slice.name = memcpy_name(copies ? CopyKind::peer : CopyKind::device_to_device);
      slice.category = "gpu_memcpy";
      slice.launch = "cudaMemcpyAsync";
      slice.args = fmt::format(R"(,"bytes":{})", bytes_of(op));
      return {slice};
    }
    slice.name = nccl_kernel_name(op, choice);
    slice.launch = "cudaLaunchKernelExC";
    slice.nccl = true;
    if (const int channels = nccl_channels(choice); channels > 0) {
      slice.args = fmt::format(R"(,"grid":[{},1,1])", channels);
    }
    slice.args += ',' + collective_args(op, rank);
    return {slice};
  }
  std::vector<TraceKernel> out;
  double total = 0;
  if (options_.kernel_seconds) {
    for (const Kernel& kernel : schedule_.at_kernels(op.kernels)) {
      TraceKernel& each = out.emplace_back();
      each.name = kernel_name(kernel);
      if (op.phase == Phase::optimizer) each.name = "optimizer_" + each.name;
      each.share = options_.kernel_seconds(kernel);
      total += each.share;
    }
  }
  if (out.empty() || !(total > 0)) {
    slice.name = name;
    return {slice};
  }
  for (TraceKernel& each : out) each.share /= total;
  return out;
}

}  // namespace stepcast
