// The words of a Deadlock: every role's blocked op, its unit, and who is missing.
//
//   no op can go on: role "gpu0" is at all_reduce of unit "b1" on communicator "world" (step 0
//   "steady", backward.all_reduce.b1), which role "rest" has not entered; role "rest" has ended

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "sim/engines/ready_queue.hpp"

namespace stepcast {

std::string ReadyQueue::describe(const Member& member) const {
  const Schedule& schedule = plan_.schedule();
  const Op& op = plan_.op(member.role, member.at);
  const StepProgram& program = plan_.ops_of(member.role, member.at.step);
  std::string text = op.kind == OpKind::collective ? std::string(to_string(op.collective))
                                                   : std::string(to_string(op.kind));
  if (op.unit >= 0) {
    text += fmt::format(" of unit \"{}\"", schedule.units[static_cast<std::size_t>(op.unit)].str());
  }
  if (op.kind == OpKind::collective) {
    text += fmt::format(" on communicator \"{}\"",
                        schedule.communicators[static_cast<std::size_t>(op.comm)].name.str());
  }
  return fmt::format("{} (step {} \"{}\", {})", text, member.at.step, program.name.str(),
                     op_names(schedule, program)[static_cast<std::size_t>(member.at.op)]);
}

// What holds the role: a collective that others have not entered before anything else, because
// that is where the roles disagree; then the lanes, then the streams.
std::string ReadyQueue::blocked(int role, Deadlock::Stall& stall) const {
  const auto role_name = [this](int r) {
    return fmt::format("role \"{}\"",
                       plan_.schedule().roles[static_cast<std::size_t>(r)].name.str());
  };
  stall.role = role;
  const RoleState& state = roles_[static_cast<std::size_t>(role)];
  using Rank = std::tuple<int, int, OpIndex>;  // kind of reason, step, op
  std::optional<Rank> best;
  std::string text;
  const auto offer = [&](int reason, OpAt here, const std::string& why) {
    const Rank rank{reason, here.step, here.op};
    if (best && *best <= rank) return false;
    best = rank;
    text = fmt::format("{} is at {}, which {}", role_name(role), describe({role, here}), why);
    return true;
  };
  for (std::size_t s = 0; s < state.streams.size(); ++s) {
    Cursor cursor = state.streams[s].cursor;
    const OpAt here = head(role, cursor, &ProgramIndex::streams, s);
    if (!here.exists() || times(role, here).first < 0) continue;
    const Op& op = plan_.op(role, here);
    if (op.kind != OpKind::collective) {
      offer(2, here, "waits for an op that never ends");
      continue;
    }
    const CommunicatorQueue& queue =
        queues_[static_cast<std::size_t>(state.queue_of[static_cast<std::size_t>(op.comm)])];
    for (std::size_t n = 0; n < queue.entered.size(); ++n) {
      std::vector<int> here_already, absent;
      Constraint ready;
      for (const Entry& entry : queue.entered[n]) {
        here_already.push_back(entry.member.role);
        if (entry.member.role == role) ready = entry.tail;
      }
      const auto is_in = [&](int r) {
        return std::find(here_already.begin(), here_already.end(), r) != here_already.end();
      };
      const bool mine =
          std::any_of(queue.entered[n].begin(), queue.entered[n].end(),
                      [&](const Entry& e) { return e.member.role == role && e.member.at == here; });
      if (!mine) continue;
      std::string missing;
      for (const int r : queue.roles) {
        if (is_in(r)) continue;
        absent.push_back(r);
        missing += (missing.empty() ? "" : ", ") + role_name(r);
      }
      if (missing.empty()) {
        offer(2, here, "waits for the collective before it on its communicator");
      } else if (offer(0, here, missing + " has not entered")) {
        const Seconds issued = times(role, here).first;
        const Seconds since = std::max({ready.at, queue.tail, issued});
        stall = {role, here.step, here.op, since, issued, std::move(absent)};
      }
    }
  }
  for (std::size_t l = 0; l < state.lanes.size(); ++l) {
    Cursor cursor = state.lanes[l].cursor;
    const OpAt here = head(role, cursor, &ProgramIndex::lanes, l);
    if (here.exists()) offer(1, here, "waits for an op that never ends");
  }
  return best ? text : role_name(role) + " has ended";
}

void ReadyQueue::deadlock() const {
  std::string text = "no op can go on: ";
  std::vector<Deadlock::Stall> stalls(static_cast<std::size_t>(plan_.roles()));
  for (int role = 0; role < plan_.roles(); ++role) {
    text += (role == 0 ? "" : "; ") + blocked(role, stalls[static_cast<std::size_t>(role)]);
  }
  throw Deadlock(text, std::move(stalls));
}

// The n-th collective of a communicator must be the same for every role, or NCCL hangs or mixes up
// data.
void ReadyQueue::check_same(const Member& one, const Member& other) const {
  const Op& a = plan_.op(one.role, one.at);
  const Op& b = plan_.op(other.role, other.at);
  if (a.collective == b.collective && a.elements == b.elements && a.dtype == b.dtype &&
      a.reduction == b.reduction && a.root == b.root) {
    return;
  }
  const auto name = [this](int role) {
    return plan_.schedule().roles[static_cast<std::size_t>(role)].name.str();
  };
  throw Deadlock(fmt::format(
      "roles enter different collectives: role \"{}\" is at {} of {} {} elements, role \"{}\" at "
      "{} of {} {} elements",
      name(one.role), describe(one), a.elements, to_string(a.dtype), name(other.role),
      describe(other), b.elements, to_string(b.dtype)));
}

}  // namespace stepcast
