// Decided one by one. The line is the forecast's, not NCCL's: a step that is simulated has its NICs
// from the machine, no lost packets, no other job on the fabric, connections that are made already,
// and no sends and receives. What such a step cannot feel is taken.
// Source: NCCL 2.28.9, user guide, environment variables, and src/; PyTorch, ProcessGroupNCCL.hpp.

#include "sim/collectives/nccl/other_variables.hpp"

#include <algorithm>

namespace stepcast::nccl {
namespace {

struct Said {
  std::string_view name, by_default = "";
};
struct Group {
  bool changes_times;
  std::string_view about;
  std::vector<Said> names;
};

std::vector<Group> groups() {
  constexpr bool taken = false, refused = true;
  return {
      {taken,
       "what is logged",
       {{"NCCL_DEBUG"},
        {"NCCL_DEBUG_FILE"},
        {"NCCL_DEBUG_SUBSYS"},
        {"NCCL_DEBUG_TIMESTAMP_FORMAT"},
        {"NCCL_DEBUG_TIMESTAMP_LEVELS"},
        {"NCCL_WARN_ENABLE_DEBUG_INFO"},
        {"NCCL_SET_THREAD_NAME"},
        {"NCCL_TOPO_DUMP_FILE"},
        {"NCCL_TOPO_DUMP_FILE_RANK"},
        {"NCCL_GRAPH_DUMP_FILE"},
        {"NCCL_GRAPH_DUMP_FILE_RANK"},
        {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}}},
      {taken,
       "how ranks find and connect to each other, before the first step",
       {{"NCCL_SOCKET_FAMILY"},
        {"NCCL_SOCKET_RETRY_CNT"},
        {"NCCL_SOCKET_RETRY_SLEEP_MSEC"},
        {"NCCL_COMM_ID"},
        {"NCCL_OOB_NET_ENABLE"},
        {"NCCL_OOB_NET_IFNAME"},
        {"NCCL_UID_STAGGER_RATE"},
        {"NCCL_UID_STAGGER_THRESHOLD"},
        {"NCCL_RUNTIME_CONNECT"},
        {"NCCL_IB_GID_INDEX"},
        {"NCCL_IB_ADDR_FAMILY"},
        {"NCCL_IB_ADDR_RANGE"},
        {"NCCL_IB_ROCE_VERSION_NUM"},
        {"NCCL_IB_PKEY"}}},
      // Over plain TCP data goes there too, but what NICs there are is the machine's to say.
      {taken,
       "where ranks find each other; the NICs that carry data are the machine's",
       {{"NCCL_SOCKET_IFNAME"}}},
      {taken,
       "when a link or a rank is given up",
       {{"NCCL_IB_TIMEOUT"},
        {"NCCL_IB_RETRY_CNT"},
        {"NCCL_IB_RETURN_ASYNC_EVENTS"},
        {"NCCL_ASYNC_ERROR_HANDLING"},
        {"NCCL_RAS_ENABLE"},
        {"NCCL_RAS_ADDR"},
        {"NCCL_RAS_TIMEOUT_FACTOR"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING"},
        {"TORCH_NCCL_ENABLE_MONITORING"},
        {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT"}}},
      {taken,
       "lanes of a fabric that the job has alone here",
       {{"NCCL_IB_SL"}, {"NCCL_IB_TC"}, {"NCCL_IB_FIFO_TC"}}},
      {taken,
       "sends and receives, of which a step has none",
       {{"NCCL_MIN_P2P_NCHANNELS"},
        {"NCCL_MAX_P2P_NCHANNELS"},
        {"NCCL_NCHANNELS_PER_NET_PEER"},
        {"NCCL_P2P_NET_CHUNKSIZE"},
        {"NCCL_P2P_NVL_CHUNKSIZE"},
        {"NCCL_P2P_PCI_CHUNKSIZE"},
        {"NCCL_P2P_PXN_LEVEL"}}},
      {taken,
       "on which cores NCCL's own threads run: near their GPU here",
       {{"NCCL_IGNORE_CPU_AFFINITY"}}},

      {refused,
       "how much plain TCP carries; tables of measured_collectives hold that",
       {{"NCCL_SOCKET_NTHREADS"}, {"NCCL_NSOCKS_PERTHREAD"}}},
      {refused,
       "which network carries data; network and nic_gbps say that",
       {{"NCCL_IB_DISABLE", "0"}, {"NCCL_NET"}, {"NCCL_NET_PLUGIN"}}},
      {refused,
       "which NICs carry data; a machine file with those NICs says that",
       {{"NCCL_IB_HCA"},
        {"NCCL_IB_MERGE_NICS", "1"},
        {"NCCL_IB_MERGE_VFS", "1"},
        {"NCCL_NETDEVS_POLICY", "AUTO"}}},
      {refused,
       "how a NIC sends; tables of measured_collectives hold that",
       {{"NCCL_IB_QPS_PER_CONNECTION", "1"},
        {"NCCL_IB_SPLIT_DATA_ON_QPS", "0"},
        {"NCCL_IB_ADAPTIVE_ROUTING"},
        {"NCCL_IB_AR_THRESHOLD", "8192"},
        {"NCCL_IB_PCI_RELAXED_ORDERING", "2"},
        {"NCCL_IB_ECE_ENABLE", "1"},
        {"NCCL_IB_USE_INLINE", "0"},
        {"NCCL_NET_OVERHEAD"},
        {"NCCL_NET_FORCE_FLUSH"},
        {"NCCL_NET_SHARED_BUFFERS"},
        {"NCCL_NET_SHARED_COMMS"}}},
      {refused,
       "whether NICs reach GPUs; gpudirect_rdma and NCCL_NET_GDR_LEVEL say that",
       {{"NCCL_NET_GDR_READ"}, {"NCCL_NET_GDR_C2C", "1"}, {"NCCL_DMABUF_ENABLE", "1"}}},
      {refused,
       "which ways lead from GPU to GPU; NCCL_P2P_LEVEL says that",
       {{"NCCL_SHM_DISABLE", "0"},
        {"NCCL_SHM_USE_CUDA_MEMCPY", "0"},
        {"NCCL_P2P_DIRECT_DISABLE", "0"},
        {"NCCL_P2P_USE_CUDA_MEMCPY", "0"},
        {"NCCL_NVB_DISABLE", "0"},
        {"NCCL_MNNVL_ENABLE", "2"},
        {"NCCL_TOPO_FILE"},
        {"NCCL_HOSTID"}}},
      {refused,
       "reductions within the network",
       {{"NCCL_COLLNET_ENABLE", "0"}, {"NCCL_COLLNET_NODE_THRESHOLD", "2"}}},
      {refused,
       "how much is copied at once, by how many threads",
       {{"NCCL_BUFFSIZE", "4194304"},
        {"NCCL_LL_BUFFSIZE"},
        {"NCCL_LL128_BUFFSIZE"},
        {"NCCL_CHUNK_SIZE"},
        {"NCCL_NVLS_CHUNKSIZE"},
        {"NCCL_NVLSTREE_MAX_CHUNKSIZE"},
        {"NCCL_NTHREADS"},
        {"NCCL_LL128_NTHREADS"},
        {"NCCL_THREAD_THRESHOLDS"}}},
      {refused,
       "buffers that NCCL allocates or is shown beforehand",
       {{"NCCL_CUMEM_ENABLE"},
        {"NCCL_CUMEM_HOST_ENABLE"},
        {"NCCL_GRAPH_REGISTER", "1"},
        {"NCCL_LOCAL_REGISTER", "1"},
        {"NCCL_LEGACY_CUDA_REGISTER", "0"},
        {"NCCL_WIN_ENABLE"},
        {"NCCL_CTA_POLICY", "0"}}},
      {refused,
       "how NCCL's kernels are launched",
       {{"NCCL_CGA_CLUSTER_SIZE"},
        {"NCCL_LAUNCH_MODE"},
        {"NCCL_LAUNCH_ORDER_IMPLICIT", "0"},
        {"TORCH_NCCL_HIGH_PRIORITY", "0"}}},
      {refused,
       "what the host does at each call",
       {{"NCCL_CHECK_POINTERS", "0"},
        {"NCCL_BLOCKING_WAIT", "0"},
        {"TORCH_NCCL_BLOCKING_WAIT", "0"},
        {"TORCH_NCCL_ENABLE_TIMING", "0"},
        {"TORCH_NCCL_DESYNC_DEBUG", "0"},
        {"NCCL_PROFILER_PLUGIN"}}},
      {refused,
       "a choice that is a plugin's; NCCL_TUNER_CONFIG_FILE reads the example plugin's",
       {{"NCCL_TUNER_PLUGIN"}}},
      {refused, "variables in a file, which is not read; say them here", {{"NCCL_CONF_FILE"}}},
  };
}

}  // namespace

const std::vector<OtherVariable>& other_variables() {
  static const std::vector<OtherVariable> all = [] {
    std::vector<OtherVariable> list;
    for (const Group& group : groups()) {
      for (const Said& name : group.names) {
        list.push_back({name.name, group.changes_times, group.about, name.by_default});
      }
    }
    return list;
  }();
  return all;
}

const OtherVariable* other_variable(std::string_view name) {
  for (const OtherVariable& variable : other_variables()) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

// Names with one reason stand together, in the order in which they were said.
std::string words_of_unheeded(const std::vector<std::string>& names) {
  std::vector<std::string_view> reasons;
  std::vector<std::string> lists;
  for (const std::string& name : names) {
    const OtherVariable& variable = *other_variable(name);
    const std::string_view reason = variable.changes_times ? "NCCL's default" : variable.about;
    const auto at = std::find(reasons.begin(), reasons.end(), reason);
    if (at == reasons.end()) {
      reasons.push_back(reason);
      lists.push_back(name);
    } else {
      lists[static_cast<std::size_t>(at - reasons.begin())] += ", " + name;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    text += (i == 0 ? "nccl: nothing here depends on " : "; ") + lists[i] + " (";
    text += std::string(reasons[i]) + ")";
  }
  return text;
}

}  // namespace stepcast::nccl
