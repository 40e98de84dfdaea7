#include "tests/conservation/contributions.hpp"

#include <algorithm>
#include <set>

namespace stepcast::testing {
namespace {

using Tokens = std::set<int>;

struct Piece {
  Bytes begin = 0, end = 0;
  Tokens tokens;
};

class Follower {
 public:
  explicit Follower(const Schedule& schedule) : s_(schedule) {}

  std::vector<Contribution> run() {
    const StepProgram& program = s_.roles[0].steps.back();
    const std::vector<std::string> names = op_names(s_, program);
    for (std::size_t i = 0; i < program.ops.size(); ++i) visit(program.ops[i], names[i]);
    return std::move(found_);
  }

 private:
  struct Place {
    BufferIndex root = -1;
    Bytes begin = 0, end = 0;
  };

  Place place(const View& view) const {
    Place p{view.buffer, view.offset, view.offset + view.bytes};
    while (buffer(p.root).view_of >= 0) {
      const Buffer& b = buffer(p.root);
      p = {b.view_of, p.begin + b.view_offset, p.end + b.view_offset};
    }
    return p;
  }
  const Buffer& buffer(BufferIndex index) const {
    return s_.buffers[static_cast<std::size_t>(index)];
  }
  bool followed(const View& view) const {
    const BufferKind kind = buffer(place(view).root).kind;
    return kind == BufferKind::gradient || kind == BufferKind::bucket ||
           kind == BufferKind::reduce_input || kind == BufferKind::reduce_output;
  }

  Tokens read(const Place& from) const {
    Tokens tokens;
    const auto found = held_.find(from.root);
    if (found == held_.end()) return tokens;
    for (const Piece& piece : found->second) {
      if (piece.begin < from.end && from.begin < piece.end) {
        tokens.insert(piece.tokens.begin(), piece.tokens.end());
      }
    }
    return tokens;
  }

  void write(const Place& to, const Tokens& tokens) {
    std::vector<Piece> kept;
    for (const Piece& piece : held_[to.root]) {
      if (piece.begin < to.begin) {
        kept.push_back({piece.begin, std::min(piece.end, to.begin), piece.tokens});
      }
      if (piece.end > to.end)
        kept.push_back({std::max(piece.begin, to.end), piece.end, piece.tokens});
    }
    kept.push_back({to.begin, to.end, tokens});
    held_[to.root] = std::move(kept);
  }

  void visit(const Op& op, const std::string& name) {
    if (op.kind == OpKind::alloc || op.kind == OpKind::free) {
      held_.erase(op.buffer);
      return;
    }
    if (op.phase == Phase::optimizer) return;
    const bool on_device =
        op.kind == OpKind::compute || op.kind == OpKind::copy || op.kind == OpKind::collective;
    if (!on_device) return;
    Tokens tokens;
    for (const View& view : s_.at_views(op.reads)) {
      if (!followed(view)) continue;
      const Tokens more = read(place(view));
      tokens.insert(more.begin(), more.end());
    }
    if (op.kind == OpKind::collective && op.reduction != Reduction::none) {
      const Axis axis = s_.communicators[static_cast<std::size_t>(op.comm)].axis;
      for (const int token : tokens) ++found_[static_cast<std::size_t>(token)].reductions[axis];
    }
    static const Name compute("compute");
    const bool backward =
        op.kind == OpKind::compute && op.phase == Phase::backward && op.verb == compute;
    for (const View& view : s_.at_views(op.writes)) {
      if (!followed(view)) continue;
      Tokens written = tokens;
      if (backward) {
        written.insert(static_cast<int>(found_.size()));
        found_.push_back({name, op.micro_batch, {}});
      }
      write(place(view), written);
    }
  }

  const Schedule& s_;
  std::map<BufferIndex, std::vector<Piece>> held_;
  std::vector<Contribution> found_;
};

}  // namespace

std::vector<Contribution> contributions(const Schedule& schedule) {
  return Follower(schedule).run();
}

}  // namespace stepcast::testing
