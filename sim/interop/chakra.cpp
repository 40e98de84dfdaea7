#include "sim/interop/chakra.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unordered_set>

#include "base/error.hpp"
#include "sim/interop/chakra.pb.h"

namespace stepcast {

namespace {

namespace pb = google::protobuf;

constexpr const char* chakra_version = "0.0.4";  // of the schema
constexpr int longest_message = 16 << 20;
constexpr std::size_t most_nodes = 20'000'000;

chakra::CollectiveCommType type_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return chakra::ALL_REDUCE;
    case CollectiveKind::all_gather: return chakra::ALL_GATHER;
    case CollectiveKind::reduce_scatter: return chakra::REDUCE_SCATTER;
    case CollectiveKind::broadcast: return chakra::BROADCAST;
    case CollectiveKind::reduce: return chakra::REDUCE;
    case CollectiveKind::scatter: return chakra::SCATTER;
    case CollectiveKind::gather: return chakra::GATHER;
  }
  return chakra::BARRIER;
}

std::string kind_of(std::int64_t type) {
  constexpr const char* names[] = {"all_reduce",     "reduce",    "all_gather", "gather",
                                   "scatter",        "broadcast", "all_to_all", "reduce_scatter",
                                   "reduce_scatter", "barrier"};
  return type >= 0 && type < 10 ? names[type] : "unknown";
}

// Groups of all communicators, numbered; the first rank of a group says which it is.
std::map<std::pair<Axis, int>, int> group_numbers(const Schedule& schedule) {
  std::map<std::pair<Axis, int>, int> numbers;
  for (const Communicator& comm : schedule.communicators) {
    for (int rank = 0; rank < schedule.mesh.world_size(); ++rank) {
      if (index_in_group(schedule.mesh, comm.axis, rank) != 0) continue;
      numbers.emplace(std::pair(comm.axis, rank), static_cast<int>(numbers.size()));
    }
  }
  return numbers;
}

class Writer {
 public:
  Writer(const Schedule& schedule, const StepProgram& step, int rank, const ChakraTimes& times)
      : schedule_(schedule),
        step_(step),
        rank_(rank),
        times_(times),
        groups_(group_numbers(schedule)),
        lane_last_(schedule.lanes.size(), 0),
        lane_waits_(schedule.lanes.size()),
        stream_last_(schedule.streams.size(), 0),
        stream_waits_(schedule.streams.size()),
        rest_(schedule.streams.size(), 0),
        lane_rest_(schedule.lanes.size(), 0),
        comm_last_(schedule.communicators.size(), 0),
        node_of_(step.ops.size(), 0) {}

  std::string run() {
    chakra::GlobalMetadata head;
    head.set_version(chakra_version);
    put(head);
    const std::vector<std::string> names = op_names(schedule_, step_);
    for (std::size_t i = 0; i < step_.ops.size(); ++i) add(i, names[i]);
    return std::move(out_);
  }

 private:
  void put(const pb::MessageLite& message) {
    std::string bytes = message.SerializeAsString();
    for (std::size_t length = bytes.size(); true; length >>= 7) {
      const bool more = length >= 0x80;
      out_ += static_cast<char>((length & 0x7f) | (more ? 0x80 : 0));
      if (!more) break;
    }
    out_ += bytes;
  }

  static std::uint64_t whole_us(Seconds seconds, double& rest) {
    const double us = seconds * 1e6 + rest;
    const double rounded = std::max(0.0, std::round(us));
    rest = us - rounded;
    return static_cast<std::uint64_t>(rounded);
  }

  static void number(chakra::Node& node, const char* name, std::int64_t value) {
    chakra::AttributeProto* attribute = node.add_attr();
    attribute->set_name(name);
    attribute->set_int64_val(value);
  }
  static void truth(chakra::Node& node, const char* name, bool value) {
    chakra::AttributeProto* attribute = node.add_attr();
    attribute->set_name(name);
    attribute->set_bool_val(value);
  }
  static void text(chakra::Node& node, const char* name, const std::string& value) {
    chakra::AttributeProto* attribute = node.add_attr();
    attribute->set_name(name);
    attribute->set_string_val(value);
  }

  void add(std::size_t i, const std::string& name) {
    const Op& op = step_.ops[i];
    const auto lane = static_cast<std::size_t>(op.lane);
    switch (op.kind) {
      case OpKind::stream_wait:
        awaited(op, stream_waits_[static_cast<std::size_t>(op.stream)]);
        return;
      case OpKind::host_wait: host_wait(op); return;
      case OpKind::alloc:
      case OpKind::free: return;
      case OpKind::host_work: node_of_[i] = on_host(name, lane, times_.host[i]); return;
      case OpKind::storage: node_of_[i] = on_host(name, lane, times_.device[i]); return;
      case OpKind::compute:
      case OpKind::collective:
      case OpKind::copy: node_of_[i] = on_stream(i, op, name, lane); return;
    }
  }

