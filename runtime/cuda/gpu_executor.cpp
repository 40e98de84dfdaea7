#include "runtime/cuda/gpu_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <tuple>

#include "runtime/cuda/gpu_life.hpp"
#include "runtime/steps.hpp"

namespace stepcast::runtime {
namespace {

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
  const GpuLife life(run, tables, options);

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
