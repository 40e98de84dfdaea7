#include <fmt/format.h>

#include <algorithm>

#include "sim/schedule/problems_parts.hpp"

namespace stepcast::checks {
namespace {

template <typename List>
bool within(std::int64_t index, const List& list) {
  return index >= 0 && index < static_cast<std::int64_t>(list.size());
}

template <typename List>
bool within(Range range, const List& arena) {
  return range.first >= 0 && range.count >= 0 &&
         static_cast<std::int64_t>(range.first) + range.count <=
             static_cast<std::int64_t>(arena.size());
}

class FormCheck {
 public:
  FormCheck(const Schedule& schedule, Findings& findings)
      : s_(schedule), findings_(findings), namer_(schedule) {}

  void run() {
    check_buffers();
    check_roles();
    for (std::size_t r = 0; r < s_.roles.size(); ++r) {
      for (std::size_t p = 0; p < s_.roles[r].steps.size(); ++p) check_step(r, p);
    }
  }

 private:
  void check_buffers() {
    for (std::size_t i = 0; i < s_.buffers.size(); ++i) {
      const Buffer& buffer = s_.buffers[i];
      const std::string& name = buffer.name.str();
      if (buffer.bytes < 0) findings_.add(fmt::format("buffer {} has a negative size", name));
      if (!within(buffer.pool, s_.streams) && !(buffer.persistent && buffer.pool == 0)) {
        findings_.add(
            fmt::format("buffer {} is in the pool of a stream that does not exist", name));
      }
      if (buffer.view_of == -1) continue;
      if (buffer.view_of < 0 || buffer.view_of >= static_cast<BufferIndex>(i)) {
        findings_.add(fmt::format("buffer {} views a buffer that is not declared before it", name));
        continue;
      }
      const Buffer& whole = s_.buffers[static_cast<std::size_t>(buffer.view_of)];
      if (buffer.view_offset < 0 || buffer.view_offset > whole.bytes ||
          buffer.bytes > whole.bytes - buffer.view_offset) {
        findings_.add(
            fmt::format("buffer {} reaches beyond {}, which it views", name, whole.name.str()));
      }
    }
  }

  void check_roles() {
    if (s_.mesh.replicate < 1 || s_.mesh.shard < 1) {
      findings_.add(fmt::format("the mesh {} x {} has no ranks", s_.mesh.replicate, s_.mesh.shard));
      return;
    }
    const std::int64_t world = std::int64_t{s_.mesh.replicate} * s_.mesh.shard;
    constexpr std::int64_t most_ranks = 1 << 24;
    if (world > most_ranks) {
      findings_.add(fmt::format("the mesh has {} ranks, more than {}", world, most_ranks));
      return;
    }
    for (const Lane& lane : s_.lanes) {
      if (lane.sharers < 1 || lane.sharers > most_ranks) {
        findings_.add(fmt::format("lane {} takes turns with {} threads; accepted: 1 to {}",
                                  lane.name.str(), lane.sharers, most_ranks));
      }
    }
    for (const Role& role : s_.roles) {
      if (!has_sound_ranks(role, world)) {
        findings_.add(
            fmt::format("role {} has ranks outside 0 to {}, or none", role.name.str(), world - 1));
      }
      const auto same_name = [](const StepProgram& a, const StepProgram& b) {
        return a.name == b.name;
      };
      const Role& first = s_.roles.front();
      if (!std::equal(role.steps.begin(), role.steps.end(), first.steps.begin(), first.steps.end(),
                      same_name)) {
        findings_.add(
            fmt::format("role {} has other steps than role {}", role.name.str(), first.name.str()));
      }
    }
    if (findings_.empty()) check_every_rank_once(world);
  }

  static bool has_sound_ranks(const Role& role, std::int64_t world) {
    if (role.rank_count < 1) return false;
    if (role.listed.empty()) {
      const std::int64_t last =
          role.first_rank + (role.rank_count - std::int64_t{1}) * role.rank_stride;
      return role.first_rank >= 0 && role.rank_stride >= 1 && last < world;
    }
    return role.listed.size() == static_cast<std::size_t>(role.rank_count) &&
           role.listed.front() >= 0 && role.listed.back() < world &&
           std::is_sorted(role.listed.begin(), role.listed.end());
  }

  void check_every_rank_once(std::int64_t world) {
    std::vector<std::int32_t> role_of(static_cast<std::size_t>(world), -1);
    for (std::size_t r = 0; r < s_.roles.size(); ++r) {
      const Role& role = s_.roles[r];
      for (std::int64_t i = 0; i < role.rank_count; ++i) {
        const std::int64_t rank = role.rank(i);
        std::int32_t& owner = role_of[static_cast<std::size_t>(rank)];
        if (owner >= 0) {
          findings_.add(fmt::format("rank {} belongs to two roles, {} and {}", rank,
                                    s_.roles[static_cast<std::size_t>(owner)].name.str(),
                                    role.name.str()));
          return;
        }
        owner = static_cast<std::int32_t>(r);
      }
    }
    const auto alone = std::find(role_of.begin(), role_of.end(), -1);
    if (alone != role_of.end() && !s_.roles.empty()) {
      findings_.add(fmt::format("rank {} belongs to no role and would issue no collective",
                                alone - role_of.begin()));
    }
  }

