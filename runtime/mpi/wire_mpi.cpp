// The wire of MPI: a plugin of one function (open.hpp). Channels are tags of one communicator of
// our own; requests are slots. An error of MPI is a message that never comes: the watchdog, or
// mpirun's SIGTERM, ends the run with words.

#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cpu/wire.hpp"
#include "runtime/mpi/open.hpp"

namespace stepcast::runtime {
namespace {

class MpiWire : public Wire {
 public:
  MpiWire() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    name_ = text;
    name_ = name_.substr(0, name_.find_first_of(",\n"));  // "Open MPI v4.1.4"
  }

  const char* name() const override { return name_.c_str(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Request send(int to, int channel, const std::byte* from, std::size_t bytes) override {
    return keep([&](MPI_Request* request) {
      return MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to, channel, comm_, request);
    });
  }

  Request receive(int from, int channel, std::byte* to, std::size_t bytes) override {
    return keep([&](MPI_Request* request) {
      return MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from, channel, comm_, request);
    });
  }

  bool done(Request request) override {
    Slot& slot = at(request);
    if (slot.broken) return false;
    int done = 0;
    if (MPI_Test(&slot.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) slot.broken = true;
    if (slot.broken || done == 0) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(request);
    return true;
  }

  bool next(int channel, int& from, std::size_t& bytes) override {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, channel, comm_, &there, &status) != MPI_SUCCESS) return false;
    if (there == 0) return false;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    from = status.MPI_SOURCE;
    bytes = static_cast<std::size_t>(count);
    return true;
  }

  void meet() override { MPI_Barrier(comm_); }

  void leave() override {
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

 private:
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    bool broken = false;
  };

  Slot& at(Request request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return slots_[static_cast<std::size_t>(request)];
  }

  template <typename Start>
  Request keep(Start&& start) {
    Slot slot;
    slot.broken = start(&slot.request) != MPI_SUCCESS;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) {
      slots_.push_back(slot);
      return static_cast<Request>(slots_.size()) - 1;
    }
    const Request request = free_.back();
    free_.pop_back();
    slots_[static_cast<std::size_t>(request)] = slot;
    return request;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::string name_;
  std::mutex mutex_;
  std::deque<Slot> slots_;  // a deque: slots stay where they are
  std::vector<Request> free_;
};

}  // namespace
}  // namespace stepcast::runtime

extern "C" stepcast::runtime::Wire* stepcast_open_wire(int interface, char* why, std::size_t size) {
  using namespace stepcast::runtime;
  if (interface != wire_interface) {
    std::snprintf(why, size, "of another version of stepcast");
    return nullptr;
  }
  int level = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
    std::snprintf(why, size, "MPI does not start");
    return nullptr;
  }
  if (level < MPI_THREAD_MULTIPLE) {
    std::snprintf(why, size, "this MPI has no MPI_THREAD_MULTIPLE");
    return nullptr;
  }
  return new MpiWire();
}
