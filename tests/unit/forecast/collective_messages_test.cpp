// The closed forms of collectives against the same collectives message by message.

#include "sim/forecast/collective_messages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.hpp"

namespace stepcast::testing {
namespace {

constexpr double mib = 1048576;

struct Shape {
  const char* machine;
  int gpus;
  int gpus_per_node;  // 0: all
};

CollectiveMessages messages_of(const Shape& on, CollectiveKind kind, NcclAlgorithm algorithm,
                               double bytes, NcclProtocol protocol = NcclProtocol::simple) {
  const Cluster cluster =
      make_cluster(load_machine(on.machine), {.gpus = on.gpus, .gpus_per_node = on.gpus_per_node});
  return collective_messages(cluster, {.replicate = on.gpus, .shard = 1}, Axis::world,
                             {kind, algorithm, bytes, protocol});
}

// Messages over closed form, less 1, in percent.
double difference(const Shape& on, CollectiveKind kind, NcclAlgorithm algorithm, double bytes,
                  NcclProtocol protocol = NcclProtocol::simple) {
  const CollectiveMessages m = messages_of(on, kind, algorithm, bytes, protocol);
  CAPTURE(on.machine);
  CAPTURE(on.gpus);
  CAPTURE(on.gpus_per_node);
  CAPTURE(bytes / mib);
  const double percent = 100 * ((m.base + simulate_messages(m.input).seconds) / m.closed_form - 1);
  MESSAGE(std::string(on.machine), " ", on.gpus, " ranks, ", m.nodes, " nodes, ", bytes / mib,
          " MiB: ", percent, " %");
  return percent;
}

const Shape shapes[] = {{"dgx-h100", 2, 0},  {"dgx-h100", 3, 0},  {"dgx-h100", 8, 0},
                        {"dgx-h100", 16, 0}, {"dgx-h100", 64, 0}, {"dgx-h100", 2, 1},
                        {"dgx-h100", 3, 1},  {"dgx-h100", 16, 1}, {"dgx-h100", 64, 1},
                        {"dgx-h100", 8, 4},  {"dgx-h100", 24, 0}, {"dgx-a100", 8, 0},
                        {"dgx-a100", 16, 0}, {"dgx-a100", 24, 0}, {"dgx-a100", 64, 0}};

void check_rings(CollectiveKind kind) {
  for (const Shape& on : shapes) {
    for (const double bytes : {4 * mib, 64 * mib, 1024 * mib}) {
      const double percent = difference(on, kind, NcclAlgorithm::ring, bytes);
      CHECK(percent > -0.01);
      CHECK(percent < 0.01);
    }
  }
}

}  // namespace

TEST_CASE("messages of a ring all-reduce take what the closed form says from 4 MiB") {
  check_rings(CollectiveKind::all_reduce);
}

TEST_CASE("messages of a ring all-gather take what the closed form says from 4 MiB") {
  check_rings(CollectiveKind::all_gather);
}

TEST_CASE("messages of a ring reduce-scatter take what the closed form says from 4 MiB") {
  check_rings(CollectiveKind::reduce_scatter);
}

TEST_CASE("messages: two loops hide all latencies but one, and the closed form knows") {
  // 8 nodes of one GPU, two channels: 32 MiB a channel are two loops of 8 chunks of 2 MiB, so while
  // a message is on its way the other loop's goes out: of 14 latencies of 14 us one is seen.
  const Shape on{"dgx-h100", 8, 1};
  const CollectiveMessages m =
      messages_of(on, CollectiveKind::all_reduce, NcclAlgorithm::ring, 64 * mib);
  CHECK(m.closed_form - m.base - m.slowest_link == doctest::Approx(14e-6).epsilon(1e-6));
  CHECK(simulate_messages(m.input).seconds ==
        doctest::Approx(m.closed_form - m.base).epsilon(1e-6));
  // Half of it is one loop, with nothing beside it.
  const CollectiveMessages alone =
      messages_of(on, CollectiveKind::all_reduce, NcclAlgorithm::ring, 32 * mib);
  CHECK(alone.closed_form - alone.base - alone.slowest_link ==
        doctest::Approx(14 * 14e-6).epsilon(1e-6));
}

TEST_CASE("messages of a double tree are within 5 % of the closed form from 4 MiB, but for some") {
  // Those have a few chunks under way, or two or three nodes of eight, whose chains share links
  // that are all full at once: docs/engines.md.
  for (const Shape& on : shapes) {
    const bool few_full_nodes = (on.gpus == 16 || on.gpus == 24) && on.gpus_per_node == 0;
    const bool three = on.gpus == 3;
    for (const double bytes : {4 * mib, 16 * mib, 64 * mib, 256 * mib}) {
      if (bytes > 64 * mib && on.gpus == 64) continue;  // seconds
      const double percent = difference(on, CollectiveKind::all_reduce, NcclAlgorithm::tree, bytes);
      const bool few = bytes == 64 * mib || (bytes == 16 * mib && three);
      CHECK(percent > -5);
      CHECK(percent < (few_full_nodes ? 15 : few ? 8 : 5));
    }
  }
}

TEST_CASE("messages through an NVSwitch that reduces take what the closed form says from 4 MiB") {
  for (const double bytes : {4 * mib, 16 * mib, 64 * mib, 256 * mib, 1024 * mib}) {
    for (const int gpus : {2, 4, 8}) {
      for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                        CollectiveKind::reduce_scatter}) {
        const double percent = difference({"dgx-h100", gpus, 0}, kind, NcclAlgorithm::nvls, bytes);
        CHECK(percent > -0.01);
        CHECK(percent < 0.01);
      }
    }
    for (const int gpus : {16, 64}) {
      if (bytes > 64 * mib && gpus == 64) continue;  // seconds
      const double percent = difference({"dgx-h100", gpus, 0}, CollectiveKind::all_reduce,
                                        NcclAlgorithm::nvls_tree, bytes);
      CHECK(percent > -5);
      CHECK(percent < 5);
    }
  }
}

