// NCCL's variables and the tuner plugin's CSV change the choice as they change NCCL's.

#include "sim/collectives/nccl/environment.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"

using namespace stepcast;

namespace {

const Where flag{"--nccl", 0, ""};

CollectiveCost cost_of(const CollectiveOptions& options, const std::string& machine, int nodes,
                       CollectiveKind kind, Bytes bytes, Reduction reduction = Reduction::sum) {
  const Cluster cluster = make_cluster(load_machine(machine), {.nodes = nodes});
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
  return collectives.cost(Axis::world, kind, bytes, Dtype::fp32, reduction);
}

CollectiveOptions with(const std::string& variables) {
  CollectiveOptions options;
  options.environment.set_all(variables, flag);
  return options;
}

std::string refusal(const std::string& variables) {
  try {
    with(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

constexpr Bytes mib25 = 25 << 20;

}  // namespace

TEST_CASE("NCCL_ALGO=Ring on 64 DGX H100: a 25 MiB all-reduce pays 126 hops between nodes") {
  // Ring/Simple latency 8.4 + 896 * 3.4 + 126 * 14 = 4,818.8 us, * 1.4 = 6,746.3; NCCL's own choice
  // is a tree.
  const CollectiveCost ring = cost_of(with("NCCL_ALGO=Ring NCCL_PROTO=Simple"), "dgx-h100", 64,
                                      CollectiveKind::all_reduce, mib25);
  CHECK(ring.choice.algorithm == NcclAlgorithm::ring);
  CHECK(ring.choice.protocol == NcclProtocol::simple);
  CHECK(ring.choice.predicted_us > 6746.3);
  CHECK(ring.choice.predicted_us < 6746.3 + 200);  // plus 25 MiB through 8 * 48 GB/s
  const CollectiveCost own = cost_of({}, "dgx-h100", 64, CollectiveKind::all_reduce, mib25);
  CHECK(own.choice.algorithm != NcclAlgorithm::ring);
  CHECK(own.choice.predicted_us < ring.choice.predicted_us / 5);
}

TEST_CASE("a list may be inverted and may be for one function") {
  const auto algorithm = [](const char* variables, CollectiveKind kind) {
    const Reduction reduction =
        kind == CollectiveKind::all_gather ? Reduction::none : Reduction::sum;
    return cost_of(with(variables), "dgx-h100", 1, kind, 1 << 30, reduction).choice.algorithm;
  };
  CHECK(algorithm("NCCL_ALGO=^nvls,nvlstree", CollectiveKind::all_reduce) == NcclAlgorithm::ring);
  CHECK(algorithm("NCCL_ALGO=allreduce:tree", CollectiveKind::all_reduce) == NcclAlgorithm::tree);
  CHECK(algorithm("ALGO=ring;allgather:nvls", CollectiveKind::all_gather) == NcclAlgorithm::nvls);
  CHECK(algorithm("ALGO=ring;allgather:nvls", CollectiveKind::all_reduce) == NcclAlgorithm::ring);
  CHECK(algorithm("NCCL_NVLS_ENABLE=0", CollectiveKind::all_reduce) == NcclAlgorithm::ring);
}

TEST_CASE("a function for which nothing is left cannot run") {
  CHECK_THROWS_AS(cost_of(with("NCCL_ALGO=Tree"), "dgx-h100", 1, CollectiveKind::broadcast, mib25,
                          Reduction::none),
                  InputError);
  // Both variables, in NCCL's spelling, and the pairs that there would be.
  std::string said;
  try {
    cost_of(with("ALGO=allgather:nvls PROTO=^simple"), "dgx-h100", 1, CollectiveKind::all_gather,
            mib25, Reduction::none);
  } catch (const InputError& error) {
    said = error.what();
  }
  CHECK(said ==
        "nccl: NCCL_ALGO=NVLS, NCCL_PROTO=LL,LL128: leaves all_gather nothing to run with here "
        "(NCCL fails with ncclInvalidUsage); accepted: Ring/LL, Ring/LL128, Ring/Simple, "
        "NVLS/Simple");
}

TEST_CASE("channels are clamped and raised") {
  const auto channels = [](const char* variables) {
    return cost_of(with(variables), "dgx-a100", 1, CollectiveKind::all_reduce, 1 << 30)
        .choice.channels;
  };
  CHECK(channels("NCCL_PROTO=Simple") == 24);  // 12 of the search, twice
  CHECK(channels("NCCL_MAX_NCHANNELS=8") == 8);
  CHECK(channels("NCCL_MAX_CTAS=4 NCCL_MAX_NCHANNELS=8") == 4);
  CHECK(channels("NCCL_MIN_NCHANNELS=32") == 32);
  // NVLS counts CTAs, not channels.
  CHECK(cost_of(with("NCCL_MAX_CTAS=8"), "dgx-h100", 1, CollectiveKind::all_reduce, 1 << 30)
            .choice.channels == 8);
}

TEST_CASE(
    "without GPUDirect near the NIC, without peers, without crossing NICs the graph is worse") {
  const auto busbw = [](const char* variables, const char* machine, int nodes) {
    return cost_of(with(variables), machine, nodes, CollectiveKind::all_reduce, 1 << 30).busbw_gbps;
  };
  CHECK(busbw("NCCL_NET_GDR_LEVEL=LOC", "dgx-a100", 4) < 0.8 * busbw("", "dgx-a100", 4));
  CHECK(busbw("NCCL_P2P_DISABLE=1", "dgx-a100", 1) < 0.5 * busbw("", "dgx-a100", 1));
  CHECK(busbw("NCCL_CROSS_NIC=0", "dgx-h100", 4) <= busbw("", "dgx-h100", 4));
}

TEST_CASE("a tuner plugin's row is taken where it matches and can run") {
  CollectiveOptions options;
  options.environment.tuner.rows = nccl::parse_tuner_csv(
      "# comment\ncollective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n"
      "allreduce,0,1048576,ring,ll,2,1,8\n"
      "allreduce,1048577,-1,tree,simple,-1,-1,-1,-1,-1\n",
      "t.csv");
  const auto choice = [&](Bytes bytes, int nodes) {
    return cost_of(options, "dgx-a100", nodes, CollectiveKind::all_reduce, bytes).choice;
  };
  CHECK(choice(1 << 20, 1).algorithm == NcclAlgorithm::ring);
  CHECK(choice(1 << 20, 1).protocol == NcclProtocol::ll);
  CHECK(choice(1 << 20, 1).channels == 2);
  CHECK(choice(1 << 30, 1).algorithm == NcclAlgorithm::tree);
  CHECK(choice(1 << 20, 2).channels > 2);  // the row is for one node
}

TEST_CASE(
    "the names of the tuner plugin's own examples are read, rows of other calls passed over") {
  // The plugin's README writes nvls_tree and collnet_direct.
  const auto rows = nccl::parse_tuner_csv(
      "allreduce,0,1048576,nvls_tree,simple,-1,-1,-1\nallreduce,0,-1,collnet_direct,simple,-1,-1,-"
      "1\n",
      "t.csv");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].algorithm == NcclAlgorithm::nvls_tree);
  CHECK(rows[1].algorithm == NcclAlgorithm::collnet_direct);
  // numPipeOps 4 and regBuff 1 are for groups of calls and for registered buffers; 1 and 0 are not.
  const auto algorithm = [](const std::string& first) {
    CollectiveOptions options;
    options.environment.tuner.rows =
        nccl::parse_tuner_csv(first + "\nallreduce,0,-1,tree,simple,-1,-1,-1,1,0\n", "t.csv");
    return cost_of(options, "dgx-a100", 1, CollectiveKind::all_reduce, 1 << 20).choice.algorithm;
  };
  CHECK(algorithm("allreduce,0,-1,ring,ll,-1,-1,-1,-1,-1") == NcclAlgorithm::ring);
  CHECK(algorithm("allreduce,0,-1,ring,ll,-1,-1,-1,4,-1") == NcclAlgorithm::tree);
  CHECK(algorithm("allreduce,0,-1,ring,ll,-1,-1,-1,-1,1") == NcclAlgorithm::tree);
}

TEST_CASE("a row of the tuner plugin that cannot run makes way for the next that matches") {
  // A100 has no NVLS; on H100 it sums fp32 and has no maximum of it.
  const auto algorithm = [](const char* machine, Reduction reduction) {
    CollectiveOptions options;
    options.environment.tuner.rows = nccl::parse_tuner_csv(
        "allreduce,0,-1,nvls,simple,-1,-1,-1\nallreduce,0,-1,tree,simple,-1,-1,-1\n", "t.csv");
    return cost_of(options, machine, 1, CollectiveKind::all_reduce, 1 << 20, reduction)
        .choice.algorithm;
  };
  CHECK(algorithm("dgx-a100", Reduction::sum) == NcclAlgorithm::tree);
  CHECK(algorithm("dgx-h100", Reduction::sum) == NcclAlgorithm::nvls);
  CHECK(algorithm("dgx-h100", Reduction::max) == NcclAlgorithm::tree);
}

TEST_CASE("old names and numbers of variables mean what NCCL takes them for") {
  const auto environment = [](const char* variables) {
    nccl::Environment out;
    out.set_all(variables, flag);
    return out;
  };
  CHECK(environment("NCCL_P2P_LEVEL=2").paths.peer_level == nccl::PathType::pxb);
  CHECK(environment("NCCL_P2P_LEVEL=5").paths.peer_level == nccl::PathType::sys);
  CHECK(environment("NCCL_P2P_LEVEL=nvb").paths.peer_level == nccl::PathType::nvb);
  CHECK(environment("NCCL_NET_GDR_LEVEL=P2C").paths.gdr_level == nccl::PathType::p2c);
  // Quotes are a shell's.
  CHECK(environment("NCCL_ALGO=\"^tree\" NCCL_PROTO='LL'").tuner.algorithms ==
        environment("NCCL_ALGO=^tree").tuner.algorithms);
  CHECK(environment("NCCL_MAX_NRINGS=4").tuner.max_channels == 4);
  CHECK(environment("NCCL_MIN_NRINGS=8").tuner.min_channels == 8);
  // CTAs count for NVLS, channels do not, whichever is said first.
  CHECK(environment("NCCL_MIN_NCHANNELS=16 NCCL_MIN_CTAS=4").tuner.min_nvls_channels == 4);
  CHECK(environment("NCCL_MIN_CTAS=4 NCCL_MIN_NCHANNELS=16").tuner.min_nvls_channels == 4);
}

TEST_CASE("names of algorithms are NCCL's own, in any case, and no other's") {
  CHECK(
      with("NCCL_ALGO=nvlstree,COLLNETDIRECT,pat NCCL_PROTO=ll128").environment.tuner.algorithms ==
      with("NCCL_ALGO=NVLSTree,CollNetDirect,PAT").environment.tuner.algorithms);
  // NCCL: "Unrecognized element token", ncclInvalidUsage.
  CHECK(contains(refusal("NCCL_ALGO=NVLS_Tree"), "did you mean 'NVLSTree'"));
  CHECK(contains(refusal("NCCL_ALGO=collnet_direct"), "did you mean 'CollNetDirect'"));
  CHECK(contains(refusal("NCCL_ALGO=allreduce:nvls_tree"), "'nvls_tree' is not accepted"));
  CHECK(contains(refusal("NCCL_ALGO=all_reduce:tree"), "did you mean 'allreduce'"));
  CHECK(contains(refusal("NCCL_PROTO=LL_128"), "did you mean 'LL128'"));
}

TEST_CASE("wrong variables are refused") {
  CHECK(contains(refusal("NCCL_ALGO"), "NAME=VALUE"));
  CHECK(contains(refusal("NCCL_ALGO=Rin"), "did you mean 'Ring'"));
  CHECK(contains(refusal("NCCL_ALGO="), "NCCL_ALGO"));
  CHECK(contains(refusal("NCCL_ALGO=foo:ring"), "allreduce"));
  CHECK(contains(refusal("NCCL_MAX_NCHANNELS=0"), "1 to 64"));
  CHECK(contains(refusal("NCCL_P2P_LEVEL=FAR"), "PXB"));
  CHECK_THROWS_AS(nccl::parse_tuner_csv("allreduce,0,1,ring\n", "t.csv"), InputError);
  CHECK_THROWS_AS(nccl::parse_tuner_csv("allreduce,0,x,ring,ll,1,1,1\n", "t.csv"), InputError);
}

TEST_CASE("both versions of NCCL's constants can be asked for") {
  // NVLSTree per channel on Blackwell, four nodes: 43.8 GB/s in 2.28.9, 80 in 2.30.7.
  CollectiveOptions newer;
  newer.nccl_version = "2.30.7";
  const double before =
      cost_of(with("NCCL_ALGO=NVLSTree"), "hgx-b200", 4, CollectiveKind::all_reduce, 1 << 30)
          .choice.predicted_us;
  newer.environment.set_all("NCCL_ALGO=NVLSTree", flag);
  const double after =
      cost_of(newer, "hgx-b200", 4, CollectiveKind::all_reduce, 1 << 30).choice.predicted_us;
  CHECK(after < before);
}
