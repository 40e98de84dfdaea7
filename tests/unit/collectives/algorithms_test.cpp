// The cost sheet of docs/collectives.md, worked out by hand.

#include "sim/collectives/algorithms.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

AlgorithmCost of(Algorithm algorithm, CollectiveKind kind, int ranks, double size,
                 const StepRates& rates) {
  for (const AlgorithmCost& cost : compare_algorithms(kind, ranks, size, rates)) {
    if (cost.algorithm == algorithm) return cost;
  }
  FAIL("no such algorithm");
  return {};
}

// One node: 10 us a step, 100 GB/s. Two: 20 us and 50 GB/s a node, 25 GB/s a NIC.
const StepRates one{1, 5, 10, 0, 100, 0, 0};
const StepRates two{2, 5, 10, 20, 100, 50, 25};

}  // namespace

TEST_CASE("all-reduce of 1 GB on 8 GPUs of one node") {
  const auto cost = [](Algorithm a) { return of(a, CollectiveKind::all_reduce, 8, 1e9, one); };
  // Centralised: the primary takes in 7 GB, gives out 7 GB: 70 ms each way, two steps.
  CHECK(cost(Algorithm::centralised).bytes_sent == 7e9);
  CHECK(cost(Algorithm::centralised).growth == "N");
  CHECK(cost(Algorithm::centralised).seconds == doctest::Approx(5e-6 + 2 * 10e-6 + 140e-3));
  // Ring: 14 steps, 1.75 GB at 100 GB/s.
  CHECK(cost(Algorithm::ring).steps == 14);
  CHECK(cost(Algorithm::ring).bytes_sent == 1.75e9);
  CHECK(cost(Algorithm::ring).seconds == doctest::Approx(5e-6 + 140e-6 + 17.5e-3));
  // Tree: on one node a chain, 7 up and 7 down.
  CHECK(cost(Algorithm::tree).steps == 14);
  CHECK(cost(Algorithm::tree).seconds == doctest::Approx(5e-6 + 140e-6 + 20e-3));
  // Recursive doubling: 3 exchanges of 1 GB.
  CHECK(cost(Algorithm::recursive_doubling).steps == 3);
  CHECK(cost(Algorithm::recursive_doubling).bytes_sent == 3e9);
  CHECK(cost(Algorithm::recursive_doubling).seconds == doctest::Approx(5e-6 + 30e-6 + 30e-3));
  // Halving-doubling: 6 exchanges of 1/2, 1/4, 1/8 and back: 1.75 GB.
  CHECK(cost(Algorithm::halving_doubling).steps == 6);
  CHECK(cost(Algorithm::halving_doubling).bytes_sent == 1.75e9);
  CHECK(cost(Algorithm::halving_doubling).seconds == doctest::Approx(5e-6 + 60e-6 + 17.5e-3));
}

TEST_CASE("all-reduce of 1 GB on 2 nodes of 4") {
  const auto cost = [](Algorithm a) { return of(a, CollectiveKind::all_reduce, 8, 1e9, two); };
  // The primary's NIC takes 4 GB in at 25 GB/s, 160 ms; beside it 3 GB from its own node.
  CHECK(cost(Algorithm::centralised).seconds == doctest::Approx(5e-6 + 40e-6 + 320e-3));
  // Ring: 12 steps within, 2 between; 1.75 GB at the node's 50 GB/s.
  CHECK(cost(Algorithm::ring).seconds == doctest::Approx(5e-6 + 120e-6 + 40e-6 + 35e-3));
  // Halving-doubling: distances 1 and 2 within (1/2 and 1/4, there and back: 15 ms), distance 4
  // between: 4 GPUs send 1/8 each, 0.5 GB at 50 GB/s, there and back: 20 ms.
  CHECK(cost(Algorithm::halving_doubling).seconds ==
        doctest::Approx(5e-6 + 40e-6 + 40e-6 + 15e-3 + 20e-3));
  // Hierarchical: 3 + 3 steps of 1.5 GB within: 15 ms; between, 1 GB of the node: 20 ms.
  CHECK(cost(Algorithm::hierarchical).steps == 8);
  CHECK(cost(Algorithm::hierarchical).bytes_sent == 1.5e9 + 0.25e9);
  CHECK(cost(Algorithm::hierarchical).seconds ==
        doctest::Approx(5e-6 + 60e-6 + 15e-3 + 2 * 20e-6 + 20e-3));
}

TEST_CASE("only the centralised way and doubling grow with the ranks") {
  for (const int ranks : {2, 4, 64, 1024}) {
    const auto sent = [&](Algorithm a) {
      return of(a, CollectiveKind::all_reduce, ranks, 1, one).bytes_sent;
    };
    CHECK(sent(Algorithm::centralised) == ranks - 1);
    CHECK(sent(Algorithm::ring) < 2);
    CHECK(sent(Algorithm::halving_doubling) < 2);
  }
}

TEST_CASE("ranks beyond a power of two cost two more steps") {
  // 12 = 8 + 4: fold, 3 exchanges, unfold.
  const AlgorithmCost cost =
      of(Algorithm::recursive_doubling, CollectiveKind::all_reduce, 12, 1e9, one);
  CHECK(cost.steps == 5);
  CHECK(cost.bytes_sent == 4e9);
}

TEST_CASE("all-gather and reduce-scatter move half of an all-reduce") {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    CHECK(of(Algorithm::ring, kind, 8, 1e9, one).bytes_sent == 0.875e9);
    CHECK(of(Algorithm::ring, kind, 8, 1e9, one).steps == 7);
    CHECK(of(Algorithm::centralised, kind, 8, 1e9, one).bytes_sent == 7e9);
    CHECK(of(Algorithm::hierarchical, kind, 8, 1e9, two).bytes_sent == 0.75e9 + 0.125e9);
  }
  CHECK_THROWS_AS(compare_algorithms(CollectiveKind::broadcast, 8, 1, one), InputError);
}
