#include "sim/collectives/nccl/rules.hpp"

#include "sim/collectives/nccl/model.hpp"

namespace stepcast::nccl {
namespace {

bool ll128_enabled(const Constants& constants, const CommShape& comm, const GraphResult& graph) {
  const int cc = comm.min_compute_capability;
  if (cc < 70) return false;  // no 128-byte stores that stay whole
  const bool uniform = comm.min_compute_capability == comm.max_compute_capability;
  if (!uniform && !(constants.ll128_mixed_hopper && cc >= 90)) return false;
  if (graph.type_intra > PathType::nvb) return false;
  return graph.type_inter <= (cc >= 90 ? PathType::pxn : PathType::pxb);
}

bool nvls_enabled(const CommShape& comm, const SearchResult& search, CollectiveKind f) {
  if (!comm.settings.nvls) return false;
  if (!comm.nvls_supported || search.nvls.channels < 2) return false;
  return f == CollectiveKind::all_reduce || comm.max_local_ranks <= 32;
}

}  // namespace

bool exists(CollectiveKind f, NcclAlgorithm a, NcclProtocol p) {
  if (a != NcclAlgorithm::ring && a != NcclAlgorithm::tree && p != NcclProtocol::simple) {
    return false;
  }
  switch (f) {
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return a == NcclAlgorithm::ring;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return a == NcclAlgorithm::ring || a == NcclAlgorithm::nvls ||
             a == NcclAlgorithm::collnet_direct || a == NcclAlgorithm::pat;
    case CollectiveKind::all_reduce: return a != NcclAlgorithm::pat;
    case CollectiveKind::scatter:
    case CollectiveKind::gather: return false;  // peer copies, not NCCL's collectives
  }
  return false;
}

bool enabled(const Constants& constants, const CommShape& comm, const SearchResult& search,
             CollectiveKind f, NcclAlgorithm a, NcclProtocol p) {
  if (!exists(f, a, p)) return false;
  const TunerSettings& said = comm.settings;
  const auto fi = static_cast<std::size_t>(f);
  if ((said.algorithms[fi] >> static_cast<int>(a) & 1) == 0) return false;
  if ((said.protocols[fi] >> static_cast<int>(p) & 1) == 0) return false;
  if (p == NcclProtocol::ll128 && !said.protocols_said &&
      !ll128_enabled(constants, comm, graph_of(search, a))) {
    return false;
  }
  switch (a) {
    case NcclAlgorithm::ring:
    case NcclAlgorithm::tree: return true;
    case NcclAlgorithm::collnet_direct:
    case NcclAlgorithm::collnet_chain: return false;
    case NcclAlgorithm::nvls: return comm.nodes == 1 && nvls_enabled(comm, search, f);
    case NcclAlgorithm::nvls_tree: return comm.nodes > 1 && nvls_enabled(comm, search, f);
    case NcclAlgorithm::pat:
      if (comm.settings.pat == 0) return false;
      return comm.min_compute_capability >= 60 && comm.nodes == comm.ranks && comm.nodes > 1;
  }
  return false;
}

bool nvls_reduces(Dtype dtype, Reduction reduction) {
  if (reduction == Reduction::none) return true;  // all-gather only moves bytes
  if (reduction == Reduction::avg) return false;
  switch (dtype) {
    case Dtype::int32:
    case Dtype::int64:
    case Dtype::fp16:
    case Dtype::bf16: return true;
    case Dtype::fp32:
    case Dtype::tf32:
    case Dtype::fp64: return reduction == Reduction::sum;
    case Dtype::fp8:
    case Dtype::int8: return false;
  }
  return false;
}

}  // namespace stepcast::nccl
