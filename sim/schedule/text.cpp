#include "sim/schedule/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "sim/schedule/text_names.hpp"

namespace stepcast {
namespace {

using text::spelled;
using text::spelled_bytes;

template <typename List>
std::vector<std::string> labels_of(const List& list) {
  std::vector<Name> names;
  names.reserve(list.size());
  for (const auto& item : list) names.push_back(item.name);
  return text::unique_labels(names);
}

// A broken index prints as "?7", which no parser takes: printing is for looking, too.
std::string label_at(const std::vector<std::string>& labels, std::int64_t index) {
  if (index < 0 || index >= static_cast<std::int64_t>(labels.size())) {
    return fmt::format("?{}", index);
  }
  return spelled(labels[static_cast<std::size_t>(index)]);
}

std::size_t hash_of(std::span<const Kernel> list) {
  std::size_t hash = list.size();
  for (const Kernel& k : list) {
    for (const std::int64_t value :
         {static_cast<std::int64_t>(k.kind), k.m, k.n, k.k, k.batch, k.bytes_read, k.bytes_written,
          static_cast<std::int64_t>(std::hash<Name>()(k.name) >> 1u)}) {
      hash = (hash ^ static_cast<std::size_t>(value)) * 0x9e3779b97f4a7c15u;
    }
  }
  return hash;
}

class Printer {
 public:
  explicit Printer(const Schedule& schedule)
      : s_(schedule),
        lanes_(labels_of(schedule.lanes)),
        streams_(labels_of(schedule.streams)),
        comms_(labels_of(schedule.communicators)),
        units_(text::unique_labels(schedule.units)),
        buffers_(labels_of(schedule.buffers)) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_of_label_.emplace(units_[i], static_cast<UnitIndex>(i));
    }
  }

