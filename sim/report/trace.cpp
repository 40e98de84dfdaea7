#include "sim/report/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/report/step_view.hpp"
#include "sim/report/trace_kernels.hpp"
#include "sim/report/trace_names.hpp"

namespace stepcast {

namespace {

constexpr int lane_track = 1;        // tid of the first host lane
constexpr int host_process = 10000;  // pid of the first role's host; its GPU's is 0

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

class Tracer {
 public:
  Tracer(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
         const TraceOptions& options)
      : schedule_(schedule),
        costs_(costs),
        timeline_(timeline),
        options_(options),
        only_(options.rank < 0 ? -1 : role_of_rank(schedule, options.rank)),
        kernels_(schedule, options) {
    for (const Role& role : schedule.roles) {
      auto& names = names_.emplace_back();
      for (const StepProgram& step : role.steps) names.push_back(op_names(schedule, step));
    }
  }

  std::string run() {
    out_ = "{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\",\n";
    add_devices();
    add_distributed();
    out_ += "\"traceEvents\": [\n";
    for (std::size_t r = 0; r < schedule_.roles.size(); ++r) {
      if (wanted(static_cast<int>(r))) name_tracks(static_cast<int>(r));
    }
    add_steps();
    for (const Span& span : timeline_.spans) {
      if (wanted(span.role)) add_span(span);
    }
    for (const MemorySample& sample : timeline_.memory) {
      if (!wanted(sample.role)) continue;
      event(R"("ph":"C","name":"allocated","pid":{},"ts":{:.3f},"args":{{"bytes":{}}})",
            device(sample.role), sample.time * 1e6, sample.allocated);
    }
    if (options_.memory != nullptr) {
      for (std::size_t role = 0; role < options_.memory->size(); ++role) {
        if (wanted(static_cast<int>(role))) add_replay(role);
      }
    }
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

  bool wanted(int role) const { return only_ < 0 || role == only_; }

  // The rank in whose name a role is told.
  int rank_of(int role) const {
    if (options_.rank >= 0) return options_.rank;
    return static_cast<int>(schedule_.roles[static_cast<std::size_t>(role)].rank(0));
  }
  int device(int role) const {
    return options_.rank < 0 ? role : options_.rank % std::max(1, options_.gpus_per_node);
  }
  int host(int role) const { return host_process + (options_.rank < 0 ? role : options_.rank); }

  void add_devices() {
    out_ += "\"deviceProperties\": [";
    for (int i = 0; i < options_.gpus_per_node && !options_.gpu.empty(); ++i) {
      out_ += fmt::format(
          "{}\n  {{\"id\": {}, \"name\": {}, \"totalGlobalMem\": {}, \"computeMajor\": {}, "
          "\"computeMinor\": {}, \"warpSize\": 32, \"numSms\": {}}}",
          i == 0 ? "" : ",", i, json_text(options_.gpu), options_.gpu_memory,
          options_.compute_capability / 10, options_.compute_capability % 10, options_.sm_count);
    }
    out_ += "],\n";
  }

  void add_distributed() {
    const int rank = rank_of(std::max(0, only_));
    out_ += fmt::format(
        "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}, "
        "\"pg_count\": {}, \"pg_config\": [",
        rank, schedule_.mesh.world_size(), schedule_.communicators.size());
    for (std::size_t c = 0; c < schedule_.communicators.size(); ++c) {
      const Communicator& comm = schedule_.communicators[c];
      const std::vector<int> ranks = ranks_of_group(schedule_.mesh, comm.axis, rank);
      out_ += fmt::format(
          "{}\n  {{\"pg_name\": \"{}\", \"pg_desc\": {}, \"backend_config\": \"cuda:nccl\", "
          "\"pg_size\": {}, \"ranks\": [{}]}}",
          c == 0 ? "" : ",", c, json_text(comm.name.str()), ranks.size(), fmt::join(ranks, ", "));
    }
    out_ += "]";
    if (!options_.nccl_version.empty()) {
      out_ += fmt::format(", \"nccl_version\": {}", json_text(options_.nccl_version));
    }
    out_ += "},\n";
  }

  // Only where a level changes: most allocs find their memory in the cache.
  void add_replay(std::size_t role) {
    Bytes active = -1, reserved = -1;
    for (const ReservedSample& sample : (*options_.memory)[role].samples) {
      const auto counter = [&](const char* name, Bytes bytes, Bytes& last) {
        if (bytes == last) return;
        last = bytes;
        event(R"("ph":"C","name":"{}","pid":{},"ts":{:.3f},"args":{{"bytes":{}}})", name,
              device(static_cast<int>(role)), sample.time * 1e6, bytes);
      };
      counter("active", sample.active, active);
      counter("reserved", sample.reserved, reserved);
    }
  }

  void name_track(int pid, int tid, const std::string& name, int order) {
    event(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"ts":0,"args":{{"name":{}}})", pid,
          tid, json_text(name));
    event(
        R"("ph":"M","name":"thread_sort_index","pid":{},"tid":{},"ts":0,"args":{{"sort_index":{}}})",
        pid, tid, order);
  }

