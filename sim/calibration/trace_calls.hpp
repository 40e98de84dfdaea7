#pragma once
// The calls of one trace: what ran on the GPU, and which op with which shapes launched it. What a
// calibration is made of (from_trace.hpp), whatever format the trace has.
//
// Kept are 40 bytes a kernel, 24 an op that launches something, 16 a launch, and each shape, name
// and collective once; lists that grow hold up to twice that. The text of the trace is not kept,
// nor what else is in it. (A Chakra trace is read whole first: sim/interop/chakra.hpp.)
//
// Internal to from_trace.cpp. Tested by tests/unit/calibration/from_trace_test.cpp,
// chakra_test.cpp and trace_memory_test.cpp.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/kernel.hpp"
#include "base/name.hpp"
#include "sim/interop/kineto.hpp"
#include "sim/interop/trace_ops.hpp"

namespace stepcast {

// Values by number, each once.
template <typename Value, typename Key>
class Distinct {
 public:
  std::int32_t number(const Key& key, const Value& value) {
    const auto [at, fresh] = numbers_.emplace(key, static_cast<std::int32_t>(values_.size()));
    if (fresh) values_.push_back(value);
    return at->second;
  }
  const Value* at(std::int32_t number) const {
    return number < 0 ? nullptr : &values_[static_cast<std::size_t>(number)];
  }

 private:
  std::map<Key, std::int32_t> numbers_;
  std::vector<Value> values_;
};

class TraceCalls {
 public:
  // A kernel, or a collective.
  struct Launched {
    std::int64_t op = -1;           // its id
    std::int64_t correlation = -1;  // where it has none: the launch knows it
    double start_us = 0;
    double us = 0;
    std::int32_t own = -1;  // a collective that the kernel itself names
    bool nccl = false;
    bool tf32 = false;
  };

  KinetoInfo info;                // of a PyTorch trace
  std::vector<Launched> kernels;  // by start
  std::vector<double> launch_us;  // cudaLaunchKernel
  std::vector<double> step_us;    // ProfilerStep marks

  // While it is read.
  void add_kernel(const KinetoEvent& kernel);
  void add_op(std::int64_t id, const KinetoEvent& op);
  void add_launch(std::int64_t correlation, std::int64_t op) {
    launches_.emplace_back(correlation, op);
  }
  // After the last: kernels know their ops.
  void finish();

  // Of a kernel; null where the trace does not say it.
  const Kernel* shape_of(const Launched& kernel) const;
  const Name* name_of(const Launched& kernel) const;  // of its op
  const TraceCollective* collective_of(const Launched& kernel) const;

 private:
  struct Op {
    std::int64_t id = -1;
    std::int32_t shape = -1, name = -1, collective = -1;
  };

  std::int32_t collective_number(const TraceCollective& c);
  // The last that an op of this id says of it; -1: nothing.
  std::int32_t said(std::int64_t id, std::int32_t Op::*what) const;

  using ShapeKey = std::tuple<KernelKind, Dtype, std::int64_t, std::int64_t, std::int64_t,
                              std::int64_t, Bytes, Bytes, Name>;
  using CollectiveKey = std::tuple<CollectiveKind, Dtype, Bytes, int, std::vector<int>>;
  std::vector<Op> ops_;
  std::vector<std::pair<std::int64_t, std::int64_t>> launches_;  // correlation, op
  Distinct<Kernel, ShapeKey> shapes_;
  Distinct<Name, Name> names_;
  Distinct<TraceCollective, CollectiveKey> collectives_;
};

// A PyTorch profiler's trace, JSON or gzip.
TraceCalls calls_of_kineto(const std::string& path);
// A Chakra execution trace of PyTorch: a kernel's op is the host's node that it depends on, with
// the same shapes where the kernel has some itself. Its collectives do not say among how many ranks
// they are: they are counted, no more.
TraceCalls calls_of_chakra(const std::string& path);

}  // namespace stepcast