TEST_CASE("messages with flags in them take longer by their flags") {
  // 8 ranks on one node, 1 MiB: LL sends 8 bytes for 4, LL128 128 for 120.
  for (const NcclProtocol protocol : {NcclProtocol::ll, NcclProtocol::ll128}) {
    for (const Shape& on : {Shape{"dgx-h100", 8, 0}, Shape{"dgx-h100", 16, 0},
                            Shape{"dgx-a100", 8, 0}, Shape{"dgx-h100", 16, 1}}) {
      for (const double bytes : {0.25 * mib, 1 * mib, 4 * mib, 16 * mib}) {
        const double ring =
            difference(on, CollectiveKind::all_reduce, NcclAlgorithm::ring, bytes, protocol);
        CHECK(ring > -0.01);
        CHECK(ring < 0.01);
      }
    }
  }
  // Two loops on eight nodes: what a crossing takes more than the other loop's chunk (1.3 us) is
  // made up on the seven hops behind it, which take less.
  const double two_loops = difference({"dgx-h100", 64, 0}, CollectiveKind::all_reduce,
                                      NcclAlgorithm::ring, 32 * mib, NcclProtocol::ll);
  CHECK(std::abs(two_loops) < 0.01);
  const auto wire = [](NcclProtocol protocol) {
    return messages_of({"dgx-h100", 8, 0}, CollectiveKind::all_reduce, NcclAlgorithm::ring, mib,
                       protocol)
        .slowest_link;
  };
  CHECK(wire(NcclProtocol::ll) == doctest::Approx(2 * wire(NcclProtocol::simple)));
  CHECK(wire(NcclProtocol::ll128) == doctest::Approx(128.0 / 120 * wire(NcclProtocol::simple)));
}

