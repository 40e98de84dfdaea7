// The formula of the corrections, worked by hand, and how a forecast uses it.

#include "sim/collectives/corrections.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"

using namespace stepcast;

namespace {

const Correction correction{
    .launch_us = 2, .step_us = 10, .efficiency = 0.8, .two_node_all_reduce = 1.25, .ramp = 3};

std::shared_ptr<const Corrections> table_of(const std::string& name, const Correction& c) {
  Corrections table;
  table.set(name, c);
  return std::make_shared<const Corrections>(table);
}

}  // namespace

TEST_CASE(
    "a ring between three nodes takes a step for each node but one, twice for an all-reduce") {
  PredictedCall call{
      CollectiveKind::all_gather, NcclAlgorithm::ring, NcclProtocol::simple, 24, 3, 50, 400};
  CHECK(network_steps(call) == 2);
  // 50 + 2 + 2 * 10 + 400 / 0.8 + 3 * sqrt(400)
  CHECK(corrected_us(correction, call) == doctest::Approx(50 + 2 + 20 + 500 + 60));
  call.kind = CollectiveKind::all_reduce;
  CHECK(network_steps(call) == 4);
  call.algorithm = NcclAlgorithm::tree;  // up and down, log2(3) = 1 level
  CHECK(network_steps(call) == 2);
}

TEST_CASE("an all-reduce on two nodes of several GPUs has its own efficiency, LL no ramp") {
  PredictedCall call{
      CollectiveKind::all_reduce, NcclAlgorithm::tree, NcclProtocol::ll, 16, 2, 30, 100};
  // 30 + 2 + 2 * 10 + 100 / 1.25
  CHECK(corrected_us(correction, call) == doctest::Approx(132));
  call.algorithm = NcclAlgorithm::nvls_tree;
  CHECK(corrected_us(correction, call) == doctest::Approx(132));
  call.algorithm = NcclAlgorithm::ring;  // crosses twice: 100 / 0.8
  CHECK(corrected_us(correction, call) == doctest::Approx(177));
  call.algorithm = NcclAlgorithm::tree;
  call.ranks = 2;  // one GPU a node: nothing for a tree to gain; 100 / 0.8
  CHECK(corrected_us(correction, call) == doctest::Approx(177));
  call.nodes = 1;  // no network
  CHECK(corrected_us(correction, call) == doctest::Approx(157));
}

TEST_CASE("no correction is faster than the line rate") {
  PredictedCall call{
      CollectiveKind::all_reduce, NcclAlgorithm::tree, NcclProtocol::simple, 16, 2, 30, 1000};
  call.least_us = 900;
  const Correction fast{.two_node_all_reduce = 2};
  CHECK(corrected_us(fast, call) == 900);  // not 30 + 1000 / 2
  call.least_us = 400;
  CHECK(corrected_us(fast, call) == 530);
}

TEST_CASE("two nodes reduce no faster than their NICs carry") {
  // A ring sends 15/8 of the size out of each node: its bus bandwidth is at most that of the NICs.
  // A tree sends the size once.
  struct Case {
    const char* machine;
    double nics_gbps;
  };
  CollectiveOptions options;
  options.corrections = Corrections::shipped();
  for (const Case& c : {Case{"hgx-b300", 800},
                        {"dgx-b200", 400},
                        {"gcp-a4", 400},
                        {"perlmutter-a100", 100},
                        {"dgx-h100", 400},
                        {"azure-nd-v4", 200}}) {
    CAPTURE(c.machine);
    const Cluster cluster = make_cluster(load_machine(c.machine), {.nodes = 2});
    const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
    for (Bytes bytes = 256 * mib; bytes <= 64 * gib; bytes *= 4) {
      const CollectiveCost cost = collectives.cost(Axis::world, CollectiveKind::all_reduce, bytes,
                                                   Dtype::fp32, Reduction::sum);
      const double size_gbps = static_cast<double>(bytes) / cost.seconds * 1e-9;
      const bool ring = cost.choice.algorithm == NcclAlgorithm::ring;
      CHECK((ring ? cost.busbw_gbps : size_gbps) <= c.nics_gbps * 1.000001);
    }
  }
}

TEST_CASE("each further hop stalls a ring, a tree over 32 nodes has five") {
  Correction stalls;
  stalls.stall = 0.5;
  PredictedCall call{
      CollectiveKind::all_reduce, NcclAlgorithm::ring, NcclProtocol::simple, 40, 5, 50, 400};
  CHECK(network_hops(call) == 4);
  CHECK(corrected_us(stalls, call) == doctest::Approx(50 + 400 * 2));
  call.nodes = 2;
  call.ranks = 2;
  CHECK(corrected_us(stalls, call) == doctest::Approx(450));
  call.nodes = 32;
  call.algorithm = NcclAlgorithm::tree;
  CHECK(network_hops(call) == 5);
  CHECK(corrected_us(stalls, call) == doctest::Approx(50 + 400 * 2.2360680));
}

