#include "sim/interop/trace_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "sim/interop/gzip_stream.hpp"
#include "sim/interop/trace_ops.hpp"
#include "sim/interop/trace_split.hpp"

namespace stepcast {

namespace {

constexpr std::size_t most_kernels = 20'000'000;  // 1.3 GB
constexpr std::size_t most_names = 20'000;
constexpr std::size_t most_streams = 1024;

struct Launch {
  std::int64_t correlation = -1;
  std::int64_t external_id = -1;
  double begin_us = 0, end_us = 0;
  std::int32_t thread = -1;
};

struct Mark {
  double begin_us = 0, end_us = 0;
  std::string name;
  std::int64_t pid = 0;
};

bool is_sync(const std::string& name) { return name.find("Synchronize") != std::string::npos; }

std::string kind_of(const TraceCollective& c) { return std::string(to_string(c.op)); }

class Reader {
 public:
  explicit Reader(TraceSummary& out) : out_(out) {}

  void take(const KinetoEvent& event) {
    if (event.phase != "X" || !(event.duration_us >= 0)) return;
    constexpr double most_us = 1e17;  // 3,000 years
    if (!(std::abs(event.start_us) <= most_us && event.duration_us <= most_us)) {
      throw InputError({out_.file, 0, "ts"},
                       fmt::format("{} with a dur of {} is out of range; accepted: microseconds",
                                   event.start_us, event.duration_us));
    }
    const std::string& c = event.category;
    if (c == "kernel" || c == "gpu_memcpy" || c == "gpu_memset" || c == "memcpy" || c == "memset") {
      kernel(event);
    } else if (c == "cuda_runtime" || c == "cuda_driver" || c == "runtime") {
      runtime(event);
    } else if (event.name.starts_with("enumerate(DataLoader)#")) {
      if (event.duration_us > 0) {
        host_.loading.push_back({event.start_us, event.start_us + event.duration_us});
      }
    } else if (event.name.starts_with("ProfilerStep") &&
               (c == "user_annotation" || c == "cpu_op" || c == "operator")) {
      marks_.push_back({event.start_us, event.start_us + event.duration_us, event.name, event.pid});
    } else if (c == "cpu_op" || c == "operator") {
      op(event);
    }
  }

  void finish(const TraceSummaryOptions& options) {
    if (slices_.empty()) {
      throw InputError({out_.file, 0, "traceEvents"},
                       "has no kernels of a GPU; accepted: a trace with ProfilerActivity.CUDA");
    }
    choose_device(options.device);
    join();
    std::stable_sort(slices_.begin(), slices_.end(), [](const TraceSlice& a, const TraceSlice& b) {
      return a.start_us < b.start_us;
    });
    order_host();
    choose_main_stream();
    make_steps();
    name_kernels();
    if (unlaunched_ == slices_.size()) {
      out_.notes.emplace_back(
          "no kernel has a launch in this trace: steps are told apart by when kernels run, and the "
          "host's part of a gap is not known");
    }
  }

 private:
  struct Named {
    std::int64_t calls = 0;
    double us = 0;
    std::int32_t what = 0;
  };

  void kernel(const KinetoEvent& event) {
    if (slices_.size() == most_kernels) {
      throw InputError(
          {out_.file, 0, "traceEvents"},
          fmt::format("has more than {} kernels; accepted: a trace of fewer steps", most_kernels));
    }
    TraceSlice slice;
    slice.start_us = event.start_us;
    slice.end_us = event.start_us + event.duration_us;
    slice.device = small(event.device >= 0 ? event.device : event.pid);
    slice.stream = small(event.stream >= 0 ? event.stream : event.tid);
    slice.what = event.category == "kernel" ? class_of_kernel(event.name) : KernelClass::copy;
    if (slice.what == KernelClass::collective) {
      slice.call = static_cast<std::int32_t>(calls_.size());
      TraceCall& call = calls_.emplace_back();
      if (const std::optional<TraceCollective> c = collective_of(event)) {
        describe(call, *c);
      } else {
        call.kind = collective_of_kernel(event.name);
      }
    }
    correlations_.push_back(event.correlation);
    external_ids_.push_back(event.external_id);
    // By name, until there are too many.
    auto at = names_.find(event.name);
    if (at == names_.end() && names_.size() < most_names)
      at = names_.emplace(event.name, Named{}).first;
    if (at != names_.end()) {
      ++at->second.calls;
      at->second.us += event.duration_us;
    }
    slices_.push_back(slice);
  }

