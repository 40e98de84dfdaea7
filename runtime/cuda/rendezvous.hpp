#pragma once
// How the processes of a GPU run find each other, and how a failure of one ends all: one TCP
// connection from every rank to a server in rank 0's process, open for the whole run.
//
//   exchange   every rank gives bytes, all get everybody's: NCCL's unique id, names of GPUs,
//   results stand      where a rank stands, told now and then (standing.hpp) fail       this rank
//   cannot go on: the server tells all, which abort
//
// NCCL waits for a missing peer for ever, on the GPU, where no host can see who it is. So the
// server watches: when no rank's standing has changed for `watchdog` seconds, or a connection has
// ended without goodbye, it says to all who is missing at which collective. Who no longer hears the
// server, which speaks every second or oftener, ends by itself.
//
// A job may meet again and again on one port (a calibration is many runs). Ranks are not equally
// fast: one that comes to meeting 4 while the server of meeting 3 still waits for the last goodbye
// is turned away without a word, and knocks again until it is welcome.
//
// Cost: a few hundred bytes a rank and change, at most 20 a second. A server for 1,000 ranks has
// 1,000 threads that sleep. Tested by tests/unit/cuda/rendezvous_test.cpp, over loopback.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/frame.hpp"
#include "runtime/cuda/standing.hpp"

namespace stepcast::runtime {

struct Failure {
  bool hang = false;  // nobody goes on; else something broke
  std::string message;
};

class RendezvousServer {
 public:
  using Explain = std::function<std::string(const std::vector<RankStanding>&)>;
  struct Options {
    int port = 0;  // 0: a free one
    int ranks = 1;
    Seconds watchdog = 30;   // without progress of a run
    Seconds patience = 300;  // for ranks that have not come to an exchange, nor ever
    int meeting = 0;         // of this job, counted alike by all ranks
  };
  RendezvousServer(const Options& options, Explain explain);
  ~RendezvousServer();
  int port() const { return listener_.port(); }

 private:
  struct Member {
    std::shared_ptr<Connection> connection;
    RankStanding standing;
    bool stood = false;
    bool left = false;
    std::uint32_t exchanges = 0;  // given
  };
  struct Exchange {
    std::string name;
    std::vector<std::string> given;
    int count = 0;
  };
  using Clock = std::chrono::steady_clock;

  void accept_all();
  void serve(const std::shared_ptr<Connection>& connection);
  bool of_another_meeting(const Frame& hello) const;
  bool admit(const std::shared_ptr<Connection>& connection, const Frame& hello);
  void give(int rank, const Frame& frame);
  void watch();
  void fail(const Failure& failure);  // with the lock held
  void tell(const Member& member) const;
  std::string what_is_waited_for() const;

  Options options_;
  Explain explain_;
  Listener listener_;
  mutable std::mutex mutex_;
  std::condition_variable ending_;
  bool end_ = false;
  std::optional<Failure> failure_;
  std::vector<Member> members_;
  int come_ = 0;
  std::string agreement_;
  std::map<std::uint32_t, Exchange> exchanges_;
  Clock::time_point last_change_;
  Clock::time_point gone_at_{};
  bool somebody_gone_ = false;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<std::thread> serving_;
  std::thread accepting_, watching_;
};

class Rendezvous {
 public:
  struct Options {
    int rank = 0;
    int ranks = 1;
    std::string address = "127.0.0.1";
    int port = 0;
    // What all ranks must agree on, as "what it is: value".
    std::string agreement;
    Seconds watchdog = 30;
    Seconds patience = 300;
    int meeting = 0;
  };
  // Connects. Throws GpuError when nobody answers.
  explicit Rendezvous(const Options& options);
  // Says goodbye.
  ~Rendezvous();

  // By rank, what everybody gave. Ranks call it in the same order; `name` is for messages. Throws
  // Hang or GpuError when the run has failed meanwhile.
  std::vector<std::string> exchange(const std::string& name, const std::string& mine);
  void stand(const RankStanding& standing);
  void fail(const Failure& failure);
  bool failed();
  Failure failure();
  [[noreturn]] void throw_failure();

 private:
  bool knock(Seconds within);
  void listen();
  void keep(const Failure& failure);

  Options options_;
  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::condition_variable heard_;
  std::map<std::uint32_t, std::vector<std::string>> answers_;
  std::uint32_t exchanges_ = 0;
  std::atomic<bool> failed_{false};
  std::atomic<bool> leaving_{false};
  Failure failure_;
  std::atomic<std::chrono::steady_clock::time_point> last_heard_;
  std::thread listening_;
};

}  // namespace stepcast::runtime
