#include "runtime/cuda/gpu_life.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "runtime/cuda/spans.hpp"

namespace stepcast::runtime {
namespace {

using Clock = std::chrono::steady_clock;

int role_of(const Schedule& schedule, int rank) {
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    for (int i = 0; i < schedule.roles[r].rank_count; ++i) {
      if (schedule.roles[r].rank(i) == rank) return static_cast<int>(r);
    }
  }
  STEPCAST_ASSERT(false, "every rank has a role");
}

// Which GPU each rank has; two ranks on one are told before NCCL says it less clearly.
std::vector<std::string> meet_gpus(Rendezvous& rendezvous, Gpu& gpu, int device) {
  const GpuInfo info = gpu.info(device);
  const char* host_id = std::getenv("NCCL_HOSTID");
  std::string mine;
  put(mine, host_id != nullptr ? std::string(host_id) : host_name());
  put(mine, info.bus_id);
  put(mine, fmt::format("{} GPU {} {}", host_name(), device, info.name));
  std::vector<std::string> texts;
  std::vector<std::string> places;
  for (const std::string& bytes : rendezvous.exchange("which GPU each rank has", mine)) {
    Reader reader(bytes);
    const std::string host = reader.text();
    const std::string place = host + " " + reader.text();
    const auto same = std::find(places.begin(), places.end(), place);
    texts.push_back(reader.text());
    if (same != places.end()) {
      throw GpuError(fmt::format(
          "ranks {} and {} are both on {}: NCCL allows one rank a GPU (for a functional test give "
          "each process another NCCL_HOSTID)",
          same - places.begin(), places.size(), texts.back()));
    }
    places.push_back(place);
  }
  return texts;
}

// A rank's part of the Execution, in bytes for the others.
std::string result_of(const GpuRank& rank, const std::string& summary,
                      const std::vector<Span>& spans, const std::vector<MemorySample>& samples) {
  std::string bytes;
  put(bytes, rank.memory().peak());
  put(bytes, rank.memory().reserved_peak());
  put(bytes, static_cast<std::uint64_t>(rank.memory().pool_peaks().size()));
  for (const Bytes pool : rank.memory().pool_peaks()) put(bytes, pool);
  put(bytes, summary);
  put(bytes, static_cast<std::uint64_t>(spans.size()));
  for (const Span& span : spans) put(bytes, span);
  put(bytes, static_cast<std::uint64_t>(samples.size()));
  for (const MemorySample& sample : samples) put(bytes, sample);
  return bytes;
}

void add_result(GpuExecution& execution, const std::string& bytes) {
  Reader reader(bytes);
  GpuMemoryUse memory;
  memory.peak = reader.get<Bytes>();
  memory.reserved = reader.get<Bytes>();
  for (auto n = reader.get<std::uint64_t>(); n > 0; --n) {
    memory.pools.push_back(reader.get<Bytes>());
  }
  execution.memory.push_back(std::move(memory));
  execution.summaries.push_back(reader.text());
  Timeline& t = execution.timeline;
  for (auto n = reader.get<std::uint64_t>(); n > 0; --n) t.spans.push_back(reader.get<Span>());
  for (auto n = reader.get<std::uint64_t>(); n > 0; --n) {
    t.memory.push_back(reader.get<MemorySample>());
  }
}

// Aborts a rank's communicators when its own thread has not done so within a few seconds of a
// failure: then it is stuck in a call that only ends with them.
class StandBy {
 public:
  StandBy(Rendezvous& rendezvous, Communicators& comms) {
    thread_ = std::thread([this, &rendezvous, &comms] {
      std::unique_lock<std::mutex> lock(mutex_);
      while (!over_ && !rendezvous.failed()) wait(lock, 0.2);
      if (!over_) wait(lock, 3);
      if (!over_) comms.abort();
    });
  }
  ~StandBy() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
      ending_.notify_all();
    }
    thread_.join();
  }

 private:
  void wait(std::unique_lock<std::mutex>& lock, Seconds seconds) {
    ending_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over_; });
  }
  std::mutex mutex_;
  std::condition_variable ending_;
  bool over_ = false;
  std::thread thread_;
};

// What a rank still has running ends before its memory goes: freeing waits for the device.
class AbortAtFailure {
 public:
  explicit AbortAtFailure(Communicators& comms) : comms_(comms) {}
  ~AbortAtFailure() {
    if (!well_) comms_.abort();
  }
  AbortAtFailure(const AbortAtFailure&) = delete;
  AbortAtFailure& operator=(const AbortAtFailure&) = delete;
  void all_is_well() { well_ = true; }

 private:
  Communicators& comms_;
  bool well_ = false;
};

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "this host";
  return name.data();
}

GpuExecution GpuLife::live(int rank, int device, Rendezvous& rendezvous, bool& heard) const {
  try {
    return live_well(rank, device, rendezvous);
  } catch (const std::exception& error) {
    heard = rendezvous.failed();
    if (!heard) rendezvous.fail({false, error.what()});
    throw;
  }
}

GpuExecution GpuLife::live_well(int rank, int device, Rendezvous& rendezvous) const {
  tables_.gpu->use(device);
  GpuExecution execution;
  execution.gpus = meet_gpus(rendezvous, *tables_.gpu, device);
  Communicators comms(run_.schedule, rank, *tables_.collectives, rendezvous, options_.comm,
                      options_.patience);
  const StandBy stand_by(rendezvous, comms);
  const int role = role_of(run_.schedule, rank);
  GpuRank self(run_, rank, role);
  AbortAtFailure guard(comms);
  rendezvous.exchange("the start of the run", {});
  self.begin(comms);
  go(self, comms, rendezvous);
  self.end();
  std::vector<Span> spans;
  std::vector<MemorySample> samples;
  if (run_.schedule.roles[static_cast<std::size_t>(role)].rank(0) == rank) {
    spans = spans_of(run_.schedule, role, run_.programs, self.times());
    samples = std::move(self.samples());
  }
  const std::string mine = result_of(self, run_.work.summary(rank), spans, samples);
  for (const std::string& bytes : rendezvous.exchange("the end of the run", mine)) {
    add_result(execution, bytes);
  }
  guard.all_is_well();
  comms.end();
  return execution;
}

void GpuLife::go(GpuRank& self, Communicators& comms, Rendezvous& rendezvous) const {
  constexpr Seconds telling = 0.05;
  std::string told;
  auto next = Clock::now();
  int idle = 0;
  while (!self.done()) {
    if (rendezvous.failed()) {
      comms.abort();
      rendezvous.throw_failure();
    }
    const bool went = self.advance();
    if (Clock::now() >= next) {
      next = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(telling));
      comms.look();
      const RankStanding standing = self.standing();
      std::string bytes = to_bytes(standing);
      if (bytes != told) rendezvous.stand(standing);
      told = std::move(bytes);
    }
    // A core a rank is the rule; where there are fewer, others get theirs after a while.
    idle = went ? 0 : idle + 1;
    if (idle > 100) std::this_thread::yield();
  }
  rendezvous.stand(self.standing());
}

}  // namespace stepcast::runtime