  static void describe(TraceCall& call, const TraceCollective& c) {
    call.kind = kind_of(c);
    call.dtype = std::string(to_string(c.dtype));
    call.ranks = c.ranks;
    call.bytes = c.bytes;
  }

  void runtime(const KinetoEvent& event) {
    const std::int32_t thread = thread_of(event);
    if (event.correlation >= 0) {
      launches_.push_back({event.correlation, event.external_id, event.start_us,
                           event.start_us + event.duration_us, thread});
    }
    if (is_sync(event.name) && event.duration_us > 0) {
      const auto index = static_cast<std::size_t>(thread);
      if (host_.synced.size() <= index) host_.synced.resize(index + 1);
      host_.synced[index].push_back({event.start_us, event.start_us + event.duration_us});
    }
  }

  void op(const KinetoEvent& event) {
    if (event.external_id < 0 || event.collective.empty()) return;
    const std::optional<TraceCollective> c = collective_of(event);
    if (!c) return;
    TraceCall call;
    describe(call, *c);
    call_of_id_.emplace(event.external_id, std::move(call));
  }

  static std::int32_t small(std::int64_t value) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, -1, 1'000'000'000));
  }

  std::int32_t thread_of(const KinetoEvent& event) {
    const auto key = std::pair(event.pid, event.tid);
    const auto [at, fresh] = threads_.emplace(key, static_cast<std::int32_t>(threads_.size()));
    if (fresh && threads_.size() > 100'000) {
      throw InputError({out_.file, 0, "tid"},
                       "is one of more than 100000 threads; accepted: fewer");
    }
    return at->second;
  }

  void choose_device(int asked) {
    std::vector<int>& devices = out_.devices;
    for (const TraceSlice& slice : slices_) {
      if (devices.empty() || devices.back() != slice.device) devices.push_back(slice.device);
    }
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    out_.device = asked < 0 ? devices.front() : asked;
    if (std::find(devices.begin(), devices.end(), out_.device) == devices.end()) {
      throw InputError(
          {"--device", 0, ""},
          fmt::format(
              "{} has no kernels in {}; accepted: {}", out_.device, out_.file,
              fmt::join(devices.begin(),
                        devices.begin() + std::min<std::ptrdiff_t>(
                                              8, static_cast<std::ptrdiff_t>(devices.size())),
                        ", ")));
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      if (slices_[i].device != out_.device) continue;
      slices_[kept] = slices_[i];
      correlations_[kept] = correlations_[i];
      external_ids_[kept] = external_ids_[i];
      ++kept;
    }
    slices_.resize(kept);
  }

