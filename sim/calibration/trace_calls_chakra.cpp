// PyTorch's execution trace, linked with its profiler's and converted to Chakra (chakra_trace_link,
// chakra_converter), keeps the nesting of both: a kernel is a node of the GPU that depends on the
// op which launched it, and has the op's inputs:
//
//   7   aten::mm              host   inputs [[512, 1024], [1024, 256]], ['Tensor(c10::Half)', ...]
//   9   ampere_h16816gemm...  GPU    the same inputs; ctrl_deps 7, data_deps of its stream

#include <charconv>
#include <unordered_map>

#include "base/toml.hpp"
#include "sim/calibration/trace_calls.hpp"
#include "sim/interop/chakra.hpp"

namespace stepcast {

namespace {

constexpr std::size_t most_inputs = 4096;  // as of an op in kineto.cpp

// "[[512, 1024], [], [[2, 3], [4, 5]]]": a tensor, a scalar, a list of tensors, which has no dims.
std::vector<std::vector<std::int64_t>> dims_of(const std::string& text) {
  std::vector<std::vector<std::int64_t>> dims;
  int depth = 0;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at) {
    if (*at == '[' && ++depth == 2) {
      if (dims.size() == most_inputs) return dims;
      dims.emplace_back();
    }
    if (*at == ']') --depth;
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(at, end, size);
    if (error == std::errc::invalid_argument) continue;
    if (error != std::errc{}) size = 0;  // too large for any tensor: an op that is left alone
    if (depth == 2 && dims.back().size() < most_inputs) dims.back().push_back(size);
    at = rest - 1;
  }
  return dims;
}

// "['Tensor(c10::Half)', 'Scalar']" -> c10::Half, Scalar.
std::vector<std::string> types_of(const std::string& text) {
  std::vector<std::string> types;
  std::size_t at = 0;
  while (types.size() < most_inputs && (at = text.find_first_of("'\"", at)) != std::string::npos) {
    const std::size_t end = text.find(text[at], at + 1);
    if (end == std::string::npos) break;
    std::string type = text.substr(at + 1, end - at - 1);
    if (type.starts_with("Tensor(") && type.ends_with(")")) type = type.substr(7, type.size() - 8);
    types.push_back(std::move(type));
    at = end + 1;
  }
  return types;
}

bool is_copy(const std::string& name) {
  return name.starts_with("Memcpy") || name.starts_with("Memset");
}

using HostNodes = std::unordered_map<std::uint64_t, const ChakraNode*>;

// Control dependencies stand first in ChakraNode::after.
const ChakraNode* op_of(const ChakraNode& kernel, const HostNodes& host) {
  for (const std::uint64_t id : kernel.after) {
    const auto at = host.find(id);
    if (at == host.end()) continue;
    if (kernel.shapes.empty() || kernel.shapes == at->second->shapes) return at->second;
  }
  return nullptr;
}

}  // namespace

TraceCalls calls_of_chakra(const std::string& path) {
  const std::vector<ChakraNode> nodes = read_chakra(read_file(path, 1ll << 30), path);
  HostNodes host;
  for (const ChakraNode& node : nodes) {
    if (!node.compute && !node.collective) host.emplace(node.id, &node);
  }
  TraceCalls calls;
  std::unordered_map<const ChakraNode*, std::int64_t> ids;  // of ops that launch something
  double place = 0;                                         // there are no times, only an order
  for (const ChakraNode& node : nodes) {
    const bool kernel = node.compute && !is_copy(node.name);
    if (!(kernel || node.collective) || !(node.duration_us > 0)) continue;
    KinetoEvent event;
    event.name = node.collective ? "nccl" : node.name;
    event.start_us = ++place;
    event.duration_us = node.duration_us;
    if (const ChakraNode* op = kernel ? op_of(node, host) : nullptr) {
      const auto [at, fresh] = ids.emplace(op, static_cast<std::int64_t>(ids.size()));
      event.external_id = at->second;
      if (fresh) {
        KinetoEvent launching;
        launching.name = op->name;
        launching.input_dims = dims_of(op->shapes);
        launching.input_types = types_of(op->types);
        calls.add_op(at->second, launching);
      }
    }
    calls.add_kernel(event);
  }
  calls.finish();
  return calls;
}

}  // namespace stepcast
