#include "runtime/cuda/plugin/nccl.hpp"

#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/cuda/library.hpp"
#include "runtime/cuda/plugin/check.hpp"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error "NCCL 2.18 or later: communicators are made by ncclCommSplit"
#endif

namespace stepcast::runtime {

struct GpuComm {
  ncclComm_t comm = nullptr;  // NCCL may write it after the call that made it
  std::string name;           // NCCL keeps the pointer
  int ranks = 0;              // 0: ask
  int rank = -1;
};

}  // namespace stepcast::runtime

namespace stepcast::cuda {

using runtime::Collective;
using runtime::CommOptions;
using runtime::CommState;
using runtime::GpuComm;
using runtime::GpuError;
using runtime::GpuStream;
using runtime::Operands;

namespace {

constexpr int oldest = NCCL_VERSION(2, 18, 0);

std::string words(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

ncclDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return ncclFloat64;
    case Dtype::fp32:
    case Dtype::tf32: return ncclFloat32;
    case Dtype::fp16: return ncclFloat16;
    case Dtype::bf16: return ncclBfloat16;
    case Dtype::int64: return ncclInt64;
    case Dtype::int32: return ncclInt32;
    case Dtype::int8: return ncclInt8;
    case Dtype::fp8:
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
      return ncclFloat8e4m3;
#else
      return ncclInt8;
#endif
  }
  return ncclInt8;
}

ncclRedOp_t reduction_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::avg: return ncclAvg;
    case Reduction::max: return ncclMax;
    case Reduction::none:
    case Reduction::sum: break;
  }
  return ncclSum;
}

class Nccl : public runtime::GpuCollectives {
 public:
  Nccl() : library_(runtime::Library::open({"libnccl.so.2", "libnccl.so"}, "STEPCAST_NCCL")) {
    get("ncclGetVersion", get_version_);
    if (get_version_(&version_) != ncclSuccess || version_ < oldest) {
      throw GpuError(library_.name() + " is NCCL " + words(version_) + "; accepted: 2.18 or later");
    }
    get("ncclGetUniqueId", get_unique_id_);
    get("ncclCommInitRankConfig", init_);
    get("ncclCommSplit", split_);
    get("ncclCommCount", count_);
    get("ncclCommUserRank", user_rank_);
    get("ncclCommGetAsyncError", async_error_);
    get("ncclCommFinalize", finalize_);
    get("ncclCommDestroy", destroy_);
    get("ncclCommAbort", abort_);
    get("ncclGetErrorString", error_string_);
    get("ncclGetLastError", last_error_);
    get("ncclAllReduce", all_reduce_);
    get("ncclAllGather", all_gather_);
    get("ncclReduceScatter", reduce_scatter_);
    get("ncclBroadcast", broadcast_);
    get("ncclReduce", reduce_);
    get("ncclSend", send_);
    get("ncclRecv", recv_);
    get("ncclGroupStart", group_start_);
    get("ncclGroupEnd", group_end_);
  }

  int version() override { return version_; }

  std::string unique_id() override {
    ncclUniqueId id;
    check(get_unique_id_(&id), "ncclGetUniqueId", nullptr);
    return std::string(id.internal, sizeof(id.internal));
  }

  GpuComm* join(int ranks, const std::string& id, int rank, const CommOptions& options) override {
    ncclUniqueId unique{};
    if (id.size() != sizeof(unique.internal)) throw GpuError("NCCL's unique id has a wrong size");
    std::memcpy(unique.internal, id.data(), id.size());
    auto comm = std::make_unique<GpuComm>();
    ncclConfig_t config = config_of(options, *comm);
    check(init_(&comm->comm, ranks, unique, rank, &config), "ncclCommInitRankConfig", nullptr);
    return comm.release();
  }

  GpuComm* split(GpuComm* parent, int color, int key, const CommOptions& options) override {
    auto comm = std::make_unique<GpuComm>();
    ncclConfig_t config = config_of(options, *comm);
    check(split_(parent->comm, color, key, &comm->comm, &config), "ncclCommSplit", parent);
    return comm.release();
  }

  CommState state(GpuComm* comm) override {
    if (comm->comm == nullptr) return CommState::in_progress;
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = async_error_(comm->comm, &result);
    if (asked != ncclSuccess) return CommState::failed;
    if (result == ncclInProgress) return CommState::in_progress;
    return result == ncclSuccess ? CommState::ready : CommState::failed;
  }

  std::string error(GpuComm* comm) override {
    ncclResult_t result = ncclInternalError;
    if (comm->comm != nullptr) async_error_(comm->comm, &result);
    return say(result, comm);
  }

  void start(GpuComm* comm, GpuStream* on, const Collective& what, const Operands& at) override {
    if (comm->ranks == 0) {  // it is ready now
      check(count_(comm->comm, &comm->ranks), "ncclCommCount", comm);
      check(user_rank_(comm->comm, &comm->rank), "ncclCommUserRank", comm);
    }
    const auto stream = stream_of(on);
    const ncclDataType_t type = type_of(what.dtype);
    const ncclRedOp_t reduction = reduction_of(what.reduction);
    const auto whole = static_cast<std::size_t>(what.elements);
    const std::size_t part = whole / static_cast<std::size_t>(comm->ranks);
    switch (what.kind) {
      case CollectiveKind::all_reduce:
        check(all_reduce_(at.send, at.receive, whole, type, reduction, comm->comm, stream),
              "ncclAllReduce", comm);
        return;
      case CollectiveKind::all_gather:
        check(all_gather_(at.send, at.receive, part, type, comm->comm, stream), "ncclAllGather",
              comm);
        return;
      case CollectiveKind::reduce_scatter:
        check(reduce_scatter_(at.send, at.receive, part, type, reduction, comm->comm, stream),
              "ncclReduceScatter", comm);
        return;
      case CollectiveKind::broadcast:
        check(broadcast_(at.send, at.receive, whole, type, what.root, comm->comm, stream),
              "ncclBroadcast", comm);
        return;
      case CollectiveKind::reduce:
        check(reduce_(at.send, at.receive, whole, type, reduction, what.root, comm->comm, stream),
              "ncclReduce", comm);
        return;
      case CollectiveKind::scatter:
      case CollectiveKind::gather: root_and_parts(comm, stream, what, at, type, part); return;
    }
  }

