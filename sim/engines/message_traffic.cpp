#include "sim/engines/message_traffic.hpp"

#include <utility>

#include "base/error.hpp"
#include "sim/engines/constraint.hpp"

namespace stepcast {

MessageTraffic::MessageTraffic(const std::vector<MessageConnection>& connections,
                               MessageCarrier& carrier, Ended ended)
    : connections_(connections),
      carrier_(carrier),
      ended_(std::move(ended)),
      wires_(connections.size()) {
  carrier_.listen(*this);
}

MessageTraffic::~MessageTraffic() = default;

void MessageTraffic::begin(const MessageCollective& collective, int number) {
  Begun of;
  of.number = number;
  of.first = static_cast<int>(pipelines_.size());
  const int index = static_cast<int>(begun_.size());
  for (std::unique_ptr<Pipeline>& each : pipelines_of(collective, of.first)) {
    of.left += each->messages();
    ++of.count;
    pipelines_.push_back({std::move(each), index});
  }
  STEPCAST_ASSERT(of.left > 0, "a collective without messages");
  begun_.push_back(of);
  ++under_way_;
  for (int i = of.first; i < of.first + of.count; ++i) pipelines_[at(i)].pipeline->begin(*this);
}

void MessageTraffic::ready(int connection, const Message& message) {
  Wire& wire = wires_[at(connection)];
  wire.queue.push_back(message);
  if (!wire.busy) next(connection);
}

void MessageTraffic::next(int connection) {
  Wire& wire = wires_[at(connection)];
  wire.busy = !wire.queue.empty();
  if (wire.busy) carrier_.start(connection, wire.queue.front().bytes);
}

void MessageTraffic::flow_ended(int connection) {
  Wire& wire = wires_[at(connection)];
  const Message sent = wire.queue.front();
  wire.queue.pop_front();
  const Seconds latency = connections_[at(connection)].latency;
  if (latency > 0) {
    wire.under_way.push_back(sent);
    carrier_.after(latency, connection);
  } else {
    arrive(sent);  // what it makes ready here waits for next(): the wire still counts as busy
  }
  next(connection);
}

void MessageTraffic::latency_over(int connection) {
  Wire& wire = wires_[at(connection)];
  const Message message = wire.under_way.front();
  wire.under_way.pop_front();
  arrive(message);
}

void MessageTraffic::arrive(const Message& message) {
  const Running& of = pipelines_[at(message.pipeline)];
  of.pipeline->arrived(message, *this);
  Begun& collective = begun_[at(of.collective)];
  if (--collective.left > 0) return;
  for (int i = collective.first; i < collective.first + collective.count; ++i) {
    pipelines_[at(i)].pipeline.reset();
  }
  --under_way_;
  ended_(collective.number);
}

}  // namespace stepcast