TEST_CASE("messages load the links of the nodes as the fluid engine says") {
  // By NICs that NCCL takes for 48 GB/s. On three nodes the busiest sends 1.5 S by double tree:
  // tree 1 is 0 - 2 - 1, node 2 sends half of S up and half down; tree 2, shifted by one, is 1 - 0
  // - 2, where node 2 is a leaf.
  for (const Shape& on : {Shape{"dgx-h100", 3, 1}, Shape{"dgx-h100", 16, 1}}) {
    const double bytes = 1024 * mib;
    const CollectiveMessages m =
        messages_of(on, CollectiveKind::all_reduce, NcclAlgorithm::tree, bytes);
    const double sends = on.gpus == 3 ? 1.5 : 2;
    CHECK(m.slowest_link == doctest::Approx(sends * bytes / 48e9).epsilon(1e-6));
    CHECK(simulate_messages(m.input).seconds == doctest::Approx(m.closed_form).epsilon(0.01));
  }
}

TEST_CASE("messages: replica groups on four NICs of a node take twice as long as on eight") {
  // 2 nodes of 8, 8 groups of two ranks, 64 MiB each: one NIC of 50 GB/s a group, by nature, and
  // 12.5 GB/s on a machine with 4 NICs of 100 Gb/s, of two groups each.
  const auto seconds = [](const std::string& machine, double nic_gbps) {
    const Cluster cluster = make_cluster(load_machine(machine), {.nodes = 2, .nic_gbps = nic_gbps});
    const CollectiveMessages m =
        collective_messages(cluster, {.replicate = 2, .shard = 8}, Axis::replicate,
                            {CollectiveKind::all_reduce, NcclAlgorithm::ring, 64 * mib});
    CHECK(m.communicators == 8);
    const MessagesResult result = simulate_messages(m.input);
    // Every group is done at the same time, and all as the loads of fluid's links say.
    for (const Seconds end : result.ends) CHECK(end == doctest::Approx(result.seconds));
    CHECK(m.base + result.seconds == doctest::Approx(m.closed_form).epsilon(0.02));
    return result.seconds;
  };
  const double four = seconds("hgx-a100-4x100g", 12.5);
  const double eight = seconds("dgx-a100", 12.5);
  CHECK(four / eight == doctest::Approx(2).epsilon(0.02));
}

TEST_CASE("messages: how long a run takes grows with the messages and with those under way") {
  // Known before anything is sent. 8 ranks: 4 times the bytes, 4 times the time. 16 times the
  // ranks: 32 KiB a chunk, so nearly as many loops, 16 times the messages, each dearer.
  const auto seconds = [](int gpus, double bytes) {
    return messages_wall_seconds(messages_of({"dgx-h100", gpus, 0}, CollectiveKind::all_reduce,
                                             NcclAlgorithm::ring, bytes, NcclProtocol::ll)
                                     .input);
  };
  const double few = seconds(8, 128 * mib);
  CHECK(seconds(8, 512 * mib) == doctest::Approx(4 * few).epsilon(0.02));
  CHECK(seconds(128, 128 * mib) > 16 * few);
  CHECK(few < 1);
}

TEST_CASE("messages: what is not known is refused") {
  CHECK_THROWS_AS(
      messages_of({"dgx-h100", 8, 0}, CollectiveKind::all_gather, NcclAlgorithm::tree, mib),
      InputError);
  // No NVSwitch that reduces; several nodes, where NCCL has none without SHARP; one protocol alone.
  CHECK_THROWS_AS(
      messages_of({"dgx-a100", 8, 0}, CollectiveKind::all_reduce, NcclAlgorithm::nvls, mib),
      InputError);
  CHECK_THROWS_AS(
      messages_of({"dgx-h100", 16, 0}, CollectiveKind::all_reduce, NcclAlgorithm::nvls, mib),
      InputError);
  CHECK_THROWS_AS(messages_of({"dgx-h100", 8, 0}, CollectiveKind::all_reduce, NcclAlgorithm::nvls,
                              mib, NcclProtocol::ll),
                  InputError);
  CHECK_THROWS_AS(
      messages_of({"dgx-h100", 12, 0}, CollectiveKind::all_reduce, NcclAlgorithm::ring, mib),
      InputError);
}

}  // namespace stepcast::testing
