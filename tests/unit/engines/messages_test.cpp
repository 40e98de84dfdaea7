// Collectives message by message, worked out by hand.

#include "sim/engines/messages.hpp"

#include <doctest/doctest.h>

namespace stepcast::testing {
namespace {

constexpr double us = 1e-6;

// n ranks around one ring, each hop a link of its own.
MessagesInput ring_of(MessagesOp op, int n, double bytes, double gbps, double latency_us,
                      double chunk, int window) {
  MessagesInput in;
  MessageRing ring;
  for (int i = 0; i < n; ++i) {
    in.links.push_back({gbps});
    in.connections.push_back({{i}, latency_us * us});
    ring.connections.push_back(i);
  }
  ring.chunk_bytes = chunk;
  ring.window = window;
  in.collectives.push_back({op, n, bytes, {ring}, {}});
  return in;
}

// n ranks in a chain with rank 0 on top.
MessagesInput chain_of(int n, double bytes, double gbps, double latency_us, double chunk) {
  MessagesInput in;
  MessageTree tree;
  tree.chunk_bytes = chunk;
  for (int i = 0; i < n; ++i) {
    tree.parent.push_back(i - 1);
    tree.up.push_back(i == 0 ? -1 : 2 * (i - 1));
    tree.down.push_back(i == 0 ? -1 : 2 * (i - 1) + 1);
    if (i == 0) continue;
    for (int direction = 0; direction < 2; ++direction) {
      in.connections.push_back({{static_cast<int>(in.links.size())}, latency_us * us});
      in.links.push_back({gbps});
    }
  }
  in.collectives.push_back({MessagesOp::all_reduce, n, bytes, {}, {tree}});
  return in;
}

TEST_CASE("Two ranks, one channel, 8 MB in four loops of 1 MB chunks: 480 us, or 410 with slots") {
  // 1 MB at 20 GB/s is 50 us, a message 10 us more. One loop at a time: 4 * 2 * 60. Two: the link
  // never waits, 8 * 50, and the last message's 10.
  const MessagesInput one = ring_of(MessagesOp::all_reduce, 2, 8e6, 20, 10, 1e6, 1);
  CHECK(count_messages(one) == 4 * 2 * 2);
  CHECK(simulate_messages(one).seconds == doctest::Approx(480 * us).epsilon(1e-6));
  const MessagesInput two = ring_of(MessagesOp::all_reduce, 2, 8e6, 20, 10, 1e6, 2);
  CHECK(simulate_messages(two).seconds == doctest::Approx(410 * us).epsilon(1e-6));
}

TEST_CASE("A ring of one loop takes steps * (latency + bytes / ranks / rate)") {
  // 4 ranks, 4 MB, 1 MB a step: 50 + 5 us. All-reduce 6 steps, the others 3.
  const auto time = [](MessagesOp op) {
    return simulate_messages(ring_of(op, 4, 4e6, 20, 5, 2e6, 2)).seconds;
  };
  CHECK(time(MessagesOp::all_reduce) == doctest::Approx(6 * 55 * us).epsilon(1e-6));
  CHECK(time(MessagesOp::all_gather) == doctest::Approx(3 * 55 * us).epsilon(1e-6));
  CHECK(time(MessagesOp::reduce_scatter) == doctest::Approx(3 * 55 * us).epsilon(1e-6));
}

TEST_CASE("One slow link paces the whole ring, the closed form's slowest link") {
  // 4 ranks, all-gather of 4 MB: three steps of 1 MB. Link 0 at 10 GB/s (100 us a message), the
  // others 50 us, no latency. Link 0 sends three messages without a break: 300 us; the last one of
  // them has gone its three hops, so nothing comes after. But its third message had to be there:
  // it is step 2, which came over links 2 and 3 by 100 us.
  MessagesInput in = ring_of(MessagesOp::all_gather, 4, 4e6, 20, 0, 2e6, 2);
  in.links[0].gbps = 10;
  CHECK(simulate_messages(in).seconds == doctest::Approx(300 * us).epsilon(1e-6));
}

TEST_CASE("A chain of three reduces up and broadcasts down, chunks following each other") {
  // 4 hops of 50 + 5 us for the first chunk of 1 MB; the other three follow, 50 us each.
  const MessagesInput in = chain_of(3, 4e6, 20, 5, 1e6);
  CHECK(count_messages(in) == 4 * 4);
  CHECK(simulate_messages(in).seconds == doctest::Approx((4 * 55 + 3 * 50) * us).epsilon(1e-6));
  // One chunk only: four hops of 4 MB.
  const MessagesInput whole = chain_of(3, 4e6, 20, 5, 4e6);
  CHECK(simulate_messages(whole).seconds == doctest::Approx(4 * 205 * us).epsilon(1e-6));
}

TEST_CASE("A chunk goes up only when it came from both children") {
  // Root 0 with children 1 (20 GB/s) and 2 (10 GB/s), one chunk of 1 MB: up 50 and 100, down from
  // 100: 150 and 200.
  MessagesInput in;
  in.links = {{20}, {20}, {10}, {10}};
  in.connections = {{{0}, 0}, {{1}, 0}, {{2}, 0}, {{3}, 0}};
  MessageTree tree;
  tree.parent = {-1, 0, 0};
  tree.up = {-1, 0, 2};
  tree.down = {-1, 1, 3};
  tree.chunk_bytes = 1e6;
  in.collectives.push_back({MessagesOp::all_reduce, 3, 1e6, {}, {tree}});
  CHECK(simulate_messages(in).seconds == doctest::Approx(200 * us).epsilon(1e-6));
}

TEST_CASE("Two collectives over one link take twice as long as over two") {
  // Two pairs of ranks, 4 MB each, all-gather: one step of 2 MB, 100 us at 20 GB/s.
  MessagesInput in;
  in.links = {{20}, {20}, {20}, {20}};
  MessageRing first, second;
  first.chunk_bytes = second.chunk_bytes = 2e6;
  first.connections = {0, 1};
  second.connections = {2, 3};
  in.connections = {{{0}, 0}, {{1}, 0}, {{2}, 0}, {{3}, 0}};
  in.collectives.push_back({MessagesOp::all_gather, 2, 4e6, {first}, {}});
  in.collectives.push_back({MessagesOp::all_gather, 2, 4e6, {second}, {}});
  CHECK(simulate_messages(in).seconds == doctest::Approx(100 * us).epsilon(1e-6));
  in.connections[2].links = {0};
  in.connections[3].links = {1};
  const MessagesResult shared = simulate_messages(in);
  CHECK(shared.ends[0] == doctest::Approx(200 * us).epsilon(1e-6));
  CHECK(shared.ends[1] == doctest::Approx(200 * us).epsilon(1e-6));
}

TEST_CASE("A trickle of a last loop is as long as it is") {
  // 2 ranks, all-gather of 5 MB in chunks of 1 MB: loops of 2, 2 and 1 MB: 50, 50 and 25 us.
  const MessagesInput in = ring_of(MessagesOp::all_gather, 2, 5e6, 20, 0, 1e6, 2);
  CHECK(count_messages(in) == 3 * 2);
  CHECK(simulate_messages(in).seconds == doctest::Approx(125 * us).epsilon(1e-6));
}

}  // namespace
}  // namespace stepcast::testing
