// A launch script's environment, pasted: what changes no time is taken and noted, what does and is
// not simulated is refused, and so are typos.

#include "sim/collectives/nccl/other_variables.hpp"

#include <doctest/doctest.h>

#include <set>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"

using namespace stepcast;

namespace {

const Where flag{"--nccl", 0, ""};

nccl::Environment environment(const std::string& variables) {
  nccl::Environment out;
  out.set_all(variables, flag);
  return out;
}

std::string refusal(const std::string& variables) {
  try {
    environment(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

Seconds cost_with(const std::string& variables) {
  CollectiveOptions options;
  options.environment = environment(variables);
  const Cluster cluster = make_cluster(load_machine("dgx-a100"), {.nodes = 2});
  const Collectives collectives(cluster, {.replicate = 16, .shard = 1}, options);
  return collectives
      .cost(Axis::world, CollectiveKind::all_reduce, 25 << 20, Dtype::fp32, Reduction::sum)
      .seconds;
}

}  // namespace

TEST_CASE("a launch script's environment is taken, and one line says what it changes nothing of") {
  const nccl::Environment pasted = environment(
      "export NCCL_DEBUG=INFO\nexport NCCL_SOCKET_IFNAME=eth0\nexport NCCL_IB_TIMEOUT=22\n"
      "export NCCL_DEBUG_SUBSYS=INIT,NET\n-x NCCL_IB_RETRY_CNT=13 -x NCCL_ALGO=Ring\n"
      "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1 NCCL_DEBUG=WARN");
  CHECK(pasted.note() ==
        "nccl: nothing here depends on NCCL_DEBUG, NCCL_DEBUG_SUBSYS (what is logged); "
        "NCCL_SOCKET_IFNAME (where ranks find each other; the NICs that carry data are the "
        "machine's); NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT, TORCH_NCCL_ASYNC_ERROR_HANDLING (when a "
        "link or a rank is given up)");
  CHECK(pasted.tuner.algorithms == environment("NCCL_ALGO=Ring").tuner.algorithms);
  CHECK(environment("NCCL_ALGO=Ring").note().empty());
}

TEST_CASE("what is noted changes no time, what is heeded beside it does") {
  std::string all;
  for (const nccl::OtherVariable& variable : nccl::other_variables()) {
    if (!variable.changes_times) all += std::string(variable.name) + "=1 ";
  }
  CHECK(cost_with(all) == cost_with(""));
  CHECK(cost_with(all + "NCCL_PROTO=LL") == cost_with("NCCL_PROTO=LL"));
  CHECK(cost_with("NCCL_PROTO=LL") > cost_with(""));
}

TEST_CASE("what changes times and is not simulated is refused, but for NCCL's own default") {
  CHECK(refusal("NCCL_BUFFSIZE=1048576") ==
        "--nccl: NCCL_BUFFSIZE: changes times in a way that is not simulated (how much is copied "
        "at once, by how many threads); accepted: 4194304, NCCL's default");
  CHECK(refusal("NCCL_SOCKET_NTHREADS=4") ==
        "--nccl: NCCL_SOCKET_NTHREADS: changes times in a way that is not simulated (how much "
        "plain TCP carries; tables of measured_collectives hold that)");
  CHECK(contains(refusal("NCCL_IB_DISABLE=1"), "network and nic_gbps say that"));
  CHECK(contains(refusal("NCCL_SOCKET_NTHREADS="), "not simulated"));
  CHECK(environment("NCCL_IB_DISABLE=0 NCCL_COLLNET_ENABLE=0").note() ==
        "nccl: nothing here depends on NCCL_IB_DISABLE, NCCL_COLLNET_ENABLE (NCCL's default)");
}

TEST_CASE("typos are refused, with the variable that was meant, heeded or not") {
  CHECK(contains(refusal("NCCL_DEBG=INFO"), "did you mean 'NCCL_DEBUG'"));
  CHECK(contains(refusal("NCCL_IB_TIMOUT=22"), "did you mean 'NCCL_IB_TIMEOUT'"));
  CHECK(contains(refusal("NCCL_MAX_NCHANELS=4"), "did you mean 'NCCL_MAX_NCHANNELS'"));
  CHECK(refusal("OMP_NUM_THREADS=1").starts_with("--nccl: 'OMP_NUM_THREADS' is not accepted"));
  CHECK(contains(refusal("OMP_NUM_THREADS=1"), "those that change no time, as NCCL_DEBUG"));
}

TEST_CASE("each variable is decided once, and none is heeded and noted") {
  std::set<std::string_view> names;
  for (const nccl::OtherVariable& variable : nccl::other_variables()) {
    CAPTURE(variable.name);
    CHECK(names.insert(variable.name).second);
    CHECK(!variable.about.empty());
    CHECK((refusal(std::string(variable.name) + "=x") == "accepted") != variable.changes_times);
  }
}
