#pragma once
// Messages between processes, one rank each: the little that a run needs of MPI.
//
// Messages of one sender, receiver and channel arrive in order. Nothing blocks: a request is asked
// again and again, with pauses. Any thread may call; a request belongs to the thread that made it.
//
//   MpiWire    runtime/mpi/wire_mpi.cpp, a plugin: the program starts without MPI installed
//   TestWire   tests/unit/runtime/test_wire.hpp, queues in one process that can be cut
//
// Nothing is thrown across it: the plugin is compiled apart.

#include <cstddef>
#include <cstdint>

namespace stepcast::runtime {

class Wire {
 public:
  using Request = std::int64_t;  // never negative

  virtual ~Wire() = default;  // without leave(): the others are left waiting

  virtual const char* name() const = 0;  // "Open MPI 4.1.4"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The memory must stay until done() says so.
  virtual Request send(int to, int channel, const std::byte* from, std::size_t bytes) = 0;
  virtual Request receive(int from, int channel, std::byte* to, std::size_t bytes) = 0;
  virtual bool done(Request request) = 0;  // true once; the request is gone then
  // The next message on a channel, from anybody: its sender and size. False: none is there.
  virtual bool next(int channel, int& from, std::size_t& bytes) = 0;

  // Everybody has come here; only at the beginning and the end, with no request open.
  virtual void meet() = 0;
  // The run ended well, everywhere.
  virtual void leave() = 0;
};

// Channels of a run: its communicators use two each, from `channels_of` on.
enum Channel : int { control = 0, gather = 1, first_of_communicators = 2 };

}  // namespace stepcast::runtime
