#include "runtime/cuda/gpu_executor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <thread>
#include <tuple>

#include "runtime/cuda/gpu_rank.hpp"
#include "runtime/cuda/spans.hpp"
#include "runtime/steps.hpp"

namespace stepcast::runtime {
namespace {

using Clock = std::chrono::steady_clock;

GpuRun run_of(const Schedule& schedule, GpuWork& work, Gpu& gpu, int steps) {
  STEPCAST_ASSERT(!schedule.roles.empty() && steps >= 1, "a run has a role and a step");
  GpuRun run{schedule, work, gpu, {}, {}, {}, {}};
  const int last = static_cast<int>(schedule.roles.front().steps.size()) - 1;
  for (int i = 0; i < steps; ++i) run.programs.push_back(std::min(i, last));
  for (const Role& role : schedule.roles) {
    std::vector<Queues> queues;
    std::vector<std::vector<OpIndex>> order;
    std::vector<std::vector<std::string>> names;
    for (const StepProgram& program : role.steps) {
      queues.emplace_back(schedule, program);
      order.push_back(issue_order_of(program));
      names.push_back(op_names(schedule, program));
    }
    run.queues.push_back(std::move(queues));
    run.issue_order.push_back(std::move(order));
    run.names.push_back(std::move(names));
  }
  return run;
}

int role_of(const Schedule& schedule, int rank) {
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    for (int i = 0; i < schedule.roles[r].rank_count; ++i) {
      if (schedule.roles[r].rank(i) == rank) return static_cast<int>(r);
    }
  }
  STEPCAST_ASSERT(false, "every rank has a role");
}

// Enough of a schedule to see that two processes do not run the same one.
std::string digest_of(const Schedule& schedule, int steps) {
  std::uint64_t hash = 1469598103934665603u;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const Role& role : schedule.roles) {
    for (const StepProgram& program : role.steps) {
      for (const Op& op : program.ops) {
        mix(static_cast<std::uint64_t>(op.kind));
        mix(static_cast<std::uint64_t>(op.stream + 1));
        mix(static_cast<std::uint64_t>(op.comm + 1));
        mix(static_cast<std::uint64_t>(op.elements));
        mix(static_cast<std::uint64_t>(op.dtype));
      }
    }
  }
  return fmt::format("{}, {} steps, schedule {:016x}", schedule.name, steps, hash);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "this host";
  return name.data();
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

class Life {
 public:
  Life(const GpuRun& run, const GpuTables& tables, const GpuExecuteOptions& options)
      : run_(run), tables_(tables), options_(options) {}

  // The whole life of a rank, on its own thread. `heard`: it ended because another one failed.
  GpuExecution live(int rank, int device, Rendezvous& rendezvous, bool& heard) const {
    try {
      return live_well(rank, device, rendezvous);
    } catch (const std::exception& error) {
      heard = rendezvous.failed();
      if (!heard) rendezvous.fail({false, error.what()});
      throw;
    }
  }

