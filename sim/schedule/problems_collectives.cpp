#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/schedule/problems_parts.hpp"

namespace stepcast::checks {
namespace {

std::string described(const Op& op) {
  std::string text = fmt::format("{} {} of {} elements", to_string(op.dtype),
                                 to_string(op.collective), op.elements);
  if (op.reduction != Reduction::none) text += fmt::format(", {}", to_string(op.reduction));
  if (op.root >= 0) text += fmt::format(", root {}", op.root);
  return text;
}

bool same_collective(const Op& a, const Op& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.elements == b.elements &&
         a.reduction == b.reduction && a.root == b.root;
}

// Pairs of roles that meet in a group of the communicator: each group's first role with every
// other.
std::set<std::pair<std::size_t, std::size_t>> meeting(const Schedule& s, Axis axis) {
  const std::size_t shard = static_cast<std::size_t>(s.mesh.shard);
  std::vector<std::int32_t> first(static_cast<std::size_t>(s.mesh.world_size()), -1);  // by group
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t r = 0; r < s.roles.size(); ++r) {
    const Role& role = s.roles[r];
    for (int i = 0; i < role.rank_count; ++i) {
      const auto rank = static_cast<std::size_t>(role.rank(i));
      const std::size_t group = axis == Axis::world   ? 0
                                : axis == Axis::shard ? rank / shard
                                                      : rank % shard;
      if (first[group] < 0) first[group] = static_cast<std::int32_t>(r);
      const auto other = static_cast<std::size_t>(first[group]);
      if (other != r) pairs.emplace(other, r);
    }
  }
  return pairs;
}

class CollectiveCheck {
 public:
  CollectiveCheck(const Schedule& schedule, Findings& findings)
      : s_(schedule), findings_(findings), namer_(schedule) {}

  void run() {
    std::set<std::pair<std::size_t, std::size_t>> all;
    std::vector<std::set<std::pair<std::size_t, std::size_t>>> pairs;
    for (const Communicator& comm : s_.communicators) {
      pairs.push_back(meeting(s_, comm.axis));
      all.insert(pairs.back().begin(), pairs.back().end());
    }
    for (const auto& pair : all) {
      for (std::size_t step = 0; step < s_.roles[pair.first].steps.size(); ++step) {
        std::vector<CommIndex> shared;
        bool same = true;
        for (std::size_t c = 0; c < pairs.size(); ++c) {
          if (pairs[c].count(pair) == 0) continue;
          shared.push_back(static_cast<CommIndex>(c));
          same = compare(pair.first, pair.second, step, {static_cast<CommIndex>(c)}) && same;
        }
        // One by one the communicators agree; interleaved they may still be crossed.
        if (same && shared.size() > 1) compare(pair.first, pair.second, step, shared);
      }
    }
  }

 private:
  std::vector<OpIndex> issued(std::size_t role, std::size_t step,
                              const std::vector<CommIndex>& comms) const {
    std::vector<OpIndex> list;
    const std::vector<Op>& ops = s_.roles[role].steps[step].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != OpKind::collective) continue;
      if (std::find(comms.begin(), comms.end(), ops[i].comm) == comms.end()) continue;
      list.push_back(static_cast<OpIndex>(i));
    }
    return list;
  }

  bool compare(std::size_t role_a, std::size_t role_b, std::size_t step,
               const std::vector<CommIndex>& comms) {
    const std::vector<OpIndex> a = issued(role_a, step, comms);
    const std::vector<OpIndex> b = issued(role_b, step, comms);
    std::string where = s_.roles[role_a].steps[step].name.str() + ": communicator";
    for (const CommIndex comm : comms) {
      where += " " + s_.communicators[static_cast<std::size_t>(comm)].name.str();
    }
    const auto op = [&](std::size_t role, OpIndex index) -> const Op& {
      return s_.roles[role].steps[step].ops[static_cast<std::size_t>(index)];
    };
    const auto told = [&](std::size_t role, OpIndex index) {
      return fmt::format("role {} issues {} ({})", s_.roles[role].name.str(),
                         namer_.name(role, step, index), described(op(role, index)));
    };
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      const Op& x = op(role_a, a[i]);
      const Op& y = op(role_b, b[i]);
      if (x.comm == y.comm && same_collective(x, y)) continue;
      findings_.add(fmt::format("{}: collective {} differs: {}, {}", where, i + 1,
                                told(role_a, a[i]), told(role_b, b[i])));
      return false;
    }
    if (a.size() == b.size()) return true;
    const bool a_longer = a.size() > b.size();
    const std::size_t longer = a_longer ? role_a : role_b;
    const std::size_t shorter = a_longer ? role_b : role_a;
    const std::size_t at = std::min(a.size(), b.size());
    findings_.add(fmt::format("{}: {}, and role {} never does", where,
                              told(longer, (a_longer ? a : b)[at]), s_.roles[shorter].name.str()));
    return false;
  }

  const Schedule& s_;
  Findings& findings_;
  OpNamer namer_;
};

}  // namespace

void check_collectives(const Schedule& schedule, Findings& findings) {
  if (schedule.roles.size() > 1) CollectiveCheck(schedule, findings).run();
}

}  // namespace stepcast::checks
