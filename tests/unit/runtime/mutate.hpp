#pragma once
// Wrong schedules made of right ones: an op less, two ops swapped, something of an op changed.

#include <functional>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

// The only step of the only role, with ops in another order or left out. `order[k]` is the index
// that op k of the new step had. Waits keep meaning the same ops; those on an op left out go.
inline Schedule reordered(Schedule s, const std::vector<OpIndex>& order) {
  StepProgram& step = s.roles[0].steps[0];
  std::vector<OpIndex> now(step.ops.size(), -1);
  for (std::size_t k = 0; k < order.size(); ++k) {
    now[static_cast<std::size_t>(order[k])] = static_cast<OpIndex>(k);
  }
  std::vector<Op> ops;
  for (const OpIndex old : order) {
    Op op = step.ops[static_cast<std::size_t>(old)];
    const auto waits = s.at_refs(op.waits);
    std::vector<OpRef> refs;
    for (OpRef ref : waits) {
      ref.op = now[static_cast<std::size_t>(ref.op)];
      if (ref.op >= 0) refs.push_back(ref);
    }
    op.waits = {static_cast<std::int32_t>(s.refs.size()), static_cast<std::int32_t>(refs.size())};
    s.refs.insert(s.refs.end(), refs.begin(), refs.end());
    ops.push_back(op);
  }
  step.ops = std::move(ops);
  return s;
}

struct Mutant {
  std::string what;
  Schedule schedule;
  // The same ops and operands in another order, or a wait less: equivalent where every conflicting
  // pair is ordered as before.
  bool may_be_equivalent = false;
};

inline bool overlap(const View& a, const View& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

inline bool conflict(const Schedule& s, const Op& a, const Op& b) {
  const auto meets = [&](Range x, Range y) {
    for (const View& v : s.at_views(x)) {
      for (const View& w : s.at_views(y)) {
        if (overlap(v, w)) return true;
      }
    }
    return false;
  };
  return meets(a.writes, b.writes) || meets(a.writes, b.reads) || meets(a.reads, b.writes);
}

// Every op removed, every op swapped with the next it conflicts with, every collective's dtype,
// reduction and root changed, every operand moved by an element or made another buffer.
inline void each_mutant(const Schedule& s, const std::function<void(const Mutant&)>& use) {
  const std::vector<Op>& ops = s.roles[0].steps[0].ops;
  const std::vector<std::string> names = op_names(s, s.roles[0].steps[0]);
  std::vector<OpIndex> identity(ops.size());
  for (std::size_t i = 0; i < identity.size(); ++i) identity[i] = static_cast<OpIndex>(i);

  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpKind kind = ops[i].kind;
    const bool wait = kind == OpKind::stream_wait || kind == OpKind::host_wait;
    if (wait || kind == OpKind::compute || kind == OpKind::collective || kind == OpKind::copy) {
      std::vector<OpIndex> order = identity;
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
      use({"without " + names[i], reordered(s, order), wait});
    }
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (std::size_t j = i + 1; j < ops.size(); ++j) {
      if (!conflict(s, ops[i], ops[j])) continue;
      std::vector<OpIndex> order = identity;
      std::swap(order[i], order[j]);
      use({names[i] + " and " + names[j] + " swapped", reordered(s, order), true});
      break;
    }
  }
  const auto changed = [&](std::size_t i, const char* what,
                           const std::function<void(Op&)>& change) {
    Mutant mutant{names[i] + " with another " + what, s, false};
    change(mutant.schedule.roles[0].steps[0].ops[i]);
    use(mutant);
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::collective) {
      changed(i, "dtype", [](Op& op) { op.dtype = Dtype::fp16; });
      if (ops[i].reduction != Reduction::none) {
        changed(i, "reduction", [](Op& op) {
          op.reduction = op.reduction == Reduction::sum ? Reduction::avg : Reduction::sum;
        });
      }
      if (ops[i].root >= 0) changed(i, "root", [](Op& op) { op.root = 1 - op.root; });
    }
    if (ops[i].kind != OpKind::compute && ops[i].kind != OpKind::collective) continue;
    for (const Range range : {ops[i].reads, ops[i].writes}) {
      for (int v = 0; v < range.count; ++v) {
        Mutant mutant{names[i] + " with another operand", s, false};
        View& view = mutant.schedule.views[static_cast<std::size_t>(range.first + v)];
        const Buffer& buffer = s.buffers[static_cast<std::size_t>(view.buffer)];
        const Bytes element = bytes_per_element(buffer.dtype);
        if (view.offset + view.bytes + element <= buffer.bytes) {
          view.offset += element;
        } else if (view.offset >= element) {
          view.offset -= element;
        } else {
          view.buffer = view.buffer == 0 ? 1 : view.buffer - 1;
          view.bytes = std::min(view.bytes, s.buffers[static_cast<std::size_t>(view.buffer)].bytes);
        }
        use(mutant);
      }
    }
  }
}

}  // namespace stepcast::testing