  void end(GpuComm* comm) noexcept override {
    if (comm->comm != nullptr) {
      // A flush that all ranks take part in; destroy waits for it. A peer that dies now must not
      // hold up who has its results already.
      using Clock = std::chrono::steady_clock;
      const auto until = Clock::now() + std::chrono::seconds(10);
      finalize_(comm->comm);
      CommState now = state(comm);
      for (; now == CommState::in_progress && Clock::now() < until; now = state(comm)) {
        std::this_thread::yield();
      }
      if (now == CommState::ready) {
        destroy_(comm->comm);
      } else {
        abort_(comm->comm);
      }
    }
    delete comm;
  }

  void abort(GpuComm* comm) noexcept override {
    if (comm->comm != nullptr) abort_(comm->comm);
    delete comm;
  }

 private:
  template <typename Function>
  void get(const char* symbol, Function*& function) {
    library_.get(symbol, function);
  }

  // NCCL's answer in progress is none yet: state() tells.
  void check(ncclResult_t result, const char* call, GpuComm* comm) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    throw GpuError(std::string(call) + ": " + say(result, comm));
  }
  std::string say(ncclResult_t result, GpuComm* comm) {
    std::string text = error_string_(result);
    const char* last = last_error_(comm == nullptr ? nullptr : comm->comm);
    if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  static ncclConfig_t config_of(const CommOptions& options, [[maybe_unused]] GpuComm& comm) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (options.min_ctas > 0) config.minCTAs = options.min_ctas;
    if (options.max_ctas > 0) config.maxCTAs = options.max_ctas;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    comm.name = options.name;
    config.commName = comm.name.c_str();  // an older library does not read so far
#endif
    return config;
  }

  // Scatter and gather: one send or receive a rank, of the root all of them, in one group.
  void root_and_parts(GpuComm* comm, cudaStream_t stream, const Collective& what,
                      const Operands& at, ncclDataType_t type, std::size_t part) {
    const bool scatters = what.kind == CollectiveKind::scatter;
    const std::size_t size = part * static_cast<std::size_t>(bytes_per_element(what.dtype));
    check(group_start_(), "ncclGroupStart", comm);
    if (comm->rank == what.root) {
      for (int peer = 0; peer < comm->ranks; ++peer) {
        const std::size_t offset = static_cast<std::size_t>(peer) * size;
        check(scatters ? send_(at.send + offset, part, type, peer, comm->comm, stream)
                       : recv_(at.receive + offset, part, type, peer, comm->comm, stream),
              scatters ? "ncclSend" : "ncclRecv", comm);
      }
    }
    check(scatters ? recv_(at.receive, part, type, what.root, comm->comm, stream)
                   : send_(at.send, part, type, what.root, comm->comm, stream),
          scatters ? "ncclRecv" : "ncclSend", comm);
    check(group_end_(), "ncclGroupEnd", comm);
  }

  runtime::Library library_;
  int version_ = 0;
  decltype(&ncclGetVersion) get_version_ = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id_ = nullptr;
  decltype(&ncclCommInitRankConfig) init_ = nullptr;
  decltype(&ncclCommSplit) split_ = nullptr;
  decltype(&ncclCommCount) count_ = nullptr;
  decltype(&ncclCommUserRank) user_rank_ = nullptr;
  decltype(&ncclCommGetAsyncError) async_error_ = nullptr;
  decltype(&ncclCommFinalize) finalize_ = nullptr;
  decltype(&ncclCommDestroy) destroy_ = nullptr;
  decltype(&ncclCommAbort) abort_ = nullptr;
  decltype(&ncclGetErrorString) error_string_ = nullptr;
  decltype(&ncclGetLastError) last_error_ = nullptr;
  decltype(&ncclAllReduce) all_reduce_ = nullptr;
  decltype(&ncclAllGather) all_gather_ = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter_ = nullptr;
  decltype(&ncclBroadcast) broadcast_ = nullptr;
  decltype(&ncclReduce) reduce_ = nullptr;
  decltype(&ncclSend) send_ = nullptr;
  decltype(&ncclRecv) recv_ = nullptr;
  decltype(&ncclGroupStart) group_start_ = nullptr;
  decltype(&ncclGroupEnd) group_end_ = nullptr;
};

}  // namespace

std::unique_ptr<runtime::GpuCollectives> open_nccl() {
  // Several communicators on a GPU: launches are ordered as the host calls (2.26 and later read
  // it).
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  // All connections are made with the communicator (2.22 and later make them at the first
  // collective): there a missing peer is named as one that has not come, and the first step takes
  // what the others take.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  return std::make_unique<Nccl>();
}

}  // namespace stepcast::cuda