  void check_step(std::size_t role, std::size_t step) {
    const StepProgram& program = s_.roles[role].steps[step];
    role_ = role;
    step_ = step;
    for (std::size_t i = 0; i < program.ops.size() && !findings_.full(); ++i) {
      check_op(program, program.ops[i], static_cast<OpIndex>(i));
    }
  }

  void check_op(const StepProgram& program, const Op& op, OpIndex index) {
    index_ = index;
    if (!within(op.lane, s_.lanes) && !(op.lane == 0 && s_.lanes.empty())) {
      add("is on a lane that does not exist");
    }
    if (op.unit < -1 || op.unit >= static_cast<UnitIndex>(s_.units.size())) {
      add("belongs to a unit that does not exist");
    }
    const bool needs_stream = op.kind == OpKind::compute || op.kind == OpKind::collective ||
                              op.kind == OpKind::copy || op.kind == OpKind::stream_wait;
    if (needs_stream && !within(op.stream, s_.streams)) {
      add("is on a stream that does not exist");
    }
    if (!needs_stream && op.stream != -1) add("is a host op and cannot be on a stream");
    if (!within(op.kernels, s_.kernels)) add("runs kernels that do not exist");
    check_waits(program, op);
    check_views(op.reads, "reads");
    check_views(op.writes, "writes");
    if (op.kind == OpKind::collective) check_collective(op);
    if (op.kind == OpKind::host_wait && op.wait_target == WaitTarget::stream &&
        !within(op.wait_stream, s_.streams)) {
      add("waits on a stream that does not exist");
    }
    if (op.kind == OpKind::alloc || op.kind == OpKind::free) check_lifetime(op);
    if (op.bytes < 0) add("moves a negative number of bytes");
  }

  void check_waits(const StepProgram& program, const Op& op) {
    if (!within(op.waits, s_.refs)) {
      add("waits on what does not exist");
      return;
    }
    for (const OpRef& ref : s_.at_refs(op.waits)) {
      if (!within(ref.op, program.ops)) {
        add("waits on an op that does not exist and never runs");
      } else if (ref.steps_back < 0) {
        add(fmt::format("waits on {} of a later step, which cannot have run",
                        namer_.name(role_, step_, ref.op)));
      } else if (ref.steps_back == 0 && ref.op >= index_) {
        add(fmt::format("waits on {}, which is issued {}; it can never run",
                        namer_.name(role_, step_, ref.op),
                        ref.op == index_ ? "by itself" : "only after it"));
      }
    }
  }

  void check_views(Range range, const char* verb) {
    if (!within(range, s_.views)) {
      add(fmt::format("{} views that do not exist", verb));
      return;
    }
    for (const View& view : s_.at_views(range)) {
      if (!within(view.buffer, s_.buffers)) {
        add(fmt::format("{} a buffer that does not exist", verb));
        continue;
      }
      const Buffer& buffer = s_.buffers[static_cast<std::size_t>(view.buffer)];
      if (view.offset < 0 || view.bytes < 0 || view.offset > buffer.bytes ||
          view.bytes > buffer.bytes - view.offset) {
        add(fmt::format("{} {}, beyond the buffer's {} bytes", verb, shown(s_, view),
                        buffer.bytes));
      }
    }
  }

  void check_collective(const Op& op) {
    if (!within(op.comm, s_.communicators)) {
      add("is a collective of no communicator");
      return;
    }
    if (op.elements < 0) add("has a negative number of elements");
    const int ranks = s_.mesh.size(s_.communicators[static_cast<std::size_t>(op.comm)].axis);
    const bool rooted = op.collective != CollectiveKind::all_reduce &&
                        op.collective != CollectiveKind::all_gather &&
                        op.collective != CollectiveKind::reduce_scatter;
    if (rooted && (op.root < 0 || op.root >= ranks)) {
      add(fmt::format("needs a root between 0 and {}, has {}", ranks - 1, op.root));
    }
  }

  void check_lifetime(const Op& op) {
    const std::string_view verb = to_string(op.kind);
    if (!within(op.buffer, s_.buffers)) {
      add(fmt::format("is the {} of a buffer that does not exist", verb));
      return;
    }
    const Buffer& buffer = s_.buffers[static_cast<std::size_t>(op.buffer)];
    if (buffer.view_of >= 0) {
      add(fmt::format("is the {} of {}, a view, which owns no memory", verb, buffer.name.str()));
    } else if (buffer.persistent) {
      add(fmt::format("is the {} of {}, which is persistent", verb, buffer.name.str()));
    }
    if (!within(op.free_streams, s_.stream_lists)) {
      add("frees after streams that do not exist");
      return;
    }
    for (const StreamIndex stream : s_.at_streams(op.free_streams)) {
      if (!within(stream, s_.streams)) add("frees after a stream that does not exist");
    }
  }

  void add(const std::string& what) {
    findings_.add(place(s_, role_, step_) + namer_.name(role_, step_, index_) + " " + what);
  }

  const Schedule& s_;
  Findings& findings_;
  OpNamer namer_;
  std::size_t role_ = 0;
  std::size_t step_ = 0;
  OpIndex index_ = 0;
};

}  // namespace

void check_form(const Schedule& schedule, Findings& findings) {
  FormCheck(schedule, findings).run();
}

}  // namespace stepcast::checks
