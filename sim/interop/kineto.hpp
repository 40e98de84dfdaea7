#pragma once
// PyTorch's profiler trace (Kineto): Chrome's trace format with PyTorch's arguments, JSON or gzip.
//
//   KinetoInfo info = read_kineto("rank0.json.gz", [&](const KinetoEvent& event) { ... });
//
// The file is streamed (SAX): one event is in memory at a time, whatever the file's size; about
// 60 MB of JSON a second. What traces in the wild do, and this takes:
//   - times as integers or as floats, microseconds; before 2023 integers only;
//   - no distributedInfo, or one without rank (then nothing is known of other ranks);
//   - categories "kernel" or "Kernel", "cuda_runtime" or "Runtime"; names are lower-cased here;
//   - the launch that a kernel came from as "External id" of the kernel itself (older), or only as
//     "correlation" of the runtime call that has it (newer, and ROCm's);
//   - what a collective was (name, elements, ranks) on the NCCL kernel itself, or only on the CPU's
//     record_param_comms;
//   - a bare array of events without an object around it.
// Broken JSON is an InputError with the place. Tested by tests/unit/interop/kineto_test.cpp.

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace stepcast {

struct KinetoEvent {
  std::string phase;     // "X", "i", "M", ...
  std::string category;  // lower case: "kernel", "cpu_op", "cuda_runtime", "runtime", ...
  std::string name;
  double start_us = 0;
  double duration_us = 0;
  std::int64_t pid = 0, tid = 0;

  // arguments; -1 and empty where there are none
  std::int64_t external_id = -1;
  std::int64_t correlation = -1;
  std::int64_t stream = -1;
  std::int64_t device = -1;
  std::array<std::int64_t, 3> grid = {0, 0, 0};
  std::vector<std::vector<std::int64_t>> input_dims;  // a list of tensors has no dims here
  std::vector<std::string> input_types;               // "c10::BFloat16", "float", "Scalar"
  // of a collective
  std::string collective;  // "allreduce", "_allgather_base", ...
  std::string dtype;       // "BFloat16", "Float"
  std::string group;       // process group's name
  std::int64_t group_size = 0;
  std::int64_t in_elements = 0, out_elements = 0;
  std::string group_ranks;  // "[0, 1, 2, 3]", as written
};

struct KinetoInfo {
  struct Device {
    std::string name;
    std::int64_t memory_bytes = 0;
    int compute_capability = 0;  // 90
    int sm_count = 0;
  };
  std::vector<Device> devices;  // of the node
  std::optional<int> rank;
  std::optional<int> world_size;
  std::string backend;       // "nccl"
  std::string nccl_version;  // "2.28.9"
  std::string driver;        // CUDA's or HIP's driver API version, as written
  std::string runtime;
  std::int64_t events = 0;
};

// Calls `on_event` for each event of the trace, in the file's order; the event is only valid
// during the call. Throws InputError.
KinetoInfo read_kineto(const std::string& path,
                       const std::function<void(const KinetoEvent&)>& on_event);

// The same of an open stream; NAME is what errors call it.
KinetoInfo read_kineto(std::istream& in, const std::string& name,
                       const std::function<void(const KinetoEvent&)>& on_event);

// The numbers of "[0, 1, 2]"; what is left out ("...") stays out.
std::vector<int> parse_ranks(const std::string& text);

}  // namespace stepcast
