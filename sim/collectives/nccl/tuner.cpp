// time = latency + bytes / bandwidth, with three corrections by size (NCCL 2.28.9, src/enqueue.cc
// and tuning.cc): a factor on Tree's bandwidth, a plateau of Ring/Simple across nodes, and a
// penalty that keeps 8-bit floats off deep rings. One call costs 21 evaluations, well under a
// microsecond. Tested by golden/select.csv (32,500 choices) and by hand.

#include "sim/collectives/nccl/tuner.hpp"

#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "sim/collectives/nccl/rules.hpp"

namespace stepcast::nccl {
namespace {

int floor_log2(std::int64_t value) {
  int log = -1;
  for (; value > 0; value >>= 1) ++log;
  return log;
}

// "NCCL_ALGO=Tree,NVLS"; "" where the variable was not set.
template <typename Enum>
std::string variable(const char* name, std::uint32_t mask, int count) {
  if (mask == TunerSettings::any) return "";
  std::string names;
  for (int i = 0; i < count; ++i) {
    if ((mask >> i & 1) == 0) continue;
    names += (names.empty() ? "" : ",") + std::string(to_string(static_cast<Enum>(i)));
  }
  return std::string(name) + "=" + (names.empty() ? "none" : names);
}

// What the call's type or reduction rules out.
bool may_run(NcclAlgorithm a, bool nvls, bool pat) {
  if (a == NcclAlgorithm::nvls || a == NcclAlgorithm::nvls_tree) return nvls;
  return a != NcclAlgorithm::pat || pat;
}

// Algorithms and protocols in NCCL's order, but those that the call rules out.
template <typename Visit>
void each_pair(bool nvls, bool pat, Visit visit) {
  for (int ai = 0; ai < algorithm_count; ++ai) {
    const auto a = static_cast<NcclAlgorithm>(ai);
    if (!may_run(a, nvls, pat)) continue;
    for (int pi = 0; pi < protocol_count; ++pi) visit(a, static_cast<NcclProtocol>(pi));
  }
}

// NCCL_ALGO and NCCL_PROTO left no pair: names both, and the pairs that there are without them.
InputError nothing_left(const Constants& constants, const CommShape& comm,
                        const SearchResult& search, CollectiveKind f, bool nvls, bool pat) {
  CommShape free = comm;
  free.settings.algorithms.fill(TunerSettings::any);
  free.settings.protocols.fill(TunerSettings::any);
  const CostModel model = make_cost_model(constants, free, search);
  std::string pairs;
  each_pair(nvls, pat, [&](NcclAlgorithm a, NcclProtocol p) {
    if (model.at(f, a, p).bandwidth_gbps <= 0) return;
    pairs +=
        (pairs.empty() ? "" : ", ") + std::string(to_string(a)) + "/" + std::string(to_string(p));
  });
  const auto function = static_cast<std::size_t>(f);
  std::string said =
      variable<NcclAlgorithm>("NCCL_ALGO", comm.settings.algorithms[function], algorithm_count);
  const std::string protocols =
      variable<NcclProtocol>("NCCL_PROTO", comm.settings.protocols[function], protocol_count);
  if (!said.empty() && !protocols.empty()) said += ", ";
  return InputError({"nccl", 0, said + protocols},
                    std::string("leaves ") + std::string(to_string(f)) +
                        " nothing to run with here (NCCL fails with ncclInvalidUsage); accepted: " +
                        (pairs.empty() ? "nothing: no pair can run it" : pairs));
}

}  // namespace

Tuner::Tuner(const Constants& constants, CommShape comm, SearchResult search)
    : constants_(constants),
      comm_(comm),
      search_(std::move(search)),
      model_(make_cost_model(constants, comm_, search_)),
      channels_(communicator_channels(comm_, search_)) {}

double Tuner::correction(NcclAlgorithm a, NcclProtocol p, std::int64_t bytes) const {
  const bool nvls_tree_too = a == NcclAlgorithm::nvls_tree &&
                             constants_.tree_correction_on_nvls_tree &&
                             comm_.min_compute_capability >= 100 && comm_.cpu_arch == CpuArch::x86;
  if (a != NcclAlgorithm::tree && !nvls_tree_too) return 1.0;
  const std::vector<double>& factors = constants_.tree_correction[index_of(p)];
  const int i = floor_log2(bytes / 64);
  return i >= 0 && i < static_cast<int>(factors.size()) ? factors[i] : 1.0;
}

double Tuner::wire_us(CollectiveKind f, NcclAlgorithm a, NcclProtocol p, std::int64_t bytes) const {
  double bandwidth = model_.at(f, a, p).bandwidth_gbps;
  if (f == CollectiveKind::all_reduce) bandwidth *= correction(a, p, bytes);
  return static_cast<double>(bytes) / (1000.0 * bandwidth);
}

std::optional<double> Tuner::time_us(CollectiveKind f, NcclAlgorithm a, NcclProtocol p,
                                     std::int64_t bytes, Dtype dtype) const {
  if (comm_.ranks == 1) return 0.0;
  const Cell& cell = model_.at(f, a, p);
  if (cell.bandwidth_gbps <= 0) return std::nullopt;
  double latency = cell.latency_us;
  const bool ring = a == NcclAlgorithm::ring;
  if (ring && p == NcclProtocol::simple && f == CollectiveKind::all_reduce && comm_.nodes > 1 &&
      bytes / (std::int64_t{channels_} * comm_.ranks) >= 64) {
    latency *= comm_.min_compute_capability < 80 ? 1.9 : 1.4;
  }
  double time = latency + wire_us(f, a, p, bytes);
  if (ring && dtype == Dtype::fp8 && comm_.ranks > 8) time *= 1024;  // lossy at every step
  return time;
}

// The first row that matches and can run, as NCCL's example plugin takes it.
const TunerRow* Tuner::row_for(CollectiveKind f, std::int64_t bytes, bool nvls, bool pat) const {
  for (const TunerRow& row : comm_.settings.rows) {
    if (row.function != static_cast<int>(f)) continue;
    if (!row.for_one_call || !row.for_plain_buffers) continue;
    if (bytes < row.min_bytes || (row.max_bytes >= 0 && bytes > row.max_bytes)) continue;
    if (row.nodes >= 0 && row.nodes != comm_.nodes) continue;
    if (row.ranks >= 0 && row.ranks != comm_.ranks) continue;
    if (!may_run(row.algorithm, nvls, pat)) continue;
    if (model_.at(f, row.algorithm, row.protocol).bandwidth_gbps > 0) return &row;
  }
  return nullptr;
}

Choice Tuner::choose(CollectiveKind f, std::int64_t bytes, Dtype dtype, Reduction reduction) const {
  Choice best;
  if (comm_.ranks == 1) return best;
  const bool nvls = f == CollectiveKind::all_gather || nvls_reduces(dtype, reduction);
  const bool pat = f != CollectiveKind::reduce_scatter || reduction != Reduction::avg;
  bool found = false;
  each_pair(nvls, pat, [&](NcclAlgorithm a, NcclProtocol p) {
    const std::optional<double> time = time_us(f, a, p, bytes, dtype);
    if (!time || (found && *time >= best.time_us)) return;
    best.algorithm = a;
    best.protocol = p;
    best.time_us = *time;
    found = true;
  });
  if (!found) {
    throw nothing_left(constants_, comm_, search_, f, nvls, pat);
  }
  const TunerRow* row = row_for(f, bytes, nvls, pat);
  if (row != nullptr) {
    best.algorithm = row->algorithm;
    best.protocol = row->protocol;
    best.time_us = *time_us(f, row->algorithm, row->protocol, bytes, dtype);
  }
  best.launch = launch_of(comm_, search_, f, best.algorithm, best.protocol, bytes);
  if (row != nullptr && row->channels > 0) {
    best.launch.channels = row->channels;
    best.launch.launched = std::min(best.launch.launched, row->channels);
  }
  return best;
}

}  // namespace stepcast::nccl
