#include <doctest/doctest.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "topologies/topology.hpp"

namespace stepcast {
namespace {

double dense(const std::string& gpu, Dtype dtype) { return load_gpu(gpu).peak_flops(dtype) / 1e12; }

TEST_CASE("peaks are those that a matrix product with fp32 accumulation can reach") {
  CHECK(dense("h100-sxm", Dtype::bf16) == doctest::Approx(989.4));
  CHECK(dense("h100-pcie", Dtype::bf16) == doctest::Approx(756));
  CHECK(dense("a100-sxm-80gb", Dtype::bf16) == doctest::Approx(312));
  CHECK(dense("a100-sxm-80gb", Dtype::tf32) == doctest::Approx(156));
  CHECK(dense("v100-sxm2-16gb", Dtype::fp16) == doctest::Approx(125));
  // GeForce halves the rate with fp32 accumulation; TITAN RTX does not.
  CHECK(dense("rtx-4090", Dtype::bf16) == doctest::Approx(165.2));
  CHECK(dense("rtx-3090", Dtype::bf16) == doctest::Approx(71));
  CHECK(dense("titan-rtx", Dtype::fp16) == doctest::Approx(130.5));
}

TEST_CASE("a dtype without tensor cores is an error that names the GPU, never a zero") {
  CHECK_THROWS_WITH_AS(load_gpu("titan-rtx").peak_flops(Dtype::bf16),
                       "NVIDIA TITAN RTX 24GB (titan-rtx) has no matrix peak in bf16; accepted: "
                       "fp64, fp32, fp16",
                       InputError);
  CHECK_THROWS_AS(load_gpu("v100-sxm2-32gb").peak_flops(Dtype::tf32), InputError);
  CHECK_THROWS_AS(load_gpu("a100-sxm-40gb").peak_flops(Dtype::fp8), InputError);
  CHECK_THROWS_AS(load_gpu("h100-sxm").peak_flops(Dtype::int8), InputError);
}

// Independent of the datasheets' TFLOP/s: what an SM does in a cycle (from the architecture
// whitepapers: dense fp16 operations with fp32 accumulation), times SMs, times the clock.
TEST_CASE("fp16 peaks equal SMs x clock x operations of an SM and cycle") {
  const std::map<int, double> per_sm_and_cycle = {{70, 1024},  {75, 1024},  {80, 2048},
                                                  {86, 512},   {89, 512},   {90, 4096},
                                                  {100, 8192}, {103, 8192}, {120, 512}};
  // Workstation and server parts of GeForce's chips accumulate in fp32 at full rate, but L40 and
  // A10G; H20 is cut to a quarter.
  const std::set<std::string> full_rate = {"l40s", "rtx-6000-ada", "l4",          "a10",
                                           "a40",  "rtx-a6000",    "rtx-pro-6000"};
  for (const std::string& name : catalog_gpus()) {
    CAPTURE(name);
    const Gpu gpu = load_gpu(name);
    double rate = per_sm_and_cycle.at(gpu.compute_capability);
    if (full_rate.count(name) > 0) rate *= 2;
    if (name == "h20") rate /= 4;
    const double computed = gpu.sm_count * gpu.boost_mhz * 1e6 * rate;
    // B200 and B300: the datasheet's peak is 6 % below the maximum clock's, H20's too; their Grace
    // parts: 2 % above, with the clock taken as B200's.
    const std::map<std::string, double> wider = {
        {"b200", 0.06}, {"b300", 0.06}, {"h20", 0.07}, {"gb200", 0.025}, {"gb300", 0.025}};
    const auto known = wider.find(name);
    const double tolerance = known == wider.end() ? 0.013 : known->second;
    CHECK(gpu.peak_flops(Dtype::fp16) == doctest::Approx(computed).epsilon(tolerance));
  }
}

TEST_CASE("twice a dense peak never exceeds the figure printed with sparsity") {
  const std::map<std::string, double> sparse_bf16 = {
      {"a100-sxm-40gb", 624},
      {"a100-sxm-80gb", 624},
      {"a100-pcie-40gb", 624},
      {"a100-pcie-80gb", 624},
      {"h100-sxm", 1979},
      {"h100-pcie", 1513},
      {"h100-96gb-hbm2e", 1979},
      {"h200", 1979},
      {"gh200-96gb", 1979},
      {"b200", 4500},
      {"gb200", 5000},
      {"l40s", 733},
      {"rtx-4090", 330.4},
      {"rtx-3090", 142},
      {"b300", 4500},
      {"gb300", 5000},
      {"h20", 296},
      {"h800-sxm", 1979},
      {"h100-nvl", 1671},
      {"h200-nvl", 1671},
      {"a800-sxm-80gb", 624},
      {"a30", 330},
      {"a40", 299.4},
      {"a10", 250},
      {"a10g", 140},
      {"rtx-a6000", 309.7},
      {"l4", 242},
      {"l40", 362.1},
      {"rtx-6000-ada", 728.5},
      {"rtx-5090", 419},
      {"rtx-pro-6000", 1007.6},
  };
  for (const std::string& name : catalog_gpus()) {
    CAPTURE(name);
    const Gpu gpu = load_gpu(name);
    REQUIRE(gpu.peak_bf16.has_value() == (sparse_bf16.count(name) > 0));
    if (!gpu.peak_bf16) continue;
    const double twice = 2 * *gpu.peak_bf16 / 1e12;
    CHECK(twice <= sparse_bf16.at(name) * 1.0001);
    CHECK(twice == doctest::Approx(sparse_bf16.at(name)).epsilon(0.013));
    CHECK(gpu.peak_flops(Dtype::fp16) == *gpu.peak_bf16);
    if (gpu.peak_fp8) CHECK(*gpu.peak_fp8 == doctest::Approx(2 * *gpu.peak_bf16).epsilon(0.013));
  }
}

TEST_CASE("memory is the size a program finds, below the size on the box") {
  const std::map<std::string, double> nominal_gb = {
      {"v100-sxm2-16gb", 17.2}, {"v100-sxm2-32gb", 34.4}, {"a100-sxm-40gb", 42.9},
      {"a100-sxm-80gb", 85.9},  {"h100-sxm", 85.9},       {"h100-96gb-hbm2e", 103.1},
      {"h200", 151.4},          {"gh200-96gb", 103.1},    {"b200", 193.3},
      {"l40s", 51.5},           {"rtx-4090", 25.8},       {"rtx-3090", 25.8},
      {"titan-rtx", 25.8},
  };
  for (const auto& part : nominal_gb) {
    CAPTURE(part.first);
    const double usable = static_cast<double>(load_gpu(part.first).memory_bytes) / 1e9;
    CHECK(usable < part.second);
    CHECK(usable > 0.9 * part.second);
  }
}

TEST_CASE("an unknown GPU is refused with the nearest name") {
  std::string message;
  try {
    load_gpu("h100-sxn");
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message.find("gpu: 'h100-sxn' is not accepted (did you mean 'h100-sxm'?); accepted: ") ==
        0);
  CHECK(message.find("rtx-4090") != std::string::npos);
}

TEST_CASE("a GPU file is read strictly") {
  const std::string good = R"(full_name = "X"
[processor]
compute_capability = 90
sm_count = 10
boost_mhz = 1000
source = "a"
[dense_tflops]
bf16 = 2
source = "b"
[memory]
usable_gib = 1.5
gbps = 100
l2_mib = 1
source = "c"
[pcie]
generation = 5
source = "d"
[power]
watts = 100
source = "e"
)";
  const Gpu gpu = parse_gpu(good, "x.toml");
  CHECK(gpu.memory_bytes == 1610612736);
  CHECK(gpu.peak_flops(Dtype::bf16) == 2e12);
  CHECK(gpu.nvlinks == 0);
  CHECK(gpu.sources.size() == 5);

  const auto complaint = [&good](const std::string& from, const std::string& to) -> std::string {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    try {
      parse_gpu(text, "x.toml");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(complaint("bf16 = 2", "bf61 = 2") ==
        "x.toml:8: dense_tflops.bf61: is not a known key (did you mean 'bf16'?); accepted: bf16, "
        "fp16, fp32, fp64, fp8, source, tf32");
  CHECK(
      complaint("gbps = 100", "gbps = -100").find("x.toml:12: memory.gbps: -100 is out of range") ==
      0);
  CHECK(complaint("source = \"d\"", "source = \"\"") ==
        "x.toml:17: pcie.source: is empty; accepted: where the figures come from");
  CHECK(complaint("source = \"c\"\n", "").find("memory.source: is missing") != std::string::npos);
  CHECK(complaint("[power]\nwatts = 100\nsource = \"e\"\n", "").find("power: is missing") !=
        std::string::npos);
  CHECK(complaint("boost_mhz = 1000", "boost_mhz = ").find("x.toml:5: not valid TOML") == 0);
}

}  // namespace
}  // namespace stepcast
