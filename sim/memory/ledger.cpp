#include "sim/memory/ledger.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/schedule/buffers.hpp"
#include "sim/schedule/op_name.hpp"

namespace stepcast {
namespace {

class Replay {
 public:
  Replay(const Schedule& schedule, int role)
      : s_(schedule),
        role_(schedule.roles[static_cast<std::size_t>(role)]),
        alive_(persistent_of_role(schedule, role)) {
    for (std::size_t b = 0; b < alive_.size(); ++b) {
      if (alive_[b]) add(s_.buffers[b], 1);
    }
    ledger_.role = role_.name;
    ledger_.ranks = role_.rank_count;
    ledger_.persistent = total_;
    ledger_.persistent_by_kind = ledger_.highest_by_kind = by_kind_;
    take_peak(-1, -1);
  }

  RoleLedger run() {
    for (std::size_t p = 0; p < role_.steps.size(); ++p) run_step(static_cast<int>(p), true);
    if (!role_.steps.empty()) {
      const Bytes before = total_;
      run_step(static_cast<int>(role_.steps.size()) - 1, false);
      ledger_.growth = total_ - before;
    }
    name_moments();
    return std::move(ledger_);
  }

 private:
  void run_step(int program, bool record) {
    const std::vector<Op>& ops = role_.steps[static_cast<std::size_t>(program)].ops;
    LedgerMoment step_peak = moment(program, -1);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
      const auto b = static_cast<std::size_t>(op.buffer);
      const bool allocates = op.kind == OpKind::alloc;
      // A steady step that keeps what it allocated would allocate it again; problems() says so.
      STEPCAST_ASSERT(s_.buffers[b].view_of < 0 && alive_[b] != allocates,
                      "a schedule with problems: " + s_.buffers[b].name.str());
      alive_[b] = allocates;
      add(s_.buffers[b], allocates ? 1 : -1);
      const auto index = static_cast<OpIndex>(i);
      if (record) ledger_.samples.push_back({program, index, total_});
      if (!allocates) continue;
      if (total_ > step_peak.total) step_peak = moment(program, index);
      if (total_ > ledger_.peak.total) take_peak(program, index);
    }
    if (record) ledger_.step_peaks.push_back(std::move(step_peak));
  }

  void add(const Buffer& buffer, int sign) {
    Bytes& kind = by_kind_[static_cast<std::size_t>(buffer.kind)];
    Bytes next = 0;
    if (__builtin_add_overflow(total_, sign * buffer.bytes, &next)) {
      throw InputError("buffer " + buffer.name.str() +
                       ": the bytes held add up to more than 2^63 - 1");
    }
    total_ = next;
    kind += sign * buffer.bytes;
    Bytes& highest = ledger_.highest_by_kind[static_cast<std::size_t>(buffer.kind)];
    highest = std::max(highest, kind);
  }

  LedgerMoment moment(int program, OpIndex op) const {
    LedgerMoment result;
    result.program = program;
    result.op = op;
    result.total = total_;
    result.by_kind = by_kind_;
    return result;
  }

  // The holdings of the peak are copied only where it is final: a later alloc may pass it.
  void take_peak(int program, OpIndex op) {
    ledger_.peak = moment(program, op);
    peak_alive_ = alive_;
  }

  void name_moments() {
    for (std::size_t b = 0; b < peak_alive_.size(); ++b) {
      const Buffer& buffer = s_.buffers[b];
      if (!peak_alive_[b] || buffer.bytes == 0) continue;
      ledger_.peak.holdings.push_back({buffer.name, buffer.kind, buffer.bytes});
    }
    std::stable_sort(
        ledger_.peak.holdings.begin(), ledger_.peak.holdings.end(),
        [](const LedgerHolding& a, const LedgerHolding& b) { return a.bytes > b.bytes; });
    name_moment(ledger_.peak);
    for (LedgerMoment& step : ledger_.step_peaks) name_moment(step);
  }

  void name_moment(LedgerMoment& moment) {
    if (moment.program < 0) return;
    const auto program = static_cast<std::size_t>(moment.program);
    const StepProgram& step = role_.steps[program];
    moment.step = step.name;
    if (moment.op < 0) return;
    moment.op_name = op_name(s_, step, moment.op);
    moment.phase = step.ops[static_cast<std::size_t>(moment.op)].phase;
  }

  const Schedule& s_;
  const Role& role_;
  std::vector<bool> alive_;  // by buffer: owns memory now
  std::vector<bool> peak_alive_;
  Bytes total_ = 0;
  KindBytes by_kind_{};
  RoleLedger ledger_;
};

}  // namespace

std::vector<RoleLedger> memory_ledger(const Schedule& schedule) {
  std::vector<RoleLedger> ledgers;
  for (std::size_t role = 0; role < schedule.roles.size(); ++role) {
    ledgers.push_back(Replay(schedule, static_cast<int>(role)).run());
  }
  return ledgers;
}

}  // namespace stepcast
