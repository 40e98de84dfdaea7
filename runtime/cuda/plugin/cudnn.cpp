#include "runtime/cuda/plugin/cudnn.hpp"

#include <array>
#include <cmath>

#include "runtime/cuda/plugin/check.hpp"

#if __has_include(<cudnn.h>)

// The SDPA descriptors came with cuDNN 9.13 (forward) and 9.15 (backward); with older headers this
// file still builds and says so.
#if CUDNN_MAJOR > 9 || (CUDNN_MAJOR == 9 && CUDNN_MINOR >= 15)
#define STEPCAST_HAS_SDPA 1
#else
#define STEPCAST_HAS_SDPA 0
#endif

namespace stepcast::cuda {

using runtime::GpuError;

namespace {

// Numbers of the tensors in a graph.
enum Id : std::int64_t { q = 1, k, v, o, dq, dk, dv, d_o, statistics, scale };

std::int64_t rounded(std::int64_t bytes) { return round_up(bytes, 256); }

}  // namespace

Cudnn::Cudnn()
    : library_(runtime::Library::open({"libcudnn.so." + std::to_string(CUDNN_MAJOR), "libcudnn.so"},
                                      "STEPCAST_CUDNN")) {
  library_.get("cudnnGetVersion", get_version_);
  library_.get("cudnnCreate", create_);
  library_.get("cudnnSetStream", set_stream_);
  library_.get("cudnnBackendCreateDescriptor", make_);
  library_.get("cudnnBackendDestroyDescriptor", destroy_);
  library_.get("cudnnBackendSetAttribute", set_);
  library_.get("cudnnBackendGetAttribute", get_);
  library_.get("cudnnBackendFinalize", finalize_);
  library_.get("cudnnBackendExecute", execute_);
  library_.get("cudnnGetErrorString", error_string_);
}

std::string Cudnn::version() const {
  const std::size_t v = get_version_();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

void Cudnn::check(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw GpuError(std::string(call) + ": " + error_string_(status));
}

cudnnHandle_t Cudnn::handle() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const std::lock_guard<std::mutex> lock(mutex_);
  cudnnHandle_t& mine = handles_[device];
  if (mine == nullptr) check(create_(&mine), "cudnnCreate");
  return mine;
}

Cudnn::Descriptor Cudnn::make(cudnnBackendDescriptorType_t type, const char* what) {
  Descriptor descriptor = nullptr;
  check(make_(type, &descriptor), what);
  return descriptor;
}

void Cudnn::set(Descriptor to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                std::int64_t count, const void* values) {
  check(set_(to, name, type, count, values), "cudnnBackendSetAttribute");
}

Cudnn::Descriptor Cudnn::tensor(std::int64_t id, cudnnDataType_t type,
                                const std::vector<std::int64_t>& sizes, bool by_value) {
  Descriptor t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * sizes[i + 1];
  const std::int64_t alignment = 16;
  const auto rank = static_cast<std::int64_t>(sizes.size());
  set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, sizes.data());
  set(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  if (by_value) set(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  check(finalize_(t), "finalizing a tensor");
  return t;
}

SdpaPlan Cudnn::plan([[maybe_unused]] const Kernel& a) {
#if !STEPCAST_HAS_SDPA
  throw GpuError("built with cuDNN " + std::to_string(CUDNN_MAJOR) + "." +
                 std::to_string(CUDNN_MINOR) + ", which has no SDPA operation");
#else
  if (get_version_() < 91500) throw GpuError("cuDNN " + version() + " has no SDPA operation");
  if (a.dtype != Dtype::bf16 && a.dtype != Dtype::fp16) throw GpuError("16-bit types only");
  const bool backward = a.kind == KernelKind::attention_backward;
  const cudnnDataType_t type = a.dtype == Dtype::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  const std::int64_t keys = a.causal ? std::max<std::int64_t>(a.n / 2, 1) : a.n;
  const std::vector<std::int64_t> query{a.batch, a.heads, a.m, a.k};
  const std::vector<std::int64_t> key{a.batch, a.kv_heads, keys, a.k};
  SdpaPlan result;
  result.backward = backward;
  result.queries = 2 * a.batch * a.heads * a.m * a.k;
  result.keys = 2 * a.batch * a.kv_heads * keys * a.k;
  result.statistics = 4 * a.batch * a.heads * a.m;

  const Descriptor operation = make(backward ? CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR
                                             : CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                                    "SDPA operation");
  const auto give = [&](cudnnBackendAttributeName_t name, const Descriptor& t) {
    set(operation, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t);
  };
  const Descriptor rows = tensor(statistics, CUDNN_DATA_FLOAT, {a.batch, a.heads, a.m, 1});
  const Descriptor factor = tensor(scale, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, true);
  if (!backward) {
    give(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, tensor(q, type, query));
    give(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, tensor(k, type, key));
    give(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, tensor(v, type, key));
    give(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(o, type, query));
    give(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, rows);
    give(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, factor);
  } else {
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, tensor(q, type, query));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, tensor(k, type, key));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, tensor(v, type, key));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, tensor(o, type, query));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, tensor(d_o, type, query));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, rows);
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, factor);
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, tensor(dq, type, query));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, tensor(dk, type, key));
    give(CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, tensor(dv, type, key));
  }
  check(finalize_(operation), "finalizing the SDPA operation");

  const Descriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "graph");
  cudnnHandle_t h = handle();
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
  check(finalize_(graph), "finalizing the graph");

  const Descriptor heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristic");
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  check(finalize_(heuristic), "asking for engines");
  std::array<Descriptor, 8> engines{};
  for (Descriptor& engine : engines) engine = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine");
  std::int64_t found = 0;
  check(get_(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<std::int64_t>(engines.size()), &found, engines.data()),
        "asking for engines");
  std::string why = "no engine";
  for (std::int64_t e = 0; e < found; ++e) {
    const Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan");
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &engines[static_cast<std::size_t>(e)]);
    const cudnnStatus_t status = finalize_(plan);
    if (status != CUDNN_STATUS_SUCCESS) {
      why = error_string_(status);
      destroy_(plan);
      continue;
    }
    std::int64_t count = 0;
    check(get_(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
               &result.workspace),
          "asking for the workspace");
    result.plan = plan;
    return result;
  }
  throw GpuError("no SDPA engine for this shape on this GPU (" + why + ")");
