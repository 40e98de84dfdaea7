// The calibration file: what is written reads back, and what is wrong is named.
#include "sim/calibration/calibration.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/toml.hpp"

using namespace stepcast;

namespace {

const std::string head =
    "schema = \"stepcast.calibration/1\"\n[machine]\nname = \"one\"\ndevice = \"NVIDIA H100\"\n"
    "gpu = \"h100-sxm\"\nexecutor = \"cuda\"\nsource = \"test\"\ndate = \"2026-11-30\"\n";

std::string refusal(const std::string& toml) {
  try {
    parse_calibration(toml, "c.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

Calibration everything() {
  Calibration c;
  c.origin = {"lab \"A\"", "NVIDIA H100 80GB HBM3", "h100-sxm",   "550.54.15",
              "cuda",      "stepcast calibrate",    "2026-11-30", {"CUDA 12.4", "NCCL 2.28.9"}};
  c.host = {6.5, 2.25, 1.5};
  c.kernels.memory_bytes_per_second = 2.9e12;
  c.kernels.shapes = {
      {gemm("a", Dtype::bf16, 4096, 4096, 4096), 180e-6, 0.02},
      {gemm("a", Dtype::fp32, 128, 256, 512, 3), 12.5e-6, 0},
      {attention("a", KernelKind::attention_backward, Dtype::bf16, 2, 32, 8, 1024, 2048, 128, true),
       950e-6, 0.01},
      {gemm("a", Dtype::bf16, 64, 4096, 4096), 20e-6, 0.03}};
  Kernel image = gemm("a", Dtype::bf16, 802816, 64, 576);
  image.kind = KernelKind::convolution;
  image.bytes_read = 1000;
  image.bytes_written = 2000;
  c.kernels.shapes.push_back({image, 300e-6, 0});
  c.kernels.memory = {{Name(), {1024, 1 << 20}, {2e-6, 5e-6}, {0, 0.1}},
                      {Name("adamw"), {4096}, {3e-6}, {0}}};
  c.collectives.add({CollectiveKind::all_reduce, 8, 1, "s", {1024, 4096}, {20, 21}, 1, {}, {}});
  c.collectives.add({CollectiveKind::all_gather, 4, 2, "s", {1024}, {30}, 4, Dtype::bf16, {0.05}});
  c.overlaps = {{1, 1.01, 1.0, 1}, {16, 1.25, 1.5, 1.1}};
  return c;
}

}  // namespace

TEST_CASE("a calibration that is written reads back, and writes the same again") {
  const std::string text = to_toml(everything());
  const Calibration c = parse_calibration(text, "c.toml");
  CHECK(to_toml(c) == text);
  CHECK(c.origin.name == "lab \"A\"");
  CHECK(c.origin.versions.size() == 2);
  CHECK(*c.host.bare_launch_us == doctest::Approx(2.25));
  REQUIRE(c.kernels.shapes.size() == 5);
  // Tables gather what is of one kind and dtype: the second bf16 product follows the first.
  CHECK(c.kernels.shapes[1].shape.m == 64);
  CHECK(c.kernels.shapes[1].seconds == doctest::Approx(20e-6));
  CHECK(c.kernels.shapes[4].shape.kv_heads == 8);
  CHECK(c.kernels.shapes[4].shape.causal);
  CHECK(c.kernels.memory[1].kernel == Name("adamw"));
  CHECK(c.collectives.series()[1].siblings == 4);
  CHECK(c.collectives.series()[1].dtype == Dtype::bf16);
  // A product that takes 1.25 times as long has a fifth of the SMs taken from it.
  CHECK(c.interference()[1].sm == doctest::Approx(0.2));
  CHECK(c.interference()[1].memory == doctest::Approx(1 - 1 / 1.5));
  CHECK(summary(c) ==
        "3 products, 1 attention, 1 convolution, 3 memory-bound sizes, 3 collectives, memory "
        "bandwidth, launches, what an op costs, 2 overlaps");
}

TEST_CASE("the file that docs/calibration.md shows is one, with every part") {
  const std::string page = read_file(STEPCAST_SOURCE_DIR "/docs/calibration.md");
  const std::string fence = "```toml\n";
  const std::size_t begin = page.find(fence) + fence.size();
  const Calibration c =
      parse_calibration(page.substr(begin, page.find("```", begin) - begin), "docs");
  CHECK(summary(c) ==
        "2 products, 1 attention, 1 convolution, 2 memory-bound sizes, 3 collectives, memory "
        "bandwidth, launches, what an op costs, 3 overlaps");
}

TEST_CASE("what is wrong in a calibration is named with its line") {
  const std::string gemms = "[[gemm]]\ndtype = \"bf16\"\nm = [64, 128]\nn = [64, 64]\n";
  CHECK(refusal(head) == "accepted");
  CHECK(contains(refusal("schema = \"other\"\n"), "c.toml:1: schema"));
  CHECK(contains(refusal("schema = \"stepcast.calibration/1\"\n"), "machine: is missing"));
  CHECK(contains(refusal(head + gemms + "k = [64]\ntime_us = [1, 2]\n"),
                 "k: has 1 values where m has 2"));
  CHECK(contains(refusal(head + gemms + "k = [64, 64]\ntime_us = [1, 0]\n"), "more than 0 us"));
  CHECK(contains(refusal(head + gemms + "k = [64, 0.5]\ntime_us = [1, 2]\n"), "out of range"));
  CHECK(contains(refusal(head + gemms + "k = [64, 64.5]\ntime_us = [1, 2]\n"), "no whole number"));
  CHECK(contains(refusal(head + gemms + "k = [64, 64]\ntime_us = [1, 2]\nsped = [0, 0]\n"),
                 "spread"));  // the nearest key
  CHECK(contains(refusal(head + "[[memory_kernel]]\nbytes = [2, 1]\ntime_us = [1, 1]\n"),
                 "1 is out of order"));
  CHECK(contains(refusal(head + "[interference]\nchannels = [4, 4]\ncompute_slowdown = [1, 1]\n"),
                 "4 is out of order"));
  std::string dated = head;
  dated.replace(dated.find("2026-11-30"), 10, "Nov 30, 26");
  CHECK(contains(refusal(dated), "is no date"));
  std::string nameless = head;
  nameless.replace(nameless.find("gpu = \"h100-sxm\"\n"), 17, "");
  CHECK(refusal(nameless) == "accepted");
  CHECK(contains(refusal(nameless + gemms + "k = [64, 64]\ntime_us = [1, 2]\n"),
                 "gpu: is missing, and there are kernels"));
  const std::string twice =
      "[[collective]]\nop = \"all_reduce\"\nranks = 4\nnodes = 1\nsource = \"s\"\nbytes = [8]\n"
      "time_us = [1]\n";
  CHECK(contains(refusal(head + twice + twice), "is there twice"));
}
