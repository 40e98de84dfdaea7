#include "sim/calibration/trace_calls.hpp"

#include <algorithm>
#include <optional>

namespace stepcast {

namespace {

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void take(const KinetoEvent& event, TraceCalls& calls) {
  if (event.phase != "X") return;
  const std::string& c = event.category;
  if (c == "kernel") {
    if (event.duration_us > 0) calls.add_kernel(event);
  } else if (c == "cpu_op" || c == "operator") {
    if (event.external_id >= 0) calls.add_op(event.external_id, event);
  } else if (c == "cuda_runtime" || c == "cuda_driver" || c == "runtime") {
    if (event.correlation >= 0 && event.external_id >= 0) {
      calls.add_launch(event.correlation, event.external_id);
    }
    if (event.name == "cudaLaunchKernel" || event.name == "hipLaunchKernel") {
      calls.launch_us.push_back(event.duration_us);
    }
  } else if (c == "user_annotation" && event.name.starts_with("ProfilerStep")) {
    calls.step_us.push_back(event.duration_us);
  }
}

}  // namespace

void TraceCalls::add_kernel(const KinetoEvent& event) {
  Launched k;
  k.op = event.external_id;
  k.correlation = event.correlation;
  k.start_us = event.start_us;
  k.us = event.duration_us;
  k.nccl = event.name.starts_with("nccl") || event.name.starts_with("void nccl");
  k.tf32 = contains(event.name, "tf32") || contains(event.name, "_s1688gemm");
  if (k.nccl) {
    if (const std::optional<TraceCollective> c = stepcast::collective_of(event)) {
      k.own = collective_number(*c);
    }
  }
  kernels.push_back(k);
}

void TraceCalls::add_op(std::int64_t id, const KinetoEvent& event) {
  Op op;
  op.id = id;
  if (const std::optional<TraceCollective> c = stepcast::collective_of(event)) {
    op.collective = collective_number(*c);
  } else {
    const Name name(event.name);
    op.name = names_.number(name, name);
    if (const std::optional<Kernel> k = kernel_of_op(event)) {
      op.shape = shapes_.number(
          {k->kind, k->dtype, k->m, k->n, k->k, k->batch, k->bytes_read, k->bytes_written, k->name},
          *k);
    }
  }
  ops_.push_back(op);
}

std::int32_t TraceCalls::collective_number(const TraceCollective& c) {
  return collectives_.number({c.op, c.dtype, c.bytes, c.ranks, c.members}, c);
}

void TraceCalls::finish() {
  // Of two launches with one correlation the first counts, of two ops with one id the last.
  std::stable_sort(launches_.begin(), launches_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (Launched& kernel : kernels) {
    if (kernel.op >= 0) continue;
    const auto at = std::lower_bound(
        launches_.begin(), launches_.end(), kernel.correlation,
        [](const auto& launch, std::int64_t value) { return launch.first < value; });
    if (at != launches_.end() && at->first == kernel.correlation) kernel.op = at->second;
  }
  launches_ = {};
  std::stable_sort(ops_.begin(), ops_.end(), [](const Op& a, const Op& b) { return a.id < b.id; });
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Launched& a, const Launched& b) { return a.start_us < b.start_us; });
}

std::int32_t TraceCalls::said(std::int64_t id, std::int32_t Op::*what) const {
  auto at = std::upper_bound(ops_.begin(), ops_.end(), id,
                             [](std::int64_t value, const Op& op) { return value < op.id; });
  while (at != ops_.begin() && (--at)->id == id) {
    if ((*at).*what >= 0) return (*at).*what;
  }
  return -1;
}

const Kernel* TraceCalls::shape_of(const Launched& kernel) const {
  return shapes_.at(said(kernel.op, &Op::shape));
}

const Name* TraceCalls::name_of(const Launched& kernel) const {
  return names_.at(said(kernel.op, &Op::name));
}

const TraceCollective* TraceCalls::collective_of(const Launched& kernel) const {
  return collectives_.at(kernel.own >= 0 ? kernel.own : said(kernel.op, &Op::collective));
}

TraceCalls calls_of_kineto(const std::string& path) {
  TraceCalls calls;
  calls.info = read_kineto(path, [&](const KinetoEvent& event) { take(event, calls); });
  calls.finish();
  return calls;
}

}  // namespace stepcast
