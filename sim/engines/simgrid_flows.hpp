#pragma once
// SimGrid's network behind a small door: messages on a platform of hosts and links, and bells.
//
// Each connection is a host of a star zone whose way to the common sink is the connection's list of
// links. So routes cost what they are long, not the square of the hosts.
//
// What SimGrid 3.32 makes us do:
//   * network/model CM02 without cross traffic and without TCP's window: its default model takes
//     8 % of the bandwidth and halves two-way traffic.
//   * Latency is the caller's (a bell): CM02 would divide a link in inverse proportion to it.
//   * A message is created when it may start; no actors, ends are received in the main loop.
//   * The platform is sealed for good when the first run begins: one run a process.
//
// Cost: 20 us a message with 1,000 in flight, 1.5 us with 100 that share nothing. Tested through
// tests/unit/engines/messages_test.cpp.

#include "sim/engines/messages.hpp"

namespace stepcast {

class SimgridFlows {
 public:
  // Told what happens, from within run(). May start messages and set bells; must not throw.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void flow_ended(int connection) = 0;
    virtual void bell(std::int64_t id) = 0;
  };

  // False where SimGrid already lives in this process.
  static bool possible();

  SimgridFlows(const MessagesInput& input, Listener& listener);
  ~SimgridFlows();
  SimgridFlows(const SimgridFlows&) = delete;
  SimgridFlows& operator=(const SimgridFlows&) = delete;

  void start(int connection, double bytes);  // one at a time on a connection
  void ring_at(Seconds time, std::int64_t id);
  void run();
  Seconds now() const;

 private:
  struct Platform;
  Platform* platform_;  // never destroyed: SimGrid keeps its addresses
};

}  // namespace stepcast