TEST_CASE("no correction and a correction of nothing are the same") {
  const Correction nothing;
  const PredictedCall call{
      CollectiveKind::all_reduce, NcclAlgorithm::ring, NcclProtocol::simple, 8, 1, 30, 100};
  CHECK(corrected_us(nothing, call) == 130);
}

TEST_CASE("a forecast corrects the time and never the choice") {
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 4});
  const Mesh mesh{.replicate = 32, .shard = 1};
  const Collectives plain(cluster, mesh);
  CollectiveOptions options;
  options.corrections = table_of("rdma", correction);
  const Collectives corrected(cluster, mesh, options);
  for (Bytes bytes = 1024; bytes <= gib; bytes *= 8) {
    const auto cost = [&](const Collectives& c) {
      return c.cost(Axis::world, CollectiveKind::all_gather, bytes, Dtype::bf16, Reduction::none);
    };
    const CollectiveCost a = cost(plain);
    const CollectiveCost b = cost(corrected);
    CHECK(words(a.choice) == words(b.choice));
    CHECK(a.choice.predicted_us == b.choice.predicted_us);
    CHECK(b.network_class == "rdma");
    CHECK(b.seconds * 1e6 == doctest::Approx(corrected_us(correction, a.predicted)));
    CHECK(a.seconds * 1e6 ==
          doctest::Approx(a.predicted.latency_us + a.predicted.wire_us));  // links included
    CHECK(b.seconds > a.seconds);
    CHECK(b.provenance == Provenance::modelled);
  }
}

TEST_CASE("links that others share bound a corrected time too") {
  // HSDP on two nodes: eight replica groups of two ranks share eight NICs, and one that is twice as
  // fast as NCCL says would need more of its NIC than there is.
  const Cluster cluster = make_cluster(load_machine("azure-nd-v4"), {.nodes = 2});
  CollectiveOptions options;
  options.corrections = table_of("rdma", {.efficiency = 4});
  const Collectives collectives(cluster, {.replicate = 2, .shard = 8}, options);
  const CollectiveCost cost = collectives.cost(Axis::replicate, CollectiveKind::all_reduce, gib,
                                               Dtype::bf16, Reduction::sum);
  for (const LinkLoad& load : cost.loads) CHECK(load.seconds <= cost.seconds);
}

TEST_CASE("classes of networks") {
  nccl::CommShape comm;
  comm.ranks = 8;
  const auto on_one_node = [&](int compute_capability) {
    comm.min_compute_capability = compute_capability;
    return correction_class(comm, true, false, "infiniband");
  };
  CHECK(on_one_node(70) == "nvlink2");
  CHECK(on_one_node(80) == "nvlink3");
  CHECK(on_one_node(90) == "nvlink4");
  CHECK(on_one_node(100) == "nvlink5");
  CHECK(correction_class(comm, false, true, "none") == "host");
  CHECK(correction_class(comm, false, false, "infiniband").empty());
  comm.nodes = 2;
  comm.min_compute_capability = 90;
  CHECK(correction_class(comm, true, false, "infiniband") == "rdma");
  CHECK(correction_class(comm, true, false, "roce") == "rdma");
  CHECK(correction_class(comm, true, false, "efa") == "efa");
  CHECK(correction_class(comm, true, false, "efa-busy") == "efa-busy");
  comm.min_compute_capability = 100;
  CHECK(correction_class(comm, true, false, "roce") == "rdma-blackwell");
}

TEST_CASE("latency is what does not grow with the bytes") {
  PredictedCall call{
      CollectiveKind::all_gather, NcclAlgorithm::ring, NcclProtocol::simple, 24, 3, 50, 400};
  CHECK(fixed_us(correction, call) == doctest::Approx(50 + 2 + 20));  // not the ramp
  const Cluster cluster = make_cluster(load_machine("aws-p6-b200"), {.nodes = 16});
  CollectiveOptions options;
  options.corrections = Corrections::shipped();
  const Collectives collectives(cluster, {.replicate = 1, .shard = 128}, options);
  const auto cost = [&](Bytes bytes) {
    return collectives.cost(Axis::shard, CollectiveKind::reduce_scatter, bytes, Dtype::fp32,
                            Reduction::avg);
  };
  CHECK(cost(8 * gib).choice.algorithm == NcclAlgorithm::ring);
  CHECK(cost(16 * gib).fixed == doctest::Approx(cost(8 * gib).fixed));
  CHECK(cost(8 * gib).fixed < cost(8 * gib).seconds / 2);
}

TEST_CASE("a table that says a class twice is refused") {
  const std::string row =
      "[[class]]\nname = \"efa\"\nlaunch_us = 0\nstep_us = 1\nefficiency = 1\n"
      "two_node_all_reduce = 1\nramp = 0\nresiduals = \"\"\n";
  CHECK(Corrections::from_text(row, "c.toml").find("efa")->step_us == 1);
  CHECK_THROWS_AS(Corrections::from_text(row + row, "c.toml"), InputError);
}
