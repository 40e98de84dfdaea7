#include "runtime/cuda/communicators.hpp"

#include <fmt/format.h>

#include <thread>

namespace stepcast::runtime {

Communicators::Communicators(const Schedule& schedule, int rank, GpuCollectives& nccl,
                             Rendezvous& rendezvous, const CommOptions& options, Seconds patience)
    : nccl_(nccl), rendezvous_(rendezvous), patience_(patience) {
  try {
    make(schedule, rank, options);
  } catch (...) {
    abort();
    throw;
  }
}

void Communicators::make(const Schedule& schedule, int rank, const CommOptions& options) {
  const Mesh& mesh = schedule.mesh;
  const std::string id =
      rendezvous_.exchange("NCCL's unique id", rank == 0 ? nccl_.unique_id() : "").front();
  CommOptions named = options;
  named.name = "stepcast.world";
  GpuComm* world = nccl_.join(mesh.world_size(), id, rank, named);
  all_.push_back(world);
  settled(world, "making the communicator of all ranks");
  bool world_taken = false;
  for (const Communicator& comm : schedule.communicators) {
    names_.push_back(comm.name.str());
    if (comm.axis == Axis::world && !world_taken) {
      world_taken = true;
      comms_.push_back(world);
      continue;
    }
    // Groups are told apart by their first rank.
    const int color = ranks_of_group(mesh, comm.axis, rank).front();
    named.name = "stepcast." + comm.name.str();
    GpuComm* part = nccl_.split(world, color, index_in_group(mesh, comm.axis, rank), named);
    settled(world, "splitting off communicator " + comm.name.str());
    if (part != nullptr) all_.push_back(part);
    comms_.push_back(part);
    settled(part, "making communicator " + comm.name.str());
  }
}

Communicators::~Communicators() { abort(); }

void Communicators::broken(GpuComm* comm, const std::string& what) {
  if (rendezvous_.failed()) rendezvous_.throw_failure();  // the others' reason is the better one
  throw GpuError(fmt::format("{}: {}", what, nccl_.error(comm)));
}

void Communicators::settled(GpuComm* comm, const std::string& what) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  for (;;) {
    switch (nccl_.state(comm)) {
      case CommState::ready: return;
      case CommState::failed: broken(comm, what);
      case CommState::in_progress: break;
    }
    if (rendezvous_.failed()) rendezvous_.throw_failure();
    const Seconds took = std::chrono::duration<double>(Clock::now() - began).count();
    if (took > patience_) {
      throw GpuError(
          fmt::format("{}: NCCL is not through after {:.0f} s (NCCL_DEBUG=INFO says "
                      "what it tries; NCCL_SOCKET_IFNAME chooses the network)",
                      what, took));
    }
    std::this_thread::yield();
  }
}

void Communicators::start(CommIndex comm, GpuStream* stream, const Collective& what,
                          const Operands& operands) {
  const auto c = static_cast<std::size_t>(comm);
  if (over_) rendezvous_.throw_failure();  // aborted by the other thread: it is gone
  nccl_.start(comms_[c], stream, what, operands);
  settled(comms_[c], "communicator " + names_[c]);
}

void Communicators::look() {
  if (over_) rendezvous_.throw_failure();
  for (std::size_t c = 0; c < comms_.size(); ++c) {
    if (nccl_.state(comms_[c]) == CommState::failed) {
      broken(comms_[c], "communicator " + names_[c]);
    }
  }
}

void Communicators::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_) return;
  over_ = true;
  for (std::size_t i = all_.size(); i-- > 0;) nccl_.end(all_[i]);
}

void Communicators::abort() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_) return;
  over_ = true;
  for (std::size_t i = all_.size(); i-- > 0;) nccl_.abort(all_[i]);
}

}  // namespace stepcast::runtime
