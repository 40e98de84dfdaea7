// What launchers say about a process.

#include "runtime/cuda/environment.hpp"

#include <doctest/doctest.h>

#include <map>

#include "base/error.hpp"

namespace stepcast::runtime {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Job> job(const Variables& variables) {
  return job_of_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refused(const Variables& variables) {
  try {
    job(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("without a launcher the program is alone") {
  CHECK(!job({}));
  CHECK(!job({{"MASTER_ADDR", "node1"}}));
}

TEST_CASE("torchrun's variables are read, and its own port is left to it") {
  const auto j = job({{"RANK", "3"},
                      {"WORLD_SIZE", "8"},
                      {"LOCAL_RANK", "1"},
                      {"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29400"},
                      {"TORCHELASTIC_RUN_ID", "none"}});
  REQUIRE(j);
  CHECK(j->rank == 3);
  CHECK(j->ranks == 8);
  CHECK(j->local_rank == 1);
  CHECK(j->local_ranks == 0);  // not said
  CHECK(j->address == "node1");
  CHECK(j->port == 29401);  // the store of torchrun listens on 29400
}

TEST_CASE("Slurm's first host is where rank 0 is") {
  const auto j = job({{"SLURM_PROCID", "5"},
                      {"SLURM_NTASKS", "6"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_JOB_NODELIST", "gpu[07-09],gpu12"}});
  REQUIRE(j);
  CHECK(j->address == "gpu07");
  CHECK(j->port == 29500);
  CHECK(j->launcher == "Slurm");
  CHECK(first_host("a,b") == "a");
  CHECK(first_host("n[3,5]") == "n3");
  CHECK(first_host("single") == "single");
}

TEST_CASE("mpirun's variables are read, one rank needs no address") {
  const auto j = job({{"OMPI_COMM_WORLD_RANK", "0"},
                      {"OMPI_COMM_WORLD_SIZE", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  REQUIRE(j);
  CHECK(j->address == "127.0.0.1");
}

TEST_CASE("a variable that is missing or no number is named with what is accepted") {
  CHECK(refused({{"RANK", "0"}}) ==
        "environment: WORLD_SIZE: is not set, but RANK is: torchrun sets both");
  CHECK(refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}) ==
        "environment: RANK: '4' is not accepted; accepted: 0 to 3");
  CHECK(refused({{"RANK", "0"}, {"WORLD_SIZE", "two"}}) ==
        "environment: WORLD_SIZE: 'two' is not accepted; accepted: 1 to 1048576");
  CHECK(refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}) ==
        "environment: MASTER_ADDR: is not set, but RANK is: torchrun sets both");
}

}  // namespace
}  // namespace stepcast::runtime
