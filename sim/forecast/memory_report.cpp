#include <algorithm>

#include "sim/forecast/fit.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/memory/overheads.hpp"

namespace stepcast {

std::vector<RoleMemory> memory_of_roles(const Resolved& resolved, const Schedule& schedule) {
  std::vector<RoleMemory> roles;
  const std::vector<Overhead> beside = overheads(resolved.cluster.world_size);
  for (const RoleLedger& ledger : memory_ledger(schedule)) {
    RoleMemory& role = roles.emplace_back();
    role.role = ledger.role.str();
    role.ranks = ledger.ranks;
    role.persistent = ledger.persistent;
    role.peak = ledger.peak.total + sum_of(beside);
    role.peak_moment = ledger.peak.op_name;
    for (std::size_t kind = 0; kind < buffer_kinds; ++kind) {
      const Bytes bytes = ledger.peak.by_kind[kind];
      if (bytes == 0) continue;
      role.rows.push_back({std::string(to_string(static_cast<BufferKind>(kind))), bytes});
    }
    for (const Overhead& overhead : beside) {
      role.rows.push_back({overhead.name.str(), overhead.bytes});
    }
    std::stable_sort(role.rows.begin(), role.rows.end(),
                     [](const MemoryRow& a, const MemoryRow& b) { return a.bytes > b.bytes; });
  }
  return roles;
}

}  // namespace stepcast