#endif
}

runtime::GpuKernels::Room Cudnn::room_of(const SdpaPlan& p) {
  const Bytes query = rounded(p.queries);
  const Bytes key = rounded(p.keys);
  const Bytes rows = rounded(p.statistics);
  const Bytes workspace = rounded(p.workspace);
  if (!p.backward) return {query + 2 * key, query + rows + workspace};
  return {3 * query + 2 * key + rows, query + 2 * key + workspace};
}

void Cudnn::launch(const SdpaPlan& p, cudaStream_t stream, std::byte* read, std::byte* written) {
  std::vector<std::int64_t> ids;
  std::vector<void*> places;
  const auto lay = [&](Id id, std::int64_t bytes, std::byte*& next) {
    ids.push_back(id);
    places.push_back(next);
    next += rounded(bytes);
  };
  lay(q, p.queries, read);
  lay(k, p.keys, read);
  lay(v, p.keys, read);
  std::byte*& other = p.backward ? read : written;
  lay(o, p.queries, other);
  lay(statistics, p.statistics, other);
  if (p.backward) {
    lay(d_o, p.queries, read);
    lay(dq, p.queries, written);
    lay(dk, p.keys, written);
    lay(dv, p.keys, written);
  }
  float factor = 0.125F;  // its value does not change the time
  ids.push_back(scale);
  places.push_back(&factor);
  void* workspace = written;
  const Descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack");
  const auto count = static_cast<std::int64_t>(ids.size());
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, places.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  check(finalize_(pack), "finalizing the variant pack");
  const cudnnHandle_t h = handle();
  const std::lock_guard<std::mutex> lock(mutex_);
  check(set_stream_(h, stream), "cudnnSetStream");
  const cudnnStatus_t status = execute_(h, p.plan, pack);
  destroy_(pack);
  check(status, "cudnnBackendExecute");
}

}  // namespace stepcast::cuda

#endif  // cudnn.h