  std::string print() {
    put("stepcast-schedule 1\nschedule {}\n", spelled(s_.name));
    put("mesh replicate={} shard={}\n", s_.mesh.replicate, s_.mesh.shard);
    print_queues();
    print_units();
    print_buffers();
    print_kernels();
    for (const std::string& note : s_.notes) put("note {}\n", spelled(note));
    for (const Role& role : s_.roles) print_role(role);
    out_ += "end\n";
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  // " name=X" where the label had to differ from the name.
  void put_name(const std::string& label, Name name) {
    if (label != name.str()) put(" name={}", spelled(name.str()));
  }

  void print_queues() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      put("lane {}", spelled(lanes_[i]));
      if (!s_.lanes[i].lock.empty()) put(" lock={}", spelled(s_.lanes[i].lock.str()));
      if (s_.lanes[i].sharers != 1) put(" sharers={}", s_.lanes[i].sharers);
      put_name(lanes_[i], s_.lanes[i].name);
      out_ += '\n';
    }
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      put("stream {}", spelled(streams_[i]));
      if (s_.streams[i].priority != 0) put(" priority={}", s_.streams[i].priority);
      put_name(streams_[i], s_.streams[i].name);
      out_ += '\n';
    }
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      put("communicator {} axis={}", spelled(comms_[i]), to_string(s_.communicators[i].axis));
      put_name(comms_[i], s_.communicators[i].name);
      out_ += '\n';
    }
  }

  // Eight to a line; one with a label of its own gets its own line.
  void print_units() {
    int on_line = 0;
    const auto end_line = [&] {
      if (on_line > 0) out_ += '\n';
      on_line = 0;
    };
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (units_[i] != s_.units[i].str()) {
        end_line();
        put("unit {}", spelled(units_[i]));
        put_name(units_[i], s_.units[i]);
        out_ += '\n';
        continue;
      }
      if (on_line == 0) out_ += "units";
      put(" {}", spelled(units_[i]));
      if (++on_line == 8) end_line();
    }
    end_line();
  }

  void print_buffers() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& buffer = s_.buffers[i];
      put("buffer {} {} {} {}", spelled(buffers_[i]), to_string(buffer.kind),
          to_string(buffer.dtype), spelled_bytes(buffer.bytes));
      const bool usual_pool = buffer.pool == 0 && (buffer.persistent || streams_.empty());
      if (!usual_pool) put(" pool={}", label_at(streams_, buffer.pool));
      if (buffer.persistent) out_ += " persistent";
      if (buffer.view_of >= 0) {
        put(" view_of={} at={}", label_at(buffers_, buffer.view_of),
            spelled_bytes(buffer.view_offset));
      }
      put_name(buffers_[i], buffer.name);
      if (buffer.bytes >= mib && buffer.bytes % mib != 0) {
        put("  # {:.2f} MiB", static_cast<double>(buffer.bytes) / static_cast<double>(mib));
      }
      out_ += '\n';
    }
  }

  // Distinct kernel lists, named PHASE.VERB after the first op that runs them.
  void print_kernels() {
    std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash;
    std::vector<std::span<const Kernel>> lists;
    std::vector<Name> names;
    for (const Role& role : s_.roles) {
      for (const StepProgram& step : role.steps) {
        for (const Op& op : step.ops) {
          if (op.kernels.count == 0) continue;
          const auto key = std::make_pair(op.kernels.first, op.kernels.count);
          if (list_of_range_.count(key) > 0) continue;
          const auto list = s_.at_kernels(op.kernels);
          std::vector<std::size_t>& same_hash = by_hash[hash_of(list)];
          std::size_t found = lists.size();
          for (const std::size_t candidate : same_hash) {
            const auto other = lists[candidate];
            if (std::equal(list.begin(), list.end(), other.begin(), other.end())) {
              found = candidate;
            }
          }
          if (found == lists.size()) {
            lists.push_back(list);
            same_hash.push_back(found);
            names.emplace_back(std::string(to_string(op.phase)) + "." + op.verb.str());
          }
          list_of_range_.emplace(key, found);
        }
      }
    }
    kernel_lists_ = text::unique_labels(names);
    for (std::size_t i = 0; i < lists.size(); ++i) {
      put("kernels {}\n", spelled(kernel_lists_[i]));
      for (const Kernel& kernel : lists[i]) print_kernel(kernel);
    }
  }

  void print_kernel(const Kernel& kernel) {
    static const Kernel usual;
    put("  {} {} {}", text::to_string(kernel.kind), spelled(kernel.name.str()),
        to_string(kernel.dtype));
    const auto number = [&](const char* key, std::int64_t value, std::int64_t left_out) {
      if (value != left_out) put(" {}={}", key, value);
    };
    number("batch", kernel.batch, usual.batch);
    number("heads", kernel.heads, usual.heads);
    number("kv_heads", kernel.kv_heads, usual.kv_heads);
    number("m", kernel.m, usual.m);
    number("n", kernel.n, usual.n);
    number("k", kernel.k, usual.k);
    if (kernel.causal) out_ += " causal";
    if (!kernel.fused) out_ += " unfused";
    if (kernel.bytes_read != 0) put(" read={}", spelled_bytes(kernel.bytes_read));
    if (kernel.bytes_written != 0) put(" write={}", spelled_bytes(kernel.bytes_written));
    number("launches", kernel.launches, usual.launches);
    out_ += '\n';
  }

  // As many ranks from the i-th on as follow one stride; returns the next one.
  std::int64_t print_ranks(const Role& role, std::int64_t i) {
    if (i > 0) out_ += ',';
    put("{}", role.rank(i));
    if (i + 1 == role.rank_count) return i + 1;
    const std::int64_t stride = role.rank(i + 1) - role.rank(i);
    std::int64_t last = i + 1;
    while (last + 1 < role.rank_count && role.rank(last + 1) - role.rank(last) == stride) ++last;
    put("..{}", role.rank(last));
    if (stride != 1) put("/{}", stride);
    return last + 1;
  }

  void print_role(const Role& role) {
    put("\nrole {} ranks=", spelled(role.name.str()));
    if (role.rank_count <= 0) out_ += '-';
    for (std::int64_t i = 0; i < role.rank_count;) i = print_ranks(role, i);
    out_ += '\n';
    for (const StepProgram& step : role.steps) {
      put("step {}\n", spelled(step.name.str()));
      names_ = op_names(s_, step);
      for (std::size_t i = 0; i < step.ops.size(); ++i) print_op(step.ops[i], names_[i]);
    }
  }

  void print_op(const Op& op, const std::string& label) {
    // A fixed column, so that a longer name changes one line and not all of them.
    put("  {:<38} {}", spelled(label), to_string(op.kind));
    print_particulars(op);
    if (op.stream >= 0) put(" stream={}", label_at(streams_, op.stream));
    if (op.kernels.count > 0) {
      const auto key = std::make_pair(op.kernels.first, op.kernels.count);
      put(" kernels={}", spelled(kernel_lists_[list_of_range_.at(key)]));
    }
    print_refs(op.waits);
    print_views("reads", op.reads);
    print_views("writes", op.writes);
    if (op.launches != text::usual_launches(s_, op)) put(" launches={}", op.launches);
    if (op.lane != 0) put(" lane={}", label_at(lanes_, op.lane));
    if (!op.rule.empty()) put(" rule={}", spelled(op.rule.str()));

    const text::OpLabel split = text::split_op_label(label);
    if (split.verb != op.verb.str()) put(" verb={}", spelled(op.verb.str()));
    UnitIndex unit = -1;
    if (split.unit) {
      const auto found = unit_of_label_.find(*split.unit);
      unit = found == unit_of_label_.end() ? -2 : found->second;
    }
    if (unit != op.unit && op.unit == -1) out_ += " unit=-";
    if (unit != op.unit && op.unit != -1) put(" unit={}", label_at(units_, op.unit));
    if (split.micro_batch != op.micro_batch) put(" micro={}", op.micro_batch);
    out_ += '\n';
  }

  void print_particulars(const Op& op) {
    switch (op.kind) {
      case OpKind::compute:
      case OpKind::stream_wait: break;
      case OpKind::collective:
        put(" {} {} {}", to_string(op.collective), to_string(op.dtype), op.elements);
        if (op.reduction != Reduction::none) put(" reduction={}", to_string(op.reduction));
        if (op.root != -1) put(" root={}", op.root);
        if (op.comm != -1) put(" comm={}", label_at(comms_, op.comm));
        break;
      case OpKind::copy: put(" {} {}", to_string(op.copy), spelled_bytes(op.bytes)); break;
      case OpKind::storage: put(" {}", spelled_bytes(op.bytes)); break;
      case OpKind::host_work:
        put(" {}", spelled(op.cost.str()));
        if (op.count != 1) put(" count={}", op.count);
        break;
      case OpKind::host_wait:
        put(" {}", to_string(op.wait_target));
        if (op.wait_target == WaitTarget::stream) {
          put(" of={}", label_at(streams_, op.wait_stream));
        }
        break;
      case OpKind::alloc: put(" {}", label_at(buffers_, op.buffer)); break;
      case OpKind::free:
        put(" {}", label_at(buffers_, op.buffer));
        if (op.free_rule != FreeRule::host_order) put(" {}", to_string(op.free_rule));
        if (op.free_streams.count > 0) {
          const char* comma = " streams=";
          for (const StreamIndex stream : s_.at_streams(op.free_streams)) {
            put("{}{}", comma, label_at(streams_, stream));
            comma = ",";
          }
        }
        break;
    }
  }

  void print_refs(Range range) {
    const char* comma = " on=";
    for (const OpRef& ref : s_.at_refs(range)) {
      put("{}{}", comma, label_at(names_, ref.op));
      if (ref.steps_back != 0) put("@{}", -static_cast<int>(ref.steps_back));
      comma = ",";
    }
  }

  void print_views(const char* key, Range range) {
    bool first = true;
    for (const View& view : s_.at_views(range)) {
      if (first) {
        put(" {}=", key);
      } else {
        out_ += ',';
      }
      first = false;
      out_ += label_at(buffers_, view.buffer);
      const bool known =
          view.buffer >= 0 && view.buffer < static_cast<BufferIndex>(s_.buffers.size());
      const Bytes whole = known ? s_.buffers[static_cast<std::size_t>(view.buffer)].bytes : -1;
      if (view.offset != 0 || view.bytes != whole) {
        put("[{}+{}]", spelled_bytes(view.offset), spelled_bytes(view.bytes));
      }
    }
  }

  struct PairHash {
    std::size_t operator()(const std::pair<std::int32_t, std::int32_t>& p) const {
      return static_cast<std::size_t>(p.first) * 0x9e3779b97f4a7c15u ^
             static_cast<std::size_t>(p.second);
    }
  };

  const Schedule& s_;
  std::vector<std::string> lanes_, streams_, comms_, units_, buffers_, kernel_lists_;
  std::unordered_map<std::string, UnitIndex> unit_of_label_;
  std::unordered_map<std::pair<std::int32_t, std::int32_t>, std::size_t, PairHash> list_of_range_;
  std::vector<std::string> names_;  // of the step being printed
  std::string out_;
};

}  // namespace

std::string to_text(const Schedule& schedule) { return Printer(schedule).print(); }

}  // namespace stepcast
