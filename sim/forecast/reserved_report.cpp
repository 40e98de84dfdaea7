#include <fmt/format.h>

#include <algorithm>

#include "sim/forecast/fit.hpp"
#include "sim/memory/overheads.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

// "forward.alloc.head asks 7.83 GiB for forward_workspace.head (logits) in the pool of compute;
//  70.12 GiB are reserved: tensors 60.00, waiting 3.10, cached 7.02"
std::string sentence(const OutOfMemory& out) {
  std::string who = out.at.op_name.empty() ? "a persistent buffer" : out.at.op_name;
  return fmt::format(
      "{} asks {} for {} ({}) in the pool of stream {}; {} are reserved: tensors {}, freed but not "
      "passed by a stream {}, cached {} in blocks that are too small",
      who, human_gib(out.requested), out.buffer.str(), to_string(out.kind), out.pool,
      human_gib(out.at.reserved()), human_gib(out.at.allocated), human_gib(out.at.waiting),
      human_gib(out.at.cached));
}

ReservedMemory reserved_of(const RoleReplay& replay) {
  ReservedMemory reserved;
  reserved.peak = replay.peak_reserved;
  reserved.moment = replay.at_peak.op_name;
  reserved.allocated = replay.at_peak.allocated;
  reserved.waiting = replay.at_peak.waiting;
  reserved.cached = replay.at_peak.cached;
  reserved.peak_active = replay.peak_active;
  reserved.retries = replay.retries;
  if (!replay.out_of_memory.empty()) {
    reserved.out_of_memory = sentence(replay.out_of_memory.front());
  }
  return reserved;
}

Bytes room_for_tensors(const Resolved& resolved) {
  return resolved.cluster.machine.gpu.memory_bytes - sum_of(overheads(resolved.cluster.world_size));
}

}  // namespace

bool ends_without_memory(const std::vector<RoleReplay>& replays) {
  return std::any_of(replays.begin(), replays.end(),
                     [](const RoleReplay& replay) { return !replay.out_of_memory.empty(); });
}

ReplayOptions replay_options(const Resolved& resolved, const std::vector<RoleMemory>& roles) {
  ReplayOptions options;
  options.allocator = resolved.allocator;
  if (fits(roles, resolved.cluster.machine.gpu.memory_bytes)) {
    options.allocator.capacity = room_for_tensors(resolved);
  }
  return options;
}

std::vector<RoleReplay> replay_within(const Resolved& resolved, const Schedule& schedule,
                                      const Timeline& timeline, std::vector<RoleMemory>& roles) {
  std::vector<RoleReplay> replays =
      replay_memory(schedule, timeline, replay_options(resolved, roles));
  for (std::size_t i = 0; i < roles.size(); ++i) roles[i].reserved = reserved_of(replays[i]);
  return replays;
}

std::string change_of_allocator(const Resolved& resolved, const Schedule& schedule,
                                const Timeline& timeline, const std::vector<RoleReplay>& replays) {
  if (!ends_without_memory(replays) || resolved.allocator.expandable_segments) return "";
  ReplayOptions options;
  options.allocator.expandable_segments = true;
  options.allocator.capacity = room_for_tensors(resolved);
  return ends_without_memory(replay_memory(schedule, timeline, options))
             ? ""
             : "expandable_segments true";
}

}  // namespace stepcast
