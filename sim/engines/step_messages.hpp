#pragma once
// Whole steps by messages: every rank has its own streams, and each collective is the messages that
// its ranks send over links which SimGrid shares. The second opinion on the fluid engine: it sees
// links one by one, so what is odd about one of them, and what two collectives do to each other on
// it; it folds nothing, so it costs ranks.
//
// As in the fluid engine kernels share SMs and memory, and a collective holds its part of both from
// when its last rank came (and while the first ones wait). Its own pace is that of its messages
// alone: kernels beside it do not slow it down.
//
// The run has a process of its own (child_process.hpp) and cannot follow one of the fluid engine.
// Cost: docs/engines.md. Tested by tests/unit/engines/step_messages_test.cpp by hand and
// tests/unit/forecast/step_by_messages_test.cpp against the fluid engine.

#include <memory>
#include <vector>

#include "sim/engines/engine.hpp"
#include "sim/engines/messages.hpp"

namespace stepcast {

// What the collectives of a schedule are as messages. Each op of a collective of one communicator
// names the same.
struct StepMessages {
  struct Carried {
    MessageCollective collective;
    Seconds before = 0;  // from its beginning to its first message
  };
  std::vector<MessageLink> links;
  std::vector<MessageConnection> connections;
  std::vector<Carried> collectives;
  // [role][step program][op]: into collectives; -1: takes the time that the cost table says
  std::vector<std::vector<std::vector<std::int32_t>>> of_op;
};

// Of messages in one run of each role's step program `program`; a run of several programs sends
// several times as many.
std::int64_t count_messages(const StepMessages& messages, int program);

// An engine for the one schedule that the messages are of.
std::unique_ptr<Engine> make_messages_engine(StepMessages messages);

}  // namespace stepcast