  void name_process(int pid, const std::string& name, const std::string& label, int order) {
    event(R"("ph":"M","name":"process_name","pid":{},"tid":0,"ts":0,"args":{{"name":{}}})", pid,
          json_text(name));
    event(R"("ph":"M","name":"process_labels","pid":{},"tid":0,"ts":0,"args":{{"labels":{}}})", pid,
          json_text(label));
    event(
        R"("ph":"M","name":"process_sort_index","pid":{},"tid":0,"ts":0,"args":{{"sort_index":{}}})",
        pid, order);
  }

  void name_tracks(int r) {
    const Role& role = schedule_.roles[static_cast<std::size_t>(r)];
    const std::string name = fmt::format("{} ({} ranks)", role.name.str(), role.rank_count);
    name_process(host(r), name, "CPU", 2 * r);
    name_process(device(r), name, fmt::format("GPU {}", device(r)), 2 * r + 1);
    for (std::size_t i = 0; i < schedule_.lanes.size(); ++i) {
      name_track(host(r), lane_track + static_cast<int>(i),
                 fmt::format("thread {} ({})", i + 1, schedule_.lanes[i].name.str()),
                 static_cast<int>(i));
    }
    name_track(device(r), 0, "steps", 0);
    for (std::size_t i = 0; i < schedule_.streams.size(); ++i) {
      const int number = trace_stream_number(static_cast<StreamIndex>(i));
      name_track(device(r), number,
                 fmt::format("stream {} ({})", number, schedule_.streams[i].name.str()),
                 1 + static_cast<int>(i));
    }
  }

  // A mark a step: on the GPU when it ran, on the host when it was issued, which is earlier.
  void add_steps() {
    for (std::size_t r = 0; r < schedule_.roles.size(); ++r) {
      if (wanted(static_cast<int>(r))) add_steps_of(static_cast<int>(r));
    }
  }

