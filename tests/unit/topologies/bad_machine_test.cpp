#include <doctest/doctest.h>

#include "small_machine.hpp"

namespace stepcast {
namespace {

using test::complaint;
using test::small_machine;
using test::with;

std::string changed(const std::string& from, const std::string& to) {
  return complaint(with(small_machine(), from, to));
}

TEST_CASE("the unchanged small machine has nothing to complain about") {
  CHECK(complaint(small_machine()) == "");
}

TEST_CASE("an unknown machine is refused with the nearest name") {
  std::string message;
  try {
    load_machine("dgx-h10");
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message.find("machine: 'dgx-h10' is not accepted (did you mean 'dgx-h100'?); accepted: ") ==
        0);
  CHECK(message.find("a path to a .toml file") != std::string::npos);
  CHECK_THROWS_AS(load_machine("/nonexistent/machine.toml"), InputError);
  CHECK_THROWS_AS(load_machine(""), InputError);
}

TEST_CASE("a misspelt key is refused with file, line and the nearest key") {
  CHECK(changed("gbit_per_s = 200", "gbit_per_s = 200\nlatencyus = 1") ==
        "m.toml:17: nic.latencyus: is not a known key (did you mean 'latency_us'?); accepted: "
        "count, gbit_per_s, gpudirect_rdma, latency_us, name, pcie_generation, pcie_width, "
        "ports_per_card");
  CHECK(changed("host_memory_gb", "host_memory")
            .find("m.toml:1: host_memory_gb: is missing; accepted: a number") == 0);
  CHECK(
      changed("gpus = [1]", "gpu = [1]").find("m.toml:25: pcie.switches[1].gpu: is not a known") ==
      0);
  CHECK(changed("[nvlink]", "[nvlinks]")
            .find("m.toml:18: nvlinks: is not a known key (did you mean "
                  "'nvlink'?)") == 0);
}

TEST_CASE("speeds and counts out of range are refused with their line") {
  CHECK(changed("gbit_per_s = 200", "gbit_per_s = -200") ==
        "m.toml:16: nic.gbit_per_s: -200 is out of range; accepted: 0.001 to 100000");
  CHECK(
      changed("socket_gbps = 40", "socket_gbps = 0").find("m.toml:13: cpu.socket_gbps: 0 is out") ==
      0);
  CHECK(changed("socket_gbps = 40", "socket_gbps = nan").find("m.toml:13: cpu.socket_gbps: nan") ==
        0);
  CHECK(changed("gpus = 2\n", "gpus = 0\n").find("m.toml:3: gpus: 0 is out of range") == 0);
  CHECK(changed("gpus = 2\n", "gpus = 2.5\n") ==
        "m.toml:3: gpus: 2.5 is not accepted; accepted: an integer, also as 5e8, up to 2^53");
  CHECK(changed("generation = 4", "generation = 7").find("m.toml:22: pcie.generation: 7 is out") ==
        0);
  CHECK(changed("gpus = 2\n", "gpus = 9999999999\n").find("m.toml:3: gpus: 9999999999 is out") ==
        0);
}

TEST_CASE("every GPU and every NIC has exactly one place") {
  CHECK(changed("{ cpu = 1, gpus = [1] }", "{ cpu = 1, gpus = [0, 1] }") ==
        "m.toml:25: pcie.switches[1].gpus: GPU 0 is placed twice; accepted: every GPU once");
  CHECK(changed("{ cpu = 1, gpus = [1] }", "{ cpu = 1 }") ==
        "m.toml:21: pcie: GPU 1 is nowhere in switches or direct; accepted: every GPU once");
  CHECK(changed(", nics = [0]", "") ==
        "m.toml:21: pcie: NIC 0 is nowhere in switches or direct; accepted: every NIC once");
  CHECK(changed("gpus = [1] }", "gpus = [1], nics = [0] }").find("NIC 0 is placed twice") !=
        std::string::npos);
  CHECK(changed("gpus = [1] }", "gpus = [2] }") ==
        "m.toml:25: pcie.switches[1].gpus: 2 is not among the gpus of this machine; accepted: "
        "whole numbers 0 to 1");
  CHECK(changed("gpus = [1] }", "gpus = [1.5] }").find("1.5 is not among the gpus") !=
        std::string::npos);
  CHECK(changed("gpus = [1] }", "gpus = [-1] }").find("-1 is not among the gpus") !=
        std::string::npos);
}

TEST_CASE("a switch hangs on a CPU or an earlier switch, on one of them") {
  CHECK(changed("{ cpu = 1,", "{ cpu = 2,") ==
        "m.toml:25: pcie.switches[1].cpu: 2 is out of range; accepted: 0 to 1");
  CHECK(changed("{ cpu = 1,", "{ cpu = 1, under = 0,").find("under: contradicts cpu") !=
        std::string::npos);
  CHECK(changed("{ cpu = 1,", "{ under = 1,").find("under: 1 is out of range; accepted: 0 to 0") !=
        std::string::npos);
  CHECK(changed("{ cpu = 0,", "{ under = 0,").find("has no earlier switch to name") !=
        std::string::npos);
  CHECK(changed("{ cpu = 1,", "{").find("switches[1].cpu: is missing") != std::string::npos);
  CHECK(
      complaint(small_machine() + "direct = [{ under = 0 }]\n").find("direct[0].cpu: is missing") !=
      std::string::npos);
}

TEST_CASE("NVLinks join two different GPUs of the machine, once, within what the part has") {
  CHECK(
      changed("[[0, 1, 6]]", "[[0, 1, 19]]") ==
      "m.toml:20: nvlink.pairs: GPU 0 would have 19 NVLinks; accepted: at most the 18 of h100-sxm");
  CHECK(changed("[[0, 1, 6]]", "[[0, 1, 6], [1, 0, 6]]").find("[1, 0, 6] names a pair twice") !=
        std::string::npos);
  CHECK(changed("[[0, 1, 6]]", "[[0, 0, 6]]").find("[0, 0, 6] is no pair of this machine") !=
        std::string::npos);
  CHECK(changed("[[0, 1, 6]]", "[[0, 2, 6]]").find("[0, 2, 6] is no pair") != std::string::npos);
  CHECK(changed("[[0, 1, 6]]", "[[0, 1, 0]]").find("[0, 1, 0] is no pair") != std::string::npos);
  CHECK(changed("[[0, 1, 6]]", "[[0, 1]]").find("[0, 1] has not three numbers") !=
        std::string::npos);
  CHECK(changed("[[0, 1, 6]]", "[[0, -1, 6]]").find("holds something else than whole numbers") !=
        std::string::npos);
  CHECK(changed("[[0, 1, 6]]", "[]").find("pairs: is missing or empty") != std::string::npos);
  CHECK(changed("kind = \"pairs\"", "kind = \"mesh\"") ==
        "m.toml:19: nvlink.kind: 'mesh' is not accepted; accepted: nvswitch, all_to_all, pairs");
  CHECK(changed("\"h100-sxm\"", "\"l40s\"") ==
        "m.toml:18: nvlink: l40s has no NVLink; accepted: no [nvlink]");
  // A key of another kind of wiring is not silently ignored.
  CHECK(
      changed("kind = \"pairs\"", "kind = \"nvswitch\"").find("nvlink.pairs: is not a known key") !=
      std::string::npos);
}

TEST_CASE("network and NIC must fit together") {
  CHECK(changed("network = \"roce\"", "network = \"none\"")
            .find("m.toml:14: nic: contradicts network = \"none\"") == 0);
  CHECK(changed("[nic]\ncount = 1\ngbit_per_s = 200\npcie_generation = 5\n", "")
            .find("nic: is missing; accepted: a table [nic], or network = \"none\"") !=
        std::string::npos);
  CHECK(changed("\"roce\"", "\"rocce\"") ==
        "m.toml:4: network: 'rocce' is not accepted (did you mean 'roce'?); accepted: efa, "
        "efa-busy, ethernet, infiniband, roce, slingshot, tcpx, tcpxo, none");
}

TEST_CASE("an unknown GPU in a machine file names that file") {
  CHECK(changed("\"h100-sxm\"", "\"h100-sxx\"").find("m.toml:2: gpu: 'h100-sxx' is not accepted") ==
        0);
  CHECK(changed("arch = \"x86_64\"", "arch = \"x86-64\"")
            .find("m.toml:8: cpu.arch: 'x86-64' is not accepted (did you mean 'x86_64'?)") == 0);
  CHECK(changed("source = \"made up\"", "source = \"\"") ==
        "m.toml:6: source: is empty; accepted: where the figures come from");
}

TEST_CASE("a file cut off anywhere is an input error, never a crash or a machine") {
  const std::string whole = small_machine();
  const std::size_t last = whole.find_last_of(']');
  for (std::size_t length = 0; length < last; ++length) {
    CAPTURE(length);
    CHECK(complaint(whole.substr(0, length)) != "");
  }
}

}  // namespace
}  // namespace stepcast
