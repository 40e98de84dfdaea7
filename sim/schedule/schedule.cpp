#include "sim/schedule/schedule.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "sim/schedule/op_name.hpp"

namespace stepcast {

int Mesh::size(Axis axis) const {
  switch (axis) {
    case Axis::world: return world_size();
    case Axis::shard: return shard;
    case Axis::replicate: return replicate;
  }
  return 1;
}

namespace {

// Key of an op within its step, without the names: SameOp is built for every pair of programs.
struct OpKey {
  Name verb;
  UnitIndex unit = -1;
  std::int16_t micro_batch = 0;
  Phase phase = Phase::setup;
  friend bool operator==(const OpKey& a, const OpKey& b) = default;
};

struct OpKeyHash {
  std::size_t operator()(const OpKey& key) const {
    std::size_t hash = std::hash<Name>()(key.verb);
    const auto mix = [&hash](std::size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u; };
    mix(static_cast<std::size_t>(static_cast<std::uint32_t>(key.unit)));
    mix(static_cast<std::size_t>(static_cast<std::uint16_t>(key.micro_batch)));
    mix(static_cast<std::size_t>(key.phase));
    return hash;
  }
};

OpKey key_of(const Op& op) { return {op.verb, op.unit, op.micro_batch, op.phase}; }

}  // namespace

namespace {

// PHASE.VERB[.UNIT][.mN]
std::string base_name(const Schedule& schedule, const Op& op, bool several) {
  std::string name(to_string(op.phase));
  name += '.';
  name += op.verb.str();
  if (op.unit >= 0) {
    name += '.';
    const bool known = op.unit < static_cast<UnitIndex>(schedule.units.size());
    name += known ? schedule.units[static_cast<std::size_t>(op.unit)].str()
                  : "?" + std::to_string(op.unit);  // broken: problems() says so
  }
  if (several) name += ".m" + std::to_string(op.micro_batch);
  return name;
}

// Whether ops of different keys cannot have the same name: units differ and none looks numbered,
// and verbs have no part of their own. So it is in every schedule of the strategies.
bool keys_tell_names_apart(const Schedule& schedule, const StepProgram& step) {
  std::unordered_set<Name> units;
  for (const Name unit : schedule.units) {
    if (!units.insert(unit).second || unit.str().find('#') != std::string::npos) return false;
  }
  std::vector<Name> verbs;  // a dozen
  for (const Op& op : step.ops) {
    if (op.unit >= static_cast<UnitIndex>(schedule.units.size())) return false;
    if (std::find(verbs.begin(), verbs.end(), op.verb) == verbs.end()) verbs.push_back(op.verb);
  }
  return std::none_of(verbs.begin(), verbs.end(), [](Name verb) {
    return verb.str().find_first_of(".#") != std::string::npos;
  });
}

bool several_micro_batches(const StepProgram& step) {
  return std::any_of(step.ops.begin(), step.ops.end(),
                     [](const Op& op) { return op.micro_batch > 0; });
}

}  // namespace

std::string op_name(const Schedule& schedule, const StepProgram& step, OpIndex op) {
  const auto at = static_cast<std::size_t>(op);
  if (!keys_tell_names_apart(schedule, step)) return op_names(schedule, step)[at];
  const OpKey key = key_of(step.ops[at]);
  const auto count = std::count_if(step.ops.begin(), step.ops.begin() + op + 1,
                                   [&](const Op& each) { return key_of(each) == key; });
  std::string name = base_name(schedule, step.ops[at], several_micro_batches(step));
  if (count > 1) name += "#" + std::to_string(count);
  return name;
}

std::vector<std::string> op_names(const Schedule& schedule, const StepProgram& step) {
  const bool several = several_micro_batches(step);
  std::vector<std::string> names;
  names.reserve(step.ops.size());
  if (keys_tell_names_apart(schedule, step)) {
    std::unordered_map<OpKey, int, OpKeyHash> used;
    used.reserve(step.ops.size());
    for (const Op& op : step.ops) {
      names.push_back(base_name(schedule, op, several));
      const int count = ++used[key_of(op)];
      if (count > 1) names.back() += "#" + std::to_string(count);
    }
    return names;
  }
  std::unordered_map<std::string, int> used;
  for (const Op& op : step.ops) {
    std::string name = base_name(schedule, op, several);
    int count = ++used[name];
    if (count > 1) {
      // A unit may itself be called "x#2": count on until the name is free.
      std::string numbered;
      do {
        numbered = name + "#" + std::to_string(count++);
      } while (used.count(numbered) > 0);
      used[name] = count - 1;
      used[numbered] = 1;
      name = std::move(numbered);
    }
    names.push_back(std::move(name));
  }
  return names;
}

SameOp::SameOp(const StepProgram& from, const StepProgram& to) {
  std::unordered_map<OpKey, std::vector<OpIndex>, OpKeyHash> there;
  for (std::size_t i = 0; i < to.ops.size(); ++i) {
    there[key_of(to.ops[i])].push_back(static_cast<OpIndex>(i));
  }
  std::unordered_map<OpKey, std::size_t, OpKeyHash> seen;
  to_.reserve(from.ops.size());
  for (const Op& op : from.ops) {
    const OpKey key = key_of(op);
    const std::size_t occurrence = seen[key]++;
    const auto found = there.find(key);
    const bool exists = found != there.end() && occurrence < found->second.size();
    to_.push_back(exists ? found->second[occurrence] : -1);
  }
}

Bytes bytes_of(const Op& collective) {
  return collective.elements * bytes_per_element(collective.dtype);
}

double ring_bytes_sent(const Op& op, int ranks) {
  const double bytes = static_cast<double>(bytes_of(op));
  const double n = ranks;
  if (ranks <= 1) return 0.0;
  switch (op.collective) {
    case CollectiveKind::all_reduce: return 2.0 * (n - 1.0) / n * bytes;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return (n - 1.0) / n * bytes;
    case CollectiveKind::scatter:
    case CollectiveKind::gather: return (n - 1.0) / n * bytes / n;
  }
  return 0.0;
}

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::compute: return "compute";
    case OpKind::collective: return "collective";
    case OpKind::copy: return "copy";
    case OpKind::stream_wait: return "stream_wait";
    case OpKind::host_work: return "host_work";
    case OpKind::host_wait: return "host_wait";
    case OpKind::alloc: return "alloc";
    case OpKind::free: return "free";
    case OpKind::storage: return "storage";
  }
  return "";
}

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::reduce: return "reduce";
    case CollectiveKind::scatter: return "scatter";
    case CollectiveKind::gather: return "gather";
  }
  return "";
}

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::none: return "none";
    case Reduction::sum: return "sum";
    case Reduction::avg: return "avg";
    case Reduction::max: return "max";
  }
  return "";
}

