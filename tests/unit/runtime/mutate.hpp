#pragma once
// Wrong schedules made of right ones: an op less, two ops swapped, something of an op changed.

#include <functional>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

struct ProgramOf {
  int role = 0;
  int step = 0;
};

inline StepProgram& at(Schedule& s, ProgramOf which) {
  return s.roles[static_cast<std::size_t>(which.role)].steps[static_cast<std::size_t>(which.step)];
}

// The program with ops in another order or left out. `order[k]` is the index that op k of the new
// step had. Waits keep meaning the same ops; those on an op left out go.
inline Schedule reordered(Schedule s, const std::vector<OpIndex>& order, ProgramOf which = {}) {
  StepProgram& step = at(s, which);
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
  int role = 0;
  // The same ops and operands in another order, or a wait less: equivalent where every conflicting
  // pair is ordered as before.
  bool may_be_equivalent = false;
};

enum class Sharing { conflicts, touches };

// Whether two ops have bytes of one buffer in common, of which one writes, or at all.
inline bool share(const Schedule& s, const Op& a, const Op& b, Sharing how) {
  const auto meets = [&](Range x, Range y) {
    for (const View& v : s.at_views(x)) {
      for (const View& w : s.at_views(y)) {
        if (v.buffer == w.buffer && v.offset < w.offset + w.bytes && w.offset < v.offset + v.bytes)
          return true;
      }
    }
    return false;
  };
  return meets(a.writes, b.writes) || meets(a.writes, b.reads) || meets(a.reads, b.writes) ||
         (how == Sharing::touches && meets(a.reads, b.reads));
}

class Mutations {
 public:
  // `partners`: how many of the ops after it an op is swapped with, of those it conflicts with and
  // of those it has a view in common with.
  Mutations(const Schedule& s, int partners, std::function<void(const Mutant&)> use)
      : s_(s), partners_(partners), use_(std::move(use)) {}

  // Of every program of every role: each op removed, swapped, changed.
  void all() {
    for (std::size_t r = 0; r < s_.roles.size(); ++r) {
      for (std::size_t p = 0; p < s_.roles[r].steps.size(); ++p) {
        which_ = {static_cast<int>(r), static_cast<int>(p)};
        const StepProgram& step = s_.roles[r].steps[p];
        names_ = op_names(s_, step);
        prefix_ = (s_.roles.size() > 1 ? s_.roles[r].name.str() + "/" : "") +
                  (s_.roles[r].steps.size() > 1 ? step.name.str() + "/" : "");
        for (std::size_t i = 0; i < step.ops.size(); ++i) remove(step.ops, i);
        for (std::size_t i = 0; i < step.ops.size(); ++i) swap(step.ops, i);
        for (std::size_t i = 0; i < step.ops.size(); ++i) change(step.ops[i], i);
      }
    }
  }

 private:
  std::vector<OpIndex> identity(std::size_t count) const {
    std::vector<OpIndex> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<OpIndex>(i);
    return order;
  }

  void remove(const std::vector<Op>& ops, std::size_t i) {
    const OpKind kind = ops[i].kind;
    const bool wait = kind == OpKind::stream_wait || kind == OpKind::host_wait;
    if (!wait && kind != OpKind::compute && kind != OpKind::collective && kind != OpKind::copy) {
      return;
    }
    std::vector<OpIndex> order = identity(ops.size());
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
    use_({prefix_ + "without " + names_[i], reordered(s_, order, which_), which_.role, wait});
  }

  void swap(const std::vector<Op>& ops, std::size_t i) {
    int conflicting = 0;
    int touching = 0;
    for (std::size_t j = i + 1; j < ops.size(); ++j) {
      if (conflicting == partners_ && touching == partners_) return;
      if (!share(s_, ops[i], ops[j], Sharing::touches)) continue;
      const bool conflicts = share(s_, ops[i], ops[j], Sharing::conflicts);
      int& count = conflicts ? conflicting : touching;
      if (count == partners_) continue;
      ++count;
      std::vector<OpIndex> order = identity(ops.size());
      std::swap(order[i], order[j]);
      use_({prefix_ + names_[i] + " and " + names_[j] + " swapped", reordered(s_, order, which_),
            which_.role, true});
    }
  }

  void change(const Op& op, std::size_t i) {
    const auto changed = [&](const char* what, const std::function<void(Op&)>& change_it) {
      Mutant mutant{prefix_ + names_[i] + " with another " + what, s_, which_.role, false};
      change_it(at(mutant.schedule, which_).ops[i]);
      use_(mutant);
    };
    if (op.kind == OpKind::collective) {
      changed("dtype", [](Op& o) { o.dtype = Dtype::fp16; });
      if (op.reduction != Reduction::none) {
        changed("reduction", [](Op& o) {
          o.reduction = o.reduction == Reduction::sum ? Reduction::avg : Reduction::sum;
        });
      }
      if (op.root >= 0) changed("root", [](Op& o) { o.root = 1 - o.root; });
    }
    const bool has_operands =
        op.kind == OpKind::compute || op.kind == OpKind::collective || op.kind == OpKind::copy;
    if (!has_operands) return;
    for (const Range range : {op.reads, op.writes}) {
      for (int v = 0; v < range.count; ++v) {
        Mutant mutant{prefix_ + names_[i] + " with another operand", s_, which_.role, false};
        View& view = mutant.schedule.views[static_cast<std::size_t>(range.first + v)];
        mutant.what += " for " + s_.buffers[static_cast<std::size_t>(view.buffer)].name.str();
        move(view);
        use_(mutant);
      }
    }
  }

  // By an element, or where the view is the whole buffer, to another buffer.
  void move(View& view) const {
    const Buffer& buffer = s_.buffers[static_cast<std::size_t>(view.buffer)];
    const Bytes element = bytes_per_element(buffer.dtype);
    if (view.offset + view.bytes + element <= buffer.bytes) {
      view.offset += element;
    } else if (view.offset >= element) {
      view.offset -= element;
    } else {
      view.buffer = view.buffer == 0 ? 1 : view.buffer - 1;
      view.bytes = std::min(view.bytes, s_.buffers[static_cast<std::size_t>(view.buffer)].bytes);
    }
  }

  const Schedule& s_;
  int partners_;
  std::function<void(const Mutant&)> use_;
  ProgramOf which_;
  std::string prefix_;
  std::vector<std::string> names_;
};

}  // namespace stepcast::testing
