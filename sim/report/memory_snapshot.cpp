#include "sim/report/memory_snapshot.hpp"

#include <cmath>

#include "base/error.hpp"
#include "sim/report/pickle.hpp"

namespace stepcast {
namespace {

using State = CachingAllocator::State;

class Snapshot {
 public:
  Snapshot(const Schedule& schedule, const Timeline& timeline,
           const std::vector<RoleReplay>& replays)
      : s_(schedule), t_(timeline), replays_(replays) {}

  std::string run(const AllocatorOptions& options) {
    p_.begin_dict();
    p_.text("segments").begin_list();
    for (std::size_t role = 0; role < replays_.size(); ++role) segments(role);
    p_.end_list();
    p_.text("device_traces").begin_list();
    for (std::size_t role = 0; role < replays_.size(); ++role) trace(role);
    p_.end_list();
    settings(options);
    p_.text("external_annotations").begin_list().end_list();
    p_.end_dict();
    return p_.finish();
  }

 private:
  // ---- segments ---------------------------------------------------------------------------------
  void segments(std::size_t role) {
    const RoleReplay& replay = replays_[role];
    const auto block = [&](std::int32_t i) -> const CachingAllocator::Block& {
      return replay.blocks[static_cast<std::size_t>(i)];
    };
    for (const CachingAllocator::Segment& segment : replay.segments) {
      if (!segment.alive) continue;
      // Of an expandable segment every mapped run is one of PyTorch's.
      for (std::int32_t first = segment.first; first >= 0;) {
        if (block(first).state == State::unmapped) {
          first = block(first).next;
          continue;
        }
        std::vector<const CachingAllocator::Block*> run;
        while (first >= 0 && block(first).state != State::unmapped) {
          run.push_back(&block(first));
          first = block(first).next;
        }
        add_segment(role, segment, run);
      }
    }
  }

  void add_segment(std::size_t role, const CachingAllocator::Segment& segment,
                   const std::vector<const CachingAllocator::Block*>& run) {
    Bytes total = 0, allocated = 0, active = 0, requested = 0;
    for (const CachingAllocator::Block* block : run) {
      total += block->size;
      if (block->state == State::allocated) allocated += block->size;
      if (block->state != State::free) active += block->size;
      if (block->state == State::allocated) requested += block->requested;
    }
    p_.begin_dict();
    p_.text("device").number(static_cast<std::int64_t>(role));
    p_.text("address").number(run.front()->address);
    p_.text("total_size").number(total);
    p_.text("allocated_size").number(allocated);
    p_.text("active_size").number(active);
    p_.text("requested_size").number(requested);
    p_.text("stream").number(segment.stream);
    p_.text("segment_type").text(segment.small ? "small" : "large");
    p_.text("segment_pool_id").pair(0, 0);
    p_.text("is_expandable").boolean(segment.expandable);
    p_.text("frames").begin_list().end_list();
    p_.text("blocks").begin_list();
    for (const CachingAllocator::Block* block : run) {
      p_.begin_dict();
      p_.text("address").number(block->address);
      p_.text("size").number(block->size);
      p_.text("requested_size").number(block->requested);
      p_.text("state").text(block->state == State::allocated ? "active_allocated"
                            : block->state == State::waiting ? "active_pending_free"
                                                             : "inactive");
      p_.text("frames").begin_list();
      if (block->tag >= 0) frame_of_buffer(block->tag);
      p_.end_list().end_dict();
    }
    p_.end_list().end_dict();
  }

  // ---- traces -----------------------------------------------------------------------------------
  void trace(std::size_t role) {
    const RoleReplay& replay = replays_[role];
    STEPCAST_ASSERT(replay.event_samples.size() == replay.events.size(),
                    "a replay without its events");
    names_.clear();
    for (const StepProgram& step : s_.roles[role].steps) names_.push_back(op_names(s_, step));
    p_.begin_list();
    for (std::size_t i = 0; i < replay.events.size(); ++i) {
      const AllocatorEvent& event = replay.events[i];
      p_.begin_dict();
      p_.text("action").text(to_string(event.action));
      // PyTorch names what is left of the device here, the address of everything else.
      p_.text(event.action == AllocatorAction::out_of_memory ? "device_free" : "addr");
      p_.number(event.address);
      p_.text("size").number(event.bytes);
      p_.text("stream").number(event.stream);
      p_.text("time_us").number(std::llround(event.time * 1e6));
      p_.text("frames").begin_list();
      if (event.tag >= 0) frame_of_buffer(event.tag);
      frame_of_op(replay, replay.event_samples[i]);
      p_.end_list().end_dict();
    }
    p_.end_list();
  }

  void frame(const std::string& file, std::int64_t line, const std::string& name) {
    p_.begin_dict();
    p_.text("filename").text(file);
    p_.text("line").number(line);
    p_.text("name").text(name);
    p_.end_dict();
  }

  void frame_of_buffer(std::int32_t tag) {
    const Buffer& buffer = s_.buffers[static_cast<std::size_t>(tag)];
    frame(std::string(to_string(buffer.kind)), tag, buffer.name.str());
  }

  void frame_of_op(const RoleReplay& replay, std::int32_t sample) {
    if (sample < 0) {
      frame("construction", 0, "before the first step");
      return;
    }
    const ReservedSample& at = replay.samples[static_cast<std::size_t>(sample)];
    const StepSpan& step = t_.steps[static_cast<std::size_t>(at.step)];
    frame("step " + std::to_string(at.step) + " (" + step.program.str() + ")", at.op,
          names_[static_cast<std::size_t>(step.program_index)][static_cast<std::size_t>(at.op)]);
  }

  void settings(const AllocatorOptions& options) {
    p_.text("allocator_settings").begin_dict();
    p_.text("PYTORCH_CUDA_ALLOC_CONF").text(conf(options));
    p_.text("max_split_size").number(options.max_split_size.value_or(-1));
    p_.text("garbage_collection_threshold").real(0);
    p_.text("expandable_segments").boolean(options.expandable_segments);
    p_.text("roundup_power_of_two_divisions").begin_dict().end_dict();
    p_.end_dict();
  }

  static std::string conf(const AllocatorOptions& options) {
    std::string text;
    if (options.expandable_segments) text = "expandable_segments:True";
    if (options.max_split_size) {
      text += (text.empty() ? "" : ",") + std::string("max_split_size_mb:") +
              std::to_string(*options.max_split_size / mib);
    }
    return text;
  }

  const Schedule& s_;
  const Timeline& t_;
  const std::vector<RoleReplay>& replays_;
  std::vector<std::vector<std::string>> names_;  // of the role, by program
  Pickle p_;
};

}  // namespace

std::string memory_snapshot(const Schedule& schedule, const Timeline& timeline,
                            const std::vector<RoleReplay>& replays,
                            const AllocatorOptions& options) {
  return Snapshot(schedule, timeline, replays).run(options);
}

}  // namespace stepcast