  // What an op of this step waits for. A wait for an op that has no node (a wait itself) or for an
  // earlier step falls away.
  void awaited(const Op& op, std::vector<std::uint64_t>& into) const {
    for (const OpRef& ref : schedule_.at_refs(op.waits)) {
      if (ref.steps_back != 0 || ref.op < 0) continue;
      const std::uint64_t node = node_of_[static_cast<std::size_t>(ref.op)];
      if (node > 0) into.push_back(node);
    }
  }

  void host_wait(const Op& op) {
    std::vector<std::uint64_t>& waits = lane_waits_[static_cast<std::size_t>(op.lane)];
    switch (op.wait_target) {
      case WaitTarget::ops: awaited(op, waits); return;
      case WaitTarget::stream:
        if (op.wait_stream >= 0 && stream_last_[static_cast<std::size_t>(op.wait_stream)] > 0) {
          waits.push_back(stream_last_[static_cast<std::size_t>(op.wait_stream)]);
        }
        return;
      case WaitTarget::device:
        for (const std::uint64_t last : stream_last_) {
          if (last > 0) waits.push_back(last);
        }
        return;
    }
  }

  std::uint64_t on_host(const std::string& name, std::size_t lane, Seconds seconds) {
    chakra::Node node;
    node.set_id(++last_id_);
    node.set_name(name);
    node.set_type(chakra::COMP_NODE);
    node.set_duration_micros(whole_us(seconds, lane_rest_[lane]));
    if (lane_last_[lane] > 0) node.add_ctrl_deps(lane_last_[lane]);
    depend(node, lane_waits_[lane]);
    lane_waits_[lane].clear();
    truth(node, "is_cpu_op", true);
    put(node);
    lane_last_[lane] = last_id_;
    return last_id_;
  }

  static void depend(chakra::Node& node, std::vector<std::uint64_t> on) {
    std::sort(on.begin(), on.end());
    on.erase(std::unique(on.begin(), on.end()), on.end());
    for (const std::uint64_t id : on) node.add_data_deps(id);
  }

  std::uint64_t on_stream(std::size_t i, const Op& op, const std::string& name, std::size_t lane) {
    const std::uint64_t launch = on_host("launch " + name, lane, times_.host[i]);
    const auto stream = static_cast<std::size_t>(op.stream);
    chakra::Node node;
    node.set_id(++last_id_);
    node.set_name(name);
    node.set_duration_micros(whole_us(times_.device[i], rest_[stream]));
    std::vector<std::uint64_t> on = std::move(stream_waits_[stream]);
    stream_waits_[stream].clear();
    on.push_back(launch);
    if (stream_last_[stream] > 0) on.push_back(stream_last_[stream]);
    const bool meets = op.kind == OpKind::collective && schedule_.mesh.size(axis_of(op)) > 1;
    if (meets) {
      std::uint64_t& before = comm_last_[static_cast<std::size_t>(op.comm)];
      if (before > 0) on.push_back(before);
      before = last_id_;
      describe(node, op);
    } else {
      node.set_type(chakra::COMP_NODE);
      double flops = 0;
      Bytes bytes = op.kind == OpKind::copy ? op.bytes : 0;
      for (const Kernel& kernel : schedule_.at_kernels(op.kernels)) {
        flops += hardware_flops(kernel);
        bytes += kernel.bytes_read + kernel.bytes_written;
      }
      truth(node, "is_cpu_op", false);
      number(node, "num_ops", static_cast<std::int64_t>(flops));
      number(node, "tensor_size", bytes);
    }
    depend(node, std::move(on));
    put(node);
    stream_last_[stream] = last_id_;
    return last_id_;
  }

  Axis axis_of(const Op& op) const {
    return schedule_.communicators[static_cast<std::size_t>(op.comm)].axis;
  }

  void describe(chakra::Node& node, const Op& op) const {
    const Axis axis = axis_of(op);
    const std::int64_t ranks = schedule_.mesh.size(axis);
    const bool gathers =
        op.collective == CollectiveKind::all_gather || op.collective == CollectiveKind::gather;
    node.set_type(chakra::COMM_COLL_NODE);
    truth(node, "is_cpu_op", false);
    number(node, "comm_type", type_of(op.collective));
    number(node, "comm_size", gathers ? bytes_of(op) / ranks : bytes_of(op));
    text(node, "comm_dtype", std::string(to_string(op.dtype)));
    const int first = ranks_of_group(schedule_.mesh, axis, rank_).front();
    text(node, "pg_name", std::to_string(groups_.at({axis, first})));
    if (op.root >= 0) number(node, "root", op.root);
  }

  const Schedule& schedule_;
  const StepProgram& step_;
  int rank_;
  const ChakraTimes& times_;
  std::map<std::pair<Axis, int>, int> groups_;
  std::vector<std::uint64_t> lane_last_;
  std::vector<std::vector<std::uint64_t>> lane_waits_;
  std::vector<std::uint64_t> stream_last_;
  std::vector<std::vector<std::uint64_t>> stream_waits_;
  std::vector<double> rest_, lane_rest_;  // microseconds that rounding owes
  std::vector<std::uint64_t> comm_last_;
  std::vector<std::uint64_t> node_of_;  // by op; ids are from 1, 0 is none
  std::uint64_t last_id_ = 0;
  std::string out_;
};

