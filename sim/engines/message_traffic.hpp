#pragma once
// Collectives under way: their pipelines, a queue of what is ready for each connection, and what is
// on its way. Whoever carries the bytes (SimGrid's network) is behind MessageCarrier.
//
// Internal to sim/engines. Tested by tests/unit/engines/messages_test.cpp.

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sim/engines/message_carrier.hpp"
#include "sim/engines/message_pipelines.hpp"
#include "sim/engines/messages.hpp"

namespace stepcast {

class MessageTraffic final : private Outbox, private MessageCarrier::Listener {
 public:
  // `ended` is told the number that begin() was given, from within the carrier's run.
  using Ended = std::function<void(int)>;
  MessageTraffic(const std::vector<MessageConnection>& connections, MessageCarrier& carrier,
                 Ended ended);
  ~MessageTraffic() override;
  MessageTraffic(const MessageTraffic&) = delete;
  MessageTraffic& operator=(const MessageTraffic&) = delete;

  // The collective must stay where it is until it has ended.
  void begin(const MessageCollective& collective, int number);
  // Collectives that have not ended.
  int under_way() const { return under_way_; }

 private:
  struct Wire {
    bool busy = false;
    std::deque<Message> queue;      // ready; the front is on the wire when busy
    std::deque<Message> under_way;  // sent, not there yet: they come in order
  };
  struct Running {
    std::unique_ptr<Pipeline> pipeline;  // null: it has ended
    int collective = 0;                  // into begun_
  };
  struct Begun {
    int number = 0;
    std::int64_t left = 0;  // messages
    int first = 0;          // of its pipelines
    int count = 0;
  };

  void ready(int connection, const Message& message) override;
  void next(int connection);
  void flow_ended(int connection) override;
  void latency_over(int connection) override;
  void arrive(const Message& message);

  const std::vector<MessageConnection>& connections_;
  MessageCarrier& carrier_;
  Ended ended_;
  std::vector<Wire> wires_;
  std::vector<Running> pipelines_;  // of all that ever began
  std::vector<Begun> begun_;
  int under_way_ = 0;
};

}  // namespace stepcast