  // Kernels to their launches, by correlation; and collectives that say nothing of themselves to
  // the op that launched them.
  void join() {
    std::sort(launches_.begin(), launches_.end(),
              [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      TraceSlice& slice = slices_[i];
      const auto at = std::lower_bound(
          launches_.begin(), launches_.end(), correlations_[i],
          [](const Launch& launch, std::int64_t value) { return launch.correlation < value; });
      const bool found =
          correlations_[i] >= 0 && at != launches_.end() && at->correlation == correlations_[i];
      if (found) {
        slice.called_us = at->begin_us;
        slice.launched_us = at->end_us;
        slice.thread = at->thread;
      } else {
        ++unlaunched_;
      }
      if (slice.call < 0) continue;
      TraceCall& call = calls_[static_cast<std::size_t>(slice.call)];
      if (call.ranks == 0) {
        const std::int64_t id = external_ids_[i] >= 0 ? external_ids_[i]
                                : found               ? at->external_id
                                                      : -1;
        const auto known = call_of_id_.find(id);
        if (known != call_of_id_.end()) call = known->second;
      }
      if (call.kind.empty()) call.kind = "unknown";
    }
    launches_ = {};
    correlations_ = {};
    external_ids_ = {};
  }

  void order_host() {
    for (std::vector<Interval>& list : host_.synced) {
      std::sort(list.begin(), list.end(),
                [](const Interval& a, const Interval& b) { return a.end < b.end; });
    }
    host_.loading = merged(std::move(host_.loading));
  }

  void choose_main_stream() {
    std::map<std::int32_t, double> compute, all;
    for (const TraceSlice& slice : slices_) {
      const double us = slice.end_us - slice.start_us;
      all[slice.stream] += us;
      if (slice.what != KernelClass::collective) compute[slice.stream] += us;
      if (all.size() > most_streams) {
        throw InputError({out_.file, 0, "stream"},
                         fmt::format("is one of more than {}; accepted: fewer", most_streams));
      }
    }
    const auto longest = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto& from = compute.empty() ? all : compute;
    out_.main_stream = std::max_element(from.begin(), from.end(), longest)->first;
  }

  // The marks of the processes that launched the device's kernels.
  void choose_marks() {
    std::set<std::int32_t> threads;
    for (const TraceSlice& slice : slices_) {
      if (slice.thread >= 0) threads.insert(slice.thread);
    }
    std::set<std::int64_t> processes;
    for (const auto& [key, thread] : threads_) {
      if (threads.count(thread) > 0) processes.insert(key.first);
    }
    std::vector<Mark> theirs;
    for (const Mark& mark : marks_) {
      if (processes.count(mark.pid) > 0) theirs.push_back(mark);
    }
    if (!theirs.empty()) marks_ = std::move(theirs);
  }

  void make_steps() {
    choose_marks();
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.begin_us < b.begin_us; });
    // The mark of a step is often there twice, by thread.
    marks_.erase(std::unique(marks_.begin(), marks_.end(),
                             [](const Mark& a, const Mark& b) { return a.name == b.name; }),
                 marks_.end());
    if (marks_.empty()) marks_.push_back({slices_.front().start_us, 0, "trace"});
    const std::size_t count = marks_.size();
    std::vector<double> ends(count, -1), starts(count, 0);
    std::vector<std::int64_t> kernels(count, 0);
    const bool one = count == 1 && marks_.front().name == "trace";
    for (TraceSlice& slice : slices_) {
      const double when = slice.thread >= 0 ? slice.called_us : slice.start_us;
      const auto next =
          std::upper_bound(marks_.begin(), marks_.end(), when,
                           [](double at, const Mark& mark) { return at < mark.begin_us; });
      slice.step = one ? 0 : static_cast<std::int32_t>(next - marks_.begin()) - 1;
      // What came after the last mark had ended is no part of it.
      if (!one && slice.step == static_cast<std::int32_t>(count) - 1 &&
          when > marks_.back().end_us) {
        slice.step = static_cast<std::int32_t>(count);
      }
      if (slice.step < 0 || slice.step >= static_cast<std::int32_t>(count)) continue;
      const auto s = static_cast<std::size_t>(slice.step);
      if (kernels[s]++ == 0) starts[s] = slice.start_us;
      ends[s] = std::max(ends[s], slice.end_us);
    }
    std::vector<std::string> kinds;
    kinds.reserve(calls_.size());
    for (const TraceCall& call : calls_) kinds.push_back(call.kind);
    double before = -1;
    std::vector<int> step_of(count, -1);
    for (std::size_t s = 0; s < count; ++s) {
      if (kernels[s] == 0) continue;
      TraceStep step;
      step.name = marks_[s].name;
      step.begin_us = out_.steps.empty() ? starts[s] : before;
      step.end_us = std::max(ends[s], step.begin_us);
      step.kernels = kernels[s];
      before = step.end_us;
      step_of[s] = static_cast<int>(out_.steps.size());
      out_.steps.push_back(std::move(step));
    }
    if (out_.steps.empty()) {
      throw InputError({out_.file, 0, "ProfilerStep"},
                       "has no kernels in its steps; accepted: a trace of whole steps");
    }
    for (const TraceSlice& slice : slices_) {
      if (slice.call < 0 || slice.step < 0 || slice.step >= static_cast<std::int32_t>(count)) {
        continue;
      }
      TraceStep& step =
          out_.steps[static_cast<std::size_t>(step_of[static_cast<std::size_t>(slice.step)])];
      TraceCall call = calls_[static_cast<std::size_t>(slice.call)];
      call.start_us = slice.start_us - step.begin_us;
      call.us = slice.end_us - slice.start_us;
      step.calls.push_back(std::move(call));
    }
    if (out_.steps.size() > 10'000) {
      throw InputError({out_.file, 0, "ProfilerStep"},
                       "has more than 10000 steps; accepted: a trace of fewer");
    }
    split_all(kinds);
    choose_typical();
  }

