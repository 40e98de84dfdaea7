#pragma once
// A shared library that is opened while the program runs, and its functions.
//
//   Library nccl = Library::open({"libnccl.so.2", "libnccl.so"}, "NCCL_LIBRARY");
//   nccl.get("ncclAllReduce", all_reduce);     // throws GpuError where it is not in it
//
// A path in the named environment variable is tried alone. The message of a library that is not
// found says under which names it was looked for and what the loader said of the last.
// Tested by tests/unit/cuda/plugin_test.cpp.

#include <string>
#include <vector>

#include "runtime/cuda/gpu.hpp"

namespace stepcast::runtime {

class Library {
 public:
  // Throws GpuError.
  static Library open(const std::vector<std::string>& names, const char* variable);

  const std::string& name() const { return name_; }
  void* find(const char* symbol) const;  // null where it is not there
  template <typename Function>
  void get(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(need(symbol));
  }

 private:
  void* need(const char* symbol) const;
  void* handle_ = nullptr;  // kept open to the end of the program
  std::string name_;
};

}  // namespace stepcast::runtime
