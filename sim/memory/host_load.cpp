#include "sim/memory/host_load.hpp"

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr LoadMode modes[] = {LoadMode::every, LoadMode::rank0, LoadMode::meta};

}  // namespace

std::string_view to_string(LoadMode mode) {
  switch (mode) {
    case LoadMode::every: return "every";
    case LoadMode::rank0: return "rank0";
    case LoadMode::meta: return "meta";
  }
  return "";
}

LoadMode parse_load_mode(const std::string& name) {
  std::vector<std::string> names;
  for (const LoadMode mode : modes) {
    if (name == to_string(mode)) return mode;
    names.emplace_back(to_string(mode));
  }
  throw not_accepted({.file = "--load", .line = 0, .key = ""}, name, names);
}

HostLoad host_bytes_at_load(const HostLoadQuestion& q, LoadMode mode) {
  STEPCAST_ASSERT(q.parameters >= 1 && q.ranks_per_node >= 1 && q.shards >= 1, "a load question");
  const Bytes whole = q.parameters * q.bytes_per_parameter;
  switch (mode) {
    case LoadMode::every: {
      const Bytes node = whole * q.ranks_per_node;
      return {mode, whole, node, node};
    }
    case LoadMode::rank0: return {mode, whole, whole, 0};
    case LoadMode::meta: {
      const Bytes part = ceil_div(q.parameters, q.shards) * q.bytes_per_parameter;
      return {mode, part, part * q.ranks_per_node, part * q.ranks_per_node};
    }
  }
  return {};
}

std::vector<HostLoad> host_bytes_at_load(const HostLoadQuestion& question) {
  std::vector<HostLoad> list;
  for (const LoadMode mode : modes) list.push_back(host_bytes_at_load(question, mode));
  return list;
}

}  // namespace stepcast