  // One pass over the list: a step's slices are those that start in it and, a stream, the one that
  // still ran at its beginning.
  void split_all(const std::vector<std::string>& kinds) {
    std::size_t next = 0;
    std::map<std::int32_t, TraceSlice> running;  // by stream
    for (TraceStep& step : out_.steps) {
      std::vector<TraceSlice> here;
      for (const auto& [stream, slice] : running) {
        if (slice.end_us > step.begin_us) here.push_back(slice);
      }
      for (; next < slices_.size() && slices_[next].start_us < step.end_us; ++next) {
        if (slices_[next].end_us > step.begin_us) here.push_back(slices_[next]);
      }
      running.clear();
      for (const TraceSlice& slice : here) {
        if (slice.end_us <= step.end_us) continue;
        const auto [at, fresh] = running.emplace(slice.stream, slice);
        if (!fresh && slice.end_us > at->second.end_us) at->second = slice;
      }
      std::stable_sort(here.begin(), here.end(), [](const TraceSlice& a, const TraceSlice& b) {
        return a.start_us < b.start_us;
      });
      split_step(step, here, out_.main_stream, host_, kinds);
    }
  }

  void choose_typical() {
    const std::size_t count = out_.steps.size();
    std::vector<std::size_t> order(count > 1 ? count - 1 : 1);
    std::iota(order.begin(), order.end(), count > 1 ? 1 : 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return out_.steps[a].length_us() < out_.steps[b].length_us();
    });
    out_.typical = order[order.size() / 2];
  }

  void name_kernels() {
    for (const auto& [name, named] : names_) {
      out_.kernels.push_back(
          {name.size() > 200 ? name.substr(0, 200) : name, named.calls, named.us});
    }
    std::sort(out_.kernels.begin(), out_.kernels.end(), [](const auto& a, const auto& b) {
      return a.us != b.us ? a.us > b.us : a.name < b.name;
    });
    if (names_.size() == most_names) {
      out_.notes.push_back(fmt::format(
          "kernels have more than {} names: the longest are of those met first", most_names));
    }
    if (out_.kernels.size() > 20) out_.kernels.resize(20);
  }

  TraceSummary& out_;
  std::vector<TraceSlice> slices_;
  std::vector<std::int64_t> correlations_, external_ids_;  // of slices_, until they are joined
  std::vector<Launch> launches_;
  std::vector<TraceCall> calls_;
  std::unordered_map<std::int64_t, TraceCall> call_of_id_;
  std::unordered_map<std::string, Named> names_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> threads_;
  std::vector<Mark> marks_;
  TraceHost host_;
  std::size_t unlaunched_ = 0;
};

}  // namespace

double TraceStep::compute_us() const {
  return std::accumulate(class_us.begin(), class_us.end(), 0.0);
}

double TraceStep::exposed_us() const {
  double sum = 0;
  for (const auto& [kind, us] : exposed_by_kind_us) sum += us;
  return sum;
}

TraceSummary summary_of_trace(const std::string& file, const TraceSummaryOptions& options) {
  TraceSummary out;
  out.file = file;
  Reader reader(out);
  out.info = read_kineto(file, [&](const KinetoEvent& event) { reader.take(event); });
  reader.finish(options);
  return out;
}

TraceSummary summary_of_trace(std::istream& in, const std::string& name,
                              const TraceSummaryOptions& options) {
  TraceSummary out;
  out.file = name;
  Reader reader(out);
  out.info = read_kineto(in, name, [&](const KinetoEvent& event) { reader.take(event); });
  reader.finish(options);
  return out;
}

std::vector<double> waited_for_others_us(const std::vector<TraceSummary>& ranks) {
  if (ranks.size() < 2) return {};
  const TraceStep& first = ranks.front().steps[ranks.front().typical];
  if (first.calls.empty()) return {};
  std::vector<const TraceStep*> steps;  // of the same name
  std::vector<double> shortest;
  for (const TraceCall& call : first.calls) shortest.push_back(call.us);
  for (const TraceSummary& rank : ranks) {
    const auto same = std::find_if(rank.steps.begin(), rank.steps.end(),
                                   [&](const TraceStep& step) { return step.name == first.name; });
    if (same == rank.steps.end() || same->calls.size() != first.calls.size()) return {};
    for (std::size_t i = 0; i < shortest.size(); ++i) {
      const TraceCall& call = same->calls[i];
      if (call.kind != first.calls[i].kind || call.bytes != first.calls[i].bytes) return {};
      shortest[i] = std::min(shortest[i], call.us);
    }
    steps.push_back(&*same);
  }
  std::vector<double> waited;
  for (const TraceStep* step : steps) {
    double sum = 0;
    for (std::size_t i = 0; i < shortest.size(); ++i) sum += step->calls[i].us - shortest[i];
    waited.push_back(sum);
  }
  return waited;
}

}  // namespace stepcast