 private:
  GpuExecution live_well(int rank, int device, Rendezvous& rendezvous) const {
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

  void go(GpuRank& self, Communicators& comms, Rendezvous& rendezvous) const {
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

  const GpuRun& run_;
  const GpuTables& tables_;
  const GpuExecuteOptions& options_;
};

// Of the rank that failed, rather than of one that heard of it.
class FirstError {
 public:
  void keep(std::exception_ptr error, bool heard) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_ && (heard || !heard_)) return;
    error_ = std::move(error);
    heard_ = heard;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  bool heard_ = true;
};

void check(const Schedule& schedule, const GpuTables& tables, const GpuExecuteOptions& options) {
  if (tables.collectives == nullptr) throw GpuError(tables.no_collectives);
  const int ranks = schedule.mesh.world_size();
  const int gpus = tables.gpu->count();
  const auto refuse = [](const std::string& key, const std::string& message) {
    throw InputError({.file = "environment", .line = 0, .key = key}, message);
  };
  if (!options.job) {
    if (ranks > gpus) {
      throw InputError({.file = "GPUs", .line = 0, .key = ""},
                       fmt::format("the scenario has {} ranks, this machine {} GPUs; accepted: at "
                                   "most {} ranks, or one process a rank on several machines "
                                   "(torchrun, srun, mpirun)",
                                   ranks, gpus, gpus));
    }
    return;
  }
  if (options.job->ranks != ranks) {
    refuse("WORLD_SIZE", fmt::format("{} has started {} processes; accepted: {}, the ranks of the "
                                     "scenario",
                                     options.job->launcher, options.job->ranks, ranks));
  }
}

}  // namespace

GpuExecution execute_on_gpus(const Schedule& schedule, GpuWork& work, const GpuTables& tables,
                             const GpuExecuteOptions& options) {
  check(schedule, tables, options);
  const GpuRun run = run_of(schedule, work, *tables.gpu, options.steps);
  const int ranks = schedule.mesh.world_size();
  const bool one_process = !options.job;
  std::unique_ptr<RendezvousServer> server;
  int port = one_process ? 0 : options.job->port;
  if (one_process || options.job->rank == 0) {
    server = std::make_unique<RendezvousServer>(
        RendezvousServer::Options{port, ranks, options.watchdog, options.patience, options.meeting},
        [&schedule](const std::vector<RankStanding>& all) {
          return who_is_missing(schedule, all);
        });
    port = server->port();
  }
  Rendezvous::Options meeting;
  meeting.ranks = ranks;
  meeting.address = one_process ? "127.0.0.1" : options.job->address;
  meeting.port = port;
  meeting.agreement = digest_of(schedule, options.steps);
  meeting.watchdog = options.watchdog;
  meeting.patience = options.patience;
  meeting.meeting = options.meeting;
  const Life life(run, tables, options);

  GpuExecution execution;
  if (one_process) {
    FirstError error;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        bool heard = false;
        try {
          Rendezvous::Options mine = meeting;
          mine.rank = rank;
          Rendezvous rendezvous(mine);
          GpuExecution result = life.live(rank, rank, rendezvous, heard);
          if (rank == 0) execution = std::move(result);
        } catch (...) {
          error.keep(std::current_exception(), heard);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    error.rethrow();
  } else {
    meeting.rank = options.job->rank;
    // A launcher that shows each process one GPU still counts ranks (Slurm's --gpus-per-task).
    const int gpus = tables.gpu->count();
    const int device = gpus == 1 ? 0 : options.job->local_rank;
    if (device >= gpus) {
      throw InputError({.file = "environment", .line = 0, .key = "LOCAL_RANK"},
                       fmt::format("{} on {}, which has {} GPUs; accepted: 0 to {}",
                                   options.job->local_rank, host_name(), gpus, gpus - 1));
    }
    Rendezvous rendezvous(meeting);
    bool heard = false;
    execution = life.live(meeting.rank, device, rendezvous, heard);
  }
  const auto by_place = [](const auto& a, const auto& b) {
    return std::tie(a.step, a.role, a.op) < std::tie(b.step, b.role, b.op);
  };
  Timeline& t = execution.timeline;
  t.engine = "nccl";
  std::sort(t.spans.begin(), t.spans.end(), by_place);
  std::stable_sort(t.memory.begin(), t.memory.end(), by_place);
  add_steps(t, schedule, run.programs);
  return execution;
}

std::string from_rank_0(const std::string& mine, const GpuExecuteOptions& options) {
  if (!options.job) return mine;
  const Job& job = *options.job;
  std::unique_ptr<RendezvousServer> server;
  if (job.rank == 0) {
    server = std::make_unique<RendezvousServer>(
        RendezvousServer::Options{job.port, job.ranks, options.watchdog, options.patience,
                                  options.meeting},
        [](const std::vector<RankStanding>&) { return std::string("nobody runs yet"); });
  }
  Rendezvous::Options meeting;
  meeting.rank = job.rank;
  meeting.ranks = job.ranks;
  meeting.address = job.address;
  meeting.port = job.port;
  meeting.agreement = "what rank 0 has";
  meeting.watchdog = options.watchdog;
  meeting.patience = options.patience;
  meeting.meeting = options.meeting;
  Rendezvous rendezvous(meeting);
  return rendezvous.exchange(meeting.agreement, job.rank == 0 ? mine : "").front();
}

}  // namespace stepcast::runtime