ChakraNode node_of(const chakra::Node& node) {
  ChakraNode out;
  out.id = node.id();
  out.name = node.name();
  out.duration_us = static_cast<double>(node.duration_micros());
  out.collective = node.type() == chakra::COMM_COLL_NODE;
  out.compute = node.type() == chakra::COMP_NODE;
  out.shapes = node.inputs().shapes();
  out.types = node.inputs().types();
  for (const std::uint64_t id : node.ctrl_deps()) out.after.push_back(id);
  for (const std::uint64_t id : node.data_deps()) out.after.push_back(id);
  for (const chakra::AttributeProto& attribute : node.attr()) {
    std::int64_t whole = 0;
    switch (attribute.value_case()) {
      case chakra::AttributeProto::kInt32Val: whole = attribute.int32_val(); break;
      case chakra::AttributeProto::kInt64Val: whole = attribute.int64_val(); break;
      case chakra::AttributeProto::kUint32Val: whole = attribute.uint32_val(); break;
      case chakra::AttributeProto::kUint64Val:
        whole = static_cast<std::int64_t>(attribute.uint64_val());
        break;
      default: break;
    }
    if (attribute.name() == "comm_type") out.kind = kind_of(whole);
    if (attribute.name() == "comm_size") out.bytes = whole;
    if (attribute.name() == "pg_name") out.group = attribute.string_val();
    if (attribute.name() == "is_cpu_op" && (attribute.bool_val() || whole != 0)) {
      out.compute = false;
    }
  }
  return out;
}

}  // namespace

std::string to_chakra(const Schedule& schedule, int role, int program, int rank,
                      const ChakraTimes& times) {
  const StepProgram& step =
      schedule.roles[static_cast<std::size_t>(role)].steps[static_cast<std::size_t>(program)];
  STEPCAST_ASSERT(times.device.size() == step.ops.size() && times.host.size() == step.ops.size(),
                  "times of another program");
  return Writer(schedule, step, rank, times).run();
}

std::string chakra_groups(const Schedule& schedule) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  std::map<int, std::vector<int>> by_number;
  for (const auto& [key, number] : group_numbers(schedule)) {
    by_number[number] = ranks_of_group(schedule.mesh, key.first, key.second);
  }
  for (const auto& [number, ranks] : by_number) groups[std::to_string(number)] = ranks;
  return groups.dump() + "\n";
}

bool is_chakra(const std::string& head) {
  // A GlobalMetadata of a few bytes: its length, then field 1 (a string) or 2 (a message).
  if (head.size() < 3) return false;
  const auto length = static_cast<unsigned char>(head[0]);
  const char tag = head[1];
  return head[0] != '{' && head[0] != '[' && head[0] != '\x1f' && length >= 2 &&
         (tag == '\x0a' || tag == '\x12');
}

bool is_chakra_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream in(path, std::ios::binary);
  std::string head(16, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return is_chakra(head);
}

std::vector<ChakraNode> read_chakra(const std::string& bytes, const std::string& file) {
  const auto broken = [&](std::size_t at, const std::string& why) {
    return InputError({file, 0, ""},
                      fmt::format("is no Chakra execution trace at byte {}: {}", at, why));
  };
  std::vector<ChakraNode> nodes;
  std::size_t at = 0;
  bool first = true;
  while (at < bytes.size()) {
    const std::size_t begin = at;
    std::uint64_t length = 0;
    int shift = 0;
    while (true) {
      if (at == bytes.size() || shift > 28) throw broken(begin, "a length is cut off or too large");
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
      shift += 7;
    }
    if (length > longest_message) throw broken(begin, "a node is larger than 16 MiB");
    if (length > bytes.size() - at) throw broken(begin, "the file ends within a node");
    const char* data = bytes.data() + at;
    const int size = static_cast<int>(length);
    at += length;
    if (first) {
      chakra::GlobalMetadata head;
      if (!head.ParseFromArray(data, size)) throw broken(begin, "its head is no GlobalMetadata");
      first = false;
      continue;
    }
    chakra::Node node;
    if (!node.ParseFromArray(data, size)) throw broken(begin, "is no Node");
    if (nodes.size() == most_nodes) throw broken(begin, "more than 20,000,000 nodes");
    nodes.push_back(node_of(node));
  }
  if (nodes.empty()) throw InputError({file, 0, ""}, "has no nodes; accepted: a Chakra trace");
  std::unordered_set<std::uint64_t> ids;
  for (const ChakraNode& node : nodes) {
    if (!ids.insert(node.id).second) {
      throw InputError({file, 0, "id"}, fmt::format("{} is there twice", node.id));
    }
  }
  for (const ChakraNode& node : nodes) {
    for (const std::uint64_t id : node.after) {
      if (ids.count(id) > 0) continue;
      throw InputError({file, 0, "data_deps"},
                       fmt::format("node {} depends on {}, which is not there", node.id, id));
    }
  }
  return nodes;
}

}  // namespace stepcast
