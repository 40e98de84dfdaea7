#include "sim/report/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/report/step_view.hpp"

namespace stepcast {

namespace {

constexpr int lane_track = 1;  // tid of the first host lane

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

class Tracer {
 public:
  Tracer(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
         const std::vector<RoleReplay>& memory)
      : schedule_(schedule), costs_(costs), timeline_(timeline), memory_(memory) {
    for (const Role& role : schedule.roles) {
      auto& names = names_.emplace_back();
      for (const StepProgram& step : role.steps) names.push_back(op_names(schedule, step));
    }
  }

  std::string run() {
    out_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    name_tracks();
    for (const StepSpan& step : timeline_.steps) {
      event(R"("ph":"X","cat":"step","name":{},"pid":0,"tid":0,"ts":{:.3f},"dur":{:.3f})",
            quoted("ProfilerStep " + step.program.str()), step.begin * 1e6,
            (step.end - step.begin) * 1e6);
    }
    for (const Span& span : timeline_.spans) add_span(span);
    for (const MemorySample& sample : timeline_.memory) {
      event(R"("ph":"C","name":"allocated","pid":{},"ts":{:.3f},"args":{{"bytes":{}}})",
            sample.role, sample.time * 1e6, sample.allocated);
    }
    for (std::size_t role = 0; role < memory_.size(); ++role) add_replay(role);
    out_.replace(out_.size() - 2, 2, "\n]}\n");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    out_ += '{';
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += "},\n";
  }

  // Only where a level changes: most allocs find their memory in the cache.
  void add_replay(std::size_t role) {
    Bytes active = -1, reserved = -1;
    for (const ReservedSample& sample : memory_[role].samples) {
      const auto counter = [&](const char* name, Bytes bytes, Bytes& last) {
        if (bytes == last) return;
        last = bytes;
        event(R"("ph":"C","name":"{}","pid":{},"ts":{:.3f},"args":{{"bytes":{}}})", name, role,
              sample.time * 1e6, bytes);
      };
      counter("active", sample.active, active);
      counter("reserved", sample.reserved, reserved);
    }
  }

  void name_track(int role, int tid, const std::string& name, int order) {
    event(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})", role, tid,
          quoted(name));
    event(R"("ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}})",
          role, tid, order);
  }

  void name_tracks() {
    for (std::size_t r = 0; r < schedule_.roles.size(); ++r) {
      const Role& role = schedule_.roles[r];
      const int pid = static_cast<int>(r);
      event(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", pid,
            quoted(fmt::format("{} ({} ranks)", role.name.str(), role.rank_count)));
      if (r == 0) name_track(pid, 0, "steps", 0);
      for (std::size_t i = 0; i < schedule_.lanes.size(); ++i) {
        name_track(pid, lane_track + static_cast<int>(i),
                   fmt::format("thread {} ({})", i + 1, schedule_.lanes[i].name.str()),
                   1 + static_cast<int>(i));
      }
      for (std::size_t i = 0; i < schedule_.streams.size(); ++i) {
        const int number = trace_stream_number(static_cast<StreamIndex>(i));
        name_track(pid, number,
                   fmt::format("stream {} ({})", number, schedule_.streams[i].name.str()),
                   100 + static_cast<int>(i));
      }
    }
  }

  const std::string& name_of(std::int32_t role, std::int32_t step, OpIndex op) const {
    const int program = timeline_.steps[static_cast<std::size_t>(step)].program_index;
    return names_[static_cast<std::size_t>(role)][static_cast<std::size_t>(program)]
                 [static_cast<std::size_t>(op)];
  }

  static const char* category(const Op& op) {
    if (op.kind == OpKind::copy) return "gpu_memcpy";
    return op.stream >= 0 ? "kernel" : "cpu_op";
  }

  void add_span(const Span& span) {
    const int program = timeline_.steps[static_cast<std::size_t>(span.step)].program_index;
    const Op& op = schedule_.roles[static_cast<std::size_t>(span.role)]
                       .steps[static_cast<std::size_t>(program)]
                       .ops[static_cast<std::size_t>(span.op)];
    const OpCost& cost = costs_.cost(span.role, program, span.op);
    const std::string name = quoted(name_of(span.role, span.step, span.op));
    const bool on_stream = op.stream >= 0;
    const int tid = on_stream ? trace_stream_number(op.stream) : lane_track + op.lane;
    std::string args =
        fmt::format(R"("bound":"{}","solo_us":{:.3f})", to_string(span.bound), span.solo * 1e6);
    if (span.cause >= 0) {
      args += ",\"waited_for\":" + quoted(name_of(span.role, span.cause_step, span.cause));
    }
    if (op.kind == OpKind::collective) {
      const Communicator& comm = schedule_.communicators[static_cast<std::size_t>(op.comm)];
      args += fmt::format(
          R"(,"Collective name":"{}","Process Group Name":{},"Group size":{},"dtype":"{}","bytes":{})",
          stepcast::to_string(op.collective), quoted(comm.name.str()),
          schedule_.mesh.size(comm.axis), stepcast::to_string(op.dtype), bytes_of(op));
    }
    if (op.kind == OpKind::copy) args += fmt::format(R"(,"bytes":{})", op.bytes);
    if (on_stream) args += fmt::format(R"(,"stream":{})", tid);
    if (!cost.detail.empty()) args += ",\"cost\":" + quoted(cost.detail.str());
    args += fmt::format(R"(,"provenance":"{}")", stepcast::to_string(cost.provenance));
    if (!op.rule.empty()) args += ",\"rule\":" + quoted(op.rule.str());
    event(
        R"("ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}})",
        category(op), name, span.role, tid, span.start * 1e6, (span.end - span.start) * 1e6, args);
    if (on_stream && cost.host > 0) {
      // `issued` is the end of the first of equal launches.
      const Seconds begin = span.issued - cost.host / std::max(1, op.launches);
      event(R"("ph":"X","cat":"cpu_op","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})", name,
            span.role, lane_track + op.lane, begin * 1e6, cost.host * 1e6);
    }
  }

  const Schedule& schedule_;
  const CostTable& costs_;
  const Timeline& timeline_;
  const std::vector<RoleReplay>& memory_;
  std::vector<std::vector<std::vector<std::string>>> names_;  // [role][program][op]
  std::string out_;
};

}  // namespace

int trace_stream_number(StreamIndex stream) { return stream == 0 ? 7 : 12 + 4 * stream; }

std::string to_trace(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                     const std::vector<RoleReplay>& memory) {
  return Tracer(schedule, costs, timeline, memory).run();
}

}  // namespace stepcast