  void add_steps_of(int role) {
    std::vector<Seconds> issue(timeline_.steps.size(), -1);
    Seconds last = 0;
    for (const Span& span : timeline_.spans) {
      if (span.role != role || op_of(span).lane != 0) continue;  // loaders run ahead
      Seconds& first = issue[static_cast<std::size_t>(span.step)];
      const Seconds begin = begin_of_issue(span);
      first = first < 0 ? begin : std::min(first, begin);
      last = std::max({last, span.issued, op_of(span).stream < 0 ? span.end : end_of_issue(span)});
    }
    for (std::size_t s = 0; s < timeline_.steps.size(); ++s) {
      const StepSpan& step = timeline_.steps[s];
      const std::string name = fmt::format("ProfilerStep#{}", s);
      const std::int64_t id = ++external_id_;
      event(
          R"("ph":"X","cat":"gpu_user_annotation","name":"{}","pid":{},"tid":0,"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},"program":{}}})",
          name, device(role), step.begin * 1e6, (step.end - step.begin) * 1e6, id,
          json_text(step.program.str()));
      if (issue[s] < 0) continue;
      const Seconds end = s + 1 < issue.size() && issue[s + 1] >= 0 ? issue[s + 1] : last;
      event(
          R"("ph":"X","cat":"user_annotation","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},"program":{}}})",
          name, host(role), lane_track, issue[s] * 1e6, std::max(0.0, end - issue[s]) * 1e6, id,
          json_text(step.program.str()));
    }
  }

  int program_of(std::int32_t step) const {
    return timeline_.steps[static_cast<std::size_t>(step)].program_index;
  }
  const Op& op_of(const Span& span) const {
    return schedule_.roles[static_cast<std::size_t>(span.role)]
        .steps[static_cast<std::size_t>(program_of(span.step))]
        .ops[static_cast<std::size_t>(span.op)];
  }
  const std::string& name_of(std::int32_t role, std::int32_t step, OpIndex op) const {
    return names_[static_cast<std::size_t>(role)][static_cast<std::size_t>(program_of(step))]
                 [static_cast<std::size_t>(op)];
  }

  // `issued` is the end of the first of equal launches.
  Seconds begin_of_issue(const Span& span) const {
    const Op& op = op_of(span);
    if (op.stream < 0) return span.start;
    return span.issued - host_cost(span) / std::max(1, op.launches);
  }
  Seconds end_of_issue(const Span& span) const { return begin_of_issue(span) + host_cost(span); }
  Seconds host_cost(const Span& span) const {
    if (op_of(span).kind == OpKind::host_wait) return 0;
    return costs_.cost(span.role, program_of(span.step), span.op).host;
  }

  // What PyTorch has no field for.
  std::string why(const Span& span, const Op& op) const {
    std::string args =
        fmt::format(R"("bound":"{}","solo_us":{:.3f})", to_string(span.bound), span.solo * 1e6);
    if (span.cause >= 0) {
      args += ",\"waited_for\":" + json_text(name_of(span.role, span.cause_step, span.cause));
    }
    if (op.kind == OpKind::host_wait) return args;
    const OpCost& cost = costs_.cost(span.role, program_of(span.step), span.op);
    if (!cost.detail.empty()) args += ",\"cost\":" + json_text(cost.detail.str());
    args += fmt::format(R"(,"provenance":"{}")", stepcast::to_string(cost.provenance));
    if (!op.rule.empty()) args += ",\"rule\":" + json_text(op.rule.str());
    return args;
  }

  void add_span(const Span& span) {
    const Op& op = op_of(span);
    if (op.stream < 0) {
      add_host_span(span, op);
    } else {
      add_stream_span(span, op);
    }
  }

  void add_host_span(const Span& span, const Op& op) {
    std::string name = name_of(span.role, span.step, span.op);
    const char* category = "cpu_op";
    const bool waits = op.kind == OpKind::host_wait || op.kind == OpKind::storage;
    if (op.phase == Phase::load && op.lane == 0 && waits) {
      name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
      category = "user_annotation";
    }
    event(
        R"("ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},{}}})",
        category, json_text(name), host(span.role), lane_track + op.lane, span.start * 1e6,
        (span.end - span.start) * 1e6, ++external_id_, why(span, op));
    if (op.kind != OpKind::host_wait || span.end <= span.start || op.phase == Phase::load) return;
    const char* call = op.wait_target == WaitTarget::device   ? "cudaDeviceSynchronize"
                       : op.wait_target == WaitTarget::stream ? "cudaStreamSynchronize"
                                                              : "cudaEventSynchronize";
    event(
        R"("ph":"X","cat":"cuda_runtime","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},"correlation":{}}})",
        call, host(span.role), lane_track + op.lane, span.start * 1e6,
        (span.end - span.start) * 1e6, external_id_, ++correlation_);
  }

  // Where an arrow holds on to a slice, in microseconds: within it. Catapult's trace viewer takes
  // the slice before where one ends at the very moment at which the next begins, as ours do.
  static double within(Seconds start, Seconds duration) {
    constexpr double grain = 1e-3;  // of the times in the file
    return start * 1e6 + (duration * 1e6 >= 2 * grain ? grain : 0);
  }

  void add_stream_span(const Span& span, const Op& op) {
    const std::string name = json_text(name_of(span.role, span.step, span.op));
    const int stream = trace_stream_number(op.stream);
    const int gpu = device(span.role), cpu = host(span.role), thread = lane_track + op.lane;
    const Seconds start = span.start - span.peer_wait;
    const Seconds issue = begin_of_issue(span), cost = host_cost(span);
    const std::int64_t op_id = ++external_id_;
    event(
        R"("ph":"X","cat":"cpu_op","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{}}})",
        name, cpu, thread, issue * 1e6, cost * 1e6, op_id);
    event(
        R"("ph":"X","cat":"gpu_user_annotation","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},{}}})",
        name, gpu, stream, start * 1e6, (span.end - start) * 1e6, op_id, why(span, op));
    const std::string& choice = costs_.cost(span.role, program_of(span.step), span.op).detail.str();
    const std::vector<TraceKernel> slices =
        kernels_.of(op, choice, name_of(span.role, span.step, span.op), rank_of(span.role));
    std::int64_t launch_id = op_id;
    if (op.kind == OpKind::collective && slices.front().nccl) {
      launch_id = ++external_id_;
      event(
          R"("ph":"X","cat":"cpu_op","name":"record_param_comms","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},{}}})",
          cpu, thread, issue * 1e6, cost * 1e6, launch_id,
          kernels_.collective_args(op, rank_of(span.role)));
    }
    const auto count = static_cast<double>(slices.size());
    double before = 0;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const TraceKernel& slice = slices[i];
      const Seconds from = start + (span.end - start) * before;
      before += slice.share;
      const Seconds to = i + 1 == slices.size() ? span.end : start + (span.end - start) * before;
      // The launches take turns within the op's time on the host; none after its kernel began.
      const Seconds begin = std::min(issue + cost * static_cast<double>(i) / count, from);
      const Seconds call =
          std::min(cost / std::max(count, static_cast<double>(op.launches)), from - begin);
      ++correlation_;
      event(
          R"("ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},"queued":0,"device":{},"context":1,"stream":{},"correlation":{}{}}})",
          slice.category, json_text(slice.name), gpu, stream, from * 1e6, (to - from) * 1e6,
          launch_id, gpu, stream, correlation_, slice.args);
      event(
          R"("ph":"X","cat":"cuda_runtime","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"External id":{},"cbid":211,"correlation":{}}})",
          slice.launch, cpu, thread, begin * 1e6, call * 1e6, launch_id, correlation_);
      event(R"("ph":"s","id":{},"pid":{},"tid":{},"ts":{:.3f},"cat":"ac2g","name":"ac2g")",
            correlation_, cpu, thread, within(begin, call));
      event(R"("ph":"f","id":{},"pid":{},"tid":{},"ts":{:.3f},"cat":"ac2g","name":"ac2g","bp":"e")",
            correlation_, gpu, stream, within(from, to - from));
    }
  }

  const Schedule& schedule_;
  const CostTable& costs_;
  const Timeline& timeline_;
  const TraceOptions& options_;
  int only_;                                                  // the one role that is told; -1: all
  std::vector<std::vector<std::vector<std::string>>> names_;  // [role][program][op]
  TraceKernels kernels_;
  std::int64_t external_id_ = 0, correlation_ = 0;
  std::string out_;
};

}  // namespace

int trace_stream_number(StreamIndex stream) { return stream == 0 ? 7 : 12 + 4 * stream; }

int role_of_rank(const Schedule& schedule, int rank) {
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    for (int i = 0; i < role.rank_count; ++i) {
      if (role.rank(i) == rank) return static_cast<int>(r);
    }
  }
  return -1;
}

std::string to_trace(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                     const TraceOptions& options) {
  return Tracer(schedule, costs, timeline, options).run();
}

}  // namespace stepcast
