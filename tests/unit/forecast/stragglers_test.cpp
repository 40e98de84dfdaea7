// What a step loses to its slowest rank.

#include "sim/forecast/stragglers.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sim/engines/jitter.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

// GPT-2 under DDP, by the profile pytorch-eager with this deviation between ranks.
Report with_jitter(double deviation, int gpus) {
  // Tests run side by side: each its own file.
  const std::string file = "jitter-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "name = \"jitter\"\nbased_on = \"pytorch-eager\"\nsource = \"test\"\n"
                      << "rank_jitter = " << deviation << "\n";
  const Report report =
      forecast(parse_scenario("model = \"gpt2\"\nstrategy = \"ddp\"\ncluster = \"dgx-h100\"\n"
                              "engine = \"formula\"\nmicro_batch = 16\nprofile = \"./" +
                                  file + "\"\ngpus = " + std::to_string(gpus) + "\n",
                              "s.toml"))
          .report;
  std::filesystem::remove(file);
  return report;
}

Seconds slowest_rank(const Report& report) {
  for (const ExposedPart& part : report.split.exposed) {
    if (part.cause == "slowest_rank") return part.seconds;
  }
  return 0;
}

}  // namespace

TEST_CASE("a step waits for the expected slowest of its ranks, deviation by deviation") {
  const Report alike = with_jitter(0, 8);
  const Report apart = with_jitter(0.02, 8);
  CHECK(slowest_rank(alike) == 0);
  // All of the kernels up to the last bucket: 1.4236 deviations of 2 % of it. Behind the last
  // meeting only the optimizer is left, whose part the next step's first meeting counts.
  const Seconds kernels = alike.split.compute + alike.split.copies + alike.split.optimizer;
  const Seconds lost = slowest_rank(apart);
  CHECK(lost == doctest::Approx(largest_of_normals(8).mean * 0.02 * kernels).epsilon(0.03));
  CHECK(apart.step_time == doctest::Approx(alike.step_time + lost));
  CHECK(apart.split.total() == doctest::Approx(apart.step_time));
  CHECK(apart.tokens_per_second * apart.step_time ==
        doctest::Approx(alike.tokens_per_second * alike.step_time));
}

TEST_CASE("more ranks lose more, one loses nothing") {
  CHECK(slowest_rank(with_jitter(0.02, 1)) == 0);
  const double growth = slowest_rank(with_jitter(0.02, 64)) / slowest_rank(with_jitter(0.02, 8));
  // 2.3435 / 1.4236, of kernels that are the same.
  CHECK(growth == doctest::Approx(1.646).epsilon(0.03));
}
