#include "sim/interop/trace_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "sim/interop/trace_ops.hpp"

namespace stepcast {

namespace {

constexpr std::size_t most_kernels = 20'000'000;  // 1.3 GB

bool is_sync(const std::string& name) { return name.find("Synchronize") != std::string::npos; }

std::string kind_of(const TraceCollective& c) { return std::string(to_string(c.op)); }

void describe(TraceCall& call, const TraceCollective& c) {
  call.kind = kind_of(c);
  call.dtype = std::string(to_string(c.dtype));
  call.ranks = c.ranks;
  call.bytes = c.bytes;
}

std::int32_t small(std::int64_t value) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, -1, 1'000'000'000));
}

// Where args do not say it, a GPU is the process and a stream the thread.
std::int32_t device_of(const KinetoEvent& event) {
  return small(event.device >= 0 ? event.device : event.pid);
}
std::int32_t stream_of(const KinetoEvent& event) {
  return small(event.stream >= 0 ? event.stream : event.tid);
}

}  // namespace

void TraceEvents::take(const KinetoEvent& event) {
  if (event.phase != "X" || !(event.duration_us >= 0)) return;
  constexpr double most_us = 1e17;  // 3,000 years
  if (!(std::abs(event.start_us) <= most_us && event.duration_us <= most_us)) {
    throw InputError({file_, 0, "ts"},
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
      host.loading.push_back({event.start_us, event.start_us + event.duration_us});
    }
  } else if (event.name.starts_with("ProfilerStep") &&
             (c == "user_annotation" || c == "cpu_op" || c == "operator")) {
    marks.push_back(
        {event.start_us, event.start_us + event.duration_us, event.name, event.pid, 0, -1});
  } else if (event.name.starts_with("ProfilerStep") && c == "gpu_user_annotation") {
    gpu_marks.push_back({event.start_us, event.start_us + event.duration_us, event.name, event.pid,
                         device_of(event), stream_of(event)});
  } else if (c == "cpu_op" || c == "operator") {
    op(event);
  }
}

void TraceEvents::kernel(const KinetoEvent& event) {
  if (slices.size() == most_kernels) {
    throw InputError(
        {file_, 0, "traceEvents"},
        fmt::format("has more than {} kernels; accepted: a trace of fewer steps", most_kernels));
  }
  TraceSlice slice;
  slice.start_us = event.start_us;
  slice.end_us = event.start_us + event.duration_us;
  slice.device = device_of(event);
  slice.stream = stream_of(event);
  slice.what = event.category == "kernel" ? class_of_kernel(event.name) : KernelClass::copy;
  if (slice.what == KernelClass::collective) {
    slice.call = static_cast<std::int32_t>(calls.size());
    TraceCall& call = calls.emplace_back();
    if (const std::optional<TraceCollective> c = collective_of(event)) {
      describe(call, *c);
    } else {
      call.kind = collective_of_kernel(event.name);
    }
  }
  correlations_.push_back(event.correlation);
  external_ids_.push_back(event.external_id);
  // By name, until there are too many.
  auto at = names.find(event.name);
  if (at == names.end() && names.size() < most_kernel_names)
    at = names.emplace(event.name, Named{}).first;
  if (at != names.end()) {
    ++at->second.calls;
    at->second.us += event.duration_us;
  }
  slices.push_back(slice);
}

void TraceEvents::runtime(const KinetoEvent& event) {
  const std::int32_t thread = thread_of(event);
  if (event.correlation >= 0) {
    launches_.push_back({event.correlation, event.external_id, event.start_us,
                         event.start_us + event.duration_us, thread});
  }
  if (is_sync(event.name) && event.duration_us > 0) {
    const auto index = static_cast<std::size_t>(thread);
    if (host.synced.size() <= index) host.synced.resize(index + 1);
    host.synced[index].push_back({event.start_us, event.start_us + event.duration_us});
  }
}

void TraceEvents::op(const KinetoEvent& event) {
  if (event.external_id < 0 || event.collective.empty()) return;
  const std::optional<TraceCollective> c = collective_of(event);
  if (!c) return;
  TraceCall call;
  describe(call, *c);
  call_of_id_.emplace(event.external_id, std::move(call));
}

std::int32_t TraceEvents::thread_of(const KinetoEvent& event) {
  const auto key = std::pair(event.pid, event.tid);
  const auto [at, fresh] = threads.emplace(key, static_cast<std::int32_t>(threads.size()));
  if (fresh && threads.size() > 100'000) {
    throw InputError({file_, 0, "tid"}, "is one of more than 100000 threads; accepted: fewer");
  }
  return at->second;
}

void TraceEvents::choose_device(int asked, TraceSummary& out) {
  std::vector<int>& devices = out.devices;
  for (const TraceSlice& slice : slices) {
    if (devices.empty() || devices.back() != slice.device) devices.push_back(slice.device);
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  out.device = asked < 0 ? devices.front() : asked;
  if (std::find(devices.begin(), devices.end(), out.device) == devices.end()) {
    throw InputError(
        {"--device", 0, ""},
        fmt::format("{} has no kernels in {}; accepted: {}", out.device, file_,
                    fmt::join(devices.begin(),
                              devices.begin() + std::min<std::ptrdiff_t>(
                                                    8, static_cast<std::ptrdiff_t>(devices.size())),
                              ", ")));
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].device != out.device) continue;
    slices[kept] = slices[i];
    correlations_[kept] = correlations_[i];
    external_ids_[kept] = external_ids_[i];
    ++kept;
  }
  slices.resize(kept);
}

// Kernels to their launches, by correlation; and collectives that say nothing of themselves to
// the op that launched them.
void TraceEvents::join_launches() {
  std::sort(launches_.begin(), launches_.end(),
            [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
  for (std::size_t i = 0; i < slices.size(); ++i) {
    TraceSlice& slice = slices[i];
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
      ++unlaunched;
    }
    if (slice.call < 0) continue;
    TraceCall& call = calls[static_cast<std::size_t>(slice.call)];
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

void TraceEvents::order_host() {
  for (std::vector<Interval>& list : host.synced) {
    std::sort(list.begin(), list.end(),
              [](const Interval& a, const Interval& b) { return a.end < b.end; });
  }
  host.loading = merged(std::move(host.loading));
}

void TraceEvents::join(int device, TraceSummary& out) {
  if (slices.empty()) {
    throw InputError({file_, 0, "traceEvents"},
                     "has no kernels of a GPU; accepted: a trace with ProfilerActivity.CUDA");
  }
  choose_device(device, out);
  join_launches();
  std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
    return a.start_us < b.start_us;
  });
  order_host();
}

}  // namespace stepcast