std::string_view to_string(CopyKind kind) {
  switch (kind) {
    case CopyKind::host_to_device: return "host_to_device";
    case CopyKind::device_to_host: return "device_to_host";
    case CopyKind::device_to_device: return "device_to_device";
    case CopyKind::peer: return "peer";
  }
  return "";
}

std::string_view to_string(FreeRule rule) {
  switch (rule) {
    case FreeRule::host_order: return "host_order";
    case FreeRule::after_streams: return "after_streams";
    case FreeRule::after_op: return "after_op";
  }
  return "";
}

std::string_view to_string(WaitTarget target) {
  switch (target) {
    case WaitTarget::ops: return "ops";
    case WaitTarget::stream: return "stream";
    case WaitTarget::device: return "device";
  }
  return "";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::setup: return "setup";
    case Phase::load: return "load";
    case Phase::forward: return "forward";
    case Phase::loss: return "loss";
    case Phase::backward: return "backward";
    case Phase::optimizer: return "optimizer";
  }
  return "";
}

std::string_view to_string(Axis axis) {
  switch (axis) {
    case Axis::world: return "world";
    case Axis::shard: return "shard";
    case Axis::replicate: return "replicate";
  }
  return "";
}

std::string_view to_string(BufferKind kind) {
  switch (kind) {
    case BufferKind::parameter: return "parameter";
    case BufferKind::gradient: return "gradient";
    case BufferKind::optimizer_state: return "optimizer_state";
    case BufferKind::bucket: return "bucket";
    case BufferKind::unsharded: return "unsharded";
    case BufferKind::gather_output: return "gather_output";
    case BufferKind::reduce_input: return "reduce_input";
    case BufferKind::reduce_output: return "reduce_output";
    case BufferKind::activation: return "activation";
    case BufferKind::workspace: return "workspace";
    case BufferKind::logits: return "logits";
    case BufferKind::input: return "input";
    case BufferKind::other: return "other";
  }
  return "";
}

}  // namespace stepcast
