#pragma once
// The messages engine: collectives as the messages that their ranks send, one by one, over links
// that SimGrid shares. A second opinion on closed forms: it knows neither NCCL nor machines, only
// connections, the links that each crosses, and who waits for whom.
//
//   MessagesInput in;                                   // two ranks, one channel, 20 GB/s each way
//   in.links = {{20}, {20}};
//   in.connections = {{{0}, 10e-6}, {{1}, 10e-6}};      // 0 -> 1 and 1 -> 0, 10 us a message
//   in.collectives = {{MessagesOp::all_reduce, 2, 8e6, {{{0, 1}, 1.0, 1e6}}, {}}};
//   simulate_messages(in).seconds
//
// How a collective becomes messages is told in message_pipelines.cpp; the example is worked out
// there. docs/engines.md says what it costs and where it differs from the closed form. Tested by
// tests/unit/engines/messages_test.cpp by hand.

#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace stepcast {

enum class MessagesOp : std::uint8_t { all_reduce, all_gather, reduce_scatter };

// One direction. All that crosses it at a time shares it max-min fairly.
struct MessageLink {
  double gbps = 0;  // GB/s
};

// A sender's way to one receiver: its messages go one after the other, in the order in which they
// got ready. A message is there `latency` after its last byte left; the next does not wait for it.
struct MessageConnection {
  std::vector<int> links;  // into MessagesInput::links
  Seconds latency = 0;
};

// Ranks in the order of the ring; connections[i] leads from its i-th rank to the next.
struct MessageRing {
  std::vector<int> connections;
  double share = 1;        // of the collective's bytes
  double chunk_bytes = 0;  // the most that one message carries
  int window = 2;          // loops (one chunk for every rank) that a rank has under way
};

// All-reduce up a tree to its root and down again, both at the same time. Its places may be more or
// fewer than ranks: below an NVSwitch that reduces, all GPUs of a node are one.
struct MessageTree {
  std::vector<int> parent;  // by place of the tree; -1: the root
  std::vector<int> up;      // connection to the parent, -1 at the root
  std::vector<int> down;    // connection from the parent, -1 at the root
  double share = 1;
  double chunk_bytes = 0;
  int window = 8;  // chunks that a leaf has under way to its parent
};

// Chunks that take one connection after the other.
struct MessageChain {
  std::vector<int> connections;
  double share = 1;
  double chunk_bytes = 0;
  int window = 8;  // chunks under way on the first connection
};

struct MessageCollective {
  MessagesOp op = MessagesOp::all_reduce;  // of rings: how often a chunk goes around
  int ranks = 2;                           // of rings
  double bytes = 0;                        // the tensor; gathered; unreduced
  std::vector<MessageRing> rings;
  std::vector<MessageTree> trees;  // all_reduce only
  std::vector<MessageChain> chains = {};
};

struct MessagesInput {
  std::vector<MessageLink> links;
  std::vector<MessageConnection> connections;
  std::vector<MessageCollective> collectives;  // all begin at 0
};

struct MessagesResult {
  std::vector<Seconds> ends;  // of each collective
  Seconds seconds = 0;        // the last of them
  std::int64_t messages = 0;
};

// Messages that a run would send: known at once, and what it costs is in proportion.
std::int64_t count_messages(const MessagesInput& input);
std::int64_t count_messages(const MessageCollective& collective);

// Runs in a process of its own (SimGrid's platform cannot be changed once it ran), so any number of
// runs may follow each other. Not after a run of the fluid engine in this process: its SimGrid is
// set up for other things, and std::runtime_error says so.
MessagesResult simulate_messages(const MessagesInput& input);

}  // namespace stepcast
