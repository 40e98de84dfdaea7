#include "sim/kernels/profile.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.hpp"
#include "sim/kernels/gpu_family.hpp"

using namespace stepcast;

namespace {

std::string message_of(const std::string& text) {
  try {
    parse_profile(text, "p.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every profile of the catalog loads and says where its figures come from") {
  CHECK(catalog_profiles().size() == 14);
  for (const std::string& name : catalog_profiles()) {
    const SoftwareProfile profile = load_profile(name);
    CHECK(profile.name == name);
    CHECK_FALSE(profile.source.empty());
    CHECK_FALSE(profile.description.empty());
    CHECK(profile.launch_us > 0);
    CHECK(profile.host_cost_us("optimizer_step") > 0);
  }
}

TEST_CASE("compiled blocks launch for less than eager ones") {
  CHECK(load_profile("pytorch-compile").launch_us < load_profile("pytorch-eager").launch_us);
  CHECK(load_profile("pytorch-compile").fused_elementwise);
  CHECK_FALSE(load_profile("pytorch-eager").fused_elementwise);
}

TEST_CASE("a misspelt key is refused with its line and the nearest known key") {
  const std::string message = message_of("name = \"x\"\nlaunch_us = 1\nfused_los = true\n");
  CHECK(message.find("p.toml:3") != std::string::npos);
  CHECK(message.find("fused_loss") != std::string::npos);
}

TEST_CASE("negative costs and rates out of range are refused") {
  CHECK(message_of("name = \"x\"\nlaunch_us = -1\n").find("launch_us") != std::string::npos);
  CHECK(
      message_of("name = \"x\"\nlaunch_us = 1\ngemm_efficiency = 2.5\n").find("gemm_efficiency") !=
      std::string::npos);
  CHECK(message_of("name = \"x\"\nlaunch_us = 1\n[host_us]\nddp_hook = -2\n")
            .find("host_us.ddp_hook") != std::string::npos);
}

TEST_CASE("an unknown profile and an unknown host work name what is known") {
  CHECK_THROWS_WITH_AS(load_profile("pytorch-eagre"),
                       doctest::Contains("did you mean 'pytorch-eager'"), InputError);
  CHECK_THROWS_WITH_AS(load_profile("pytorch-eager").host_cost_us("optimiser_step"),
                       doctest::Contains("optimizer_step"), InputError);
}

TEST_CASE("a part belongs to a family by name, by capability, or to the nearest older one") {
  Gpu gpu;
  gpu.compute_capability = 89;
  gpu.name = "l40s";
  CHECK(family_of(gpu).name == "ada");
  gpu.name = "rtx-3090";
  CHECK(family_of(gpu).name == "geforce-ampere");
  gpu.name = "new";
  gpu.compute_capability = 103;
  CHECK(family_of(gpu).name == "blackwell");
}
