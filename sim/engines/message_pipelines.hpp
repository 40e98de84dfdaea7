#pragma once
// A collective as messages that become ready one after the other: what may be sent when, with no
// word on how long it takes. Rules and an example: the head of message_pipelines.cpp.
// Internal to sim/engines. Tested by tests/unit/engines/messages_test.cpp.

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/engines/messages.hpp"

namespace stepcast {

struct Message {
  int pipeline = 0;  // a number of the caller's
  int place = 0;     // position in the ring, in the chain; 2 * rank + (1: down) in the tree
  std::int64_t round = 0;
  int step = 0;
  double bytes = 0;
};

// Where pipelines hand in what may be sent.
class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void ready(int connection, const Message& message) = 0;
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual void begin(Outbox& out) = 0;
  virtual void arrived(const Message& message, Outbox& out) = 0;
  virtual std::int64_t messages() const = 0;
};

// One for each ring, tree and chain of the collective, which must outlive them; their messages are
// numbered from `first` on.
std::vector<std::unique_ptr<Pipeline>> pipelines_of(const MessageCollective& of, int first);

}  // namespace stepcast
