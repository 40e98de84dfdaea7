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
//   * The platform is sealed for good when the first run begins: one platform a process.
//
// Cost: 20 us a message with 1,000 in flight, 1.5 us with 100 that share nothing. Tested through
// tests/unit/engines/messages_test.cpp.

#include "sim/engines/message_carrier.hpp"
#include "sim/engines/messages.hpp"

namespace simgrid::s4u {
class NetZone;
}

namespace stepcast {

class SimgridFlows final : public MessageCarrier {
 public:
  // False where SimGrid already lives in this process.
  static bool possible();
  // When SimGrid's engine was made, and before it has a zone.
  static void configure();

  // Before the first run: a zone of its own below `parent`, or the root.
  SimgridFlows(const std::vector<MessageLink>& links,
               const std::vector<MessageConnection>& connections,
               simgrid::s4u::NetZone* parent = nullptr);
  SimgridFlows(const SimgridFlows&) = delete;
  SimgridFlows& operator=(const SimgridFlows&) = delete;

  void listen(Listener& listener) override;
  void start(int connection, double bytes) override;
  void after(Seconds latency, int connection) override;

 private:
  struct Platform;
  Platform* platform_;  // never destroyed: SimGrid keeps its addresses
};

}  // namespace stepcast
