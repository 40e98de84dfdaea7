#pragma once
// Which process of a job this is: what torchrun, Slurm or mpirun have put into the environment.
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Slurm      SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NTASKS_PER_NODE; the first host of
//              SLURM_JOB_NODELIST
//   Open MPI   OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_RANK, ..._LOCAL_SIZE
//
// MASTER_ADDR and MASTER_PORT count whoever started the job; 29500 where no port is given. Under
// torchrun the port is its own store's, so the next one is taken. With none of them the program is
// alone. Tested by tests/unit/cuda/environment_test.cpp.

#include <functional>
#include <optional>
#include <string>

namespace stepcast::runtime {

struct Job {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string address = "127.0.0.1";  // where rank 0 is
  int port = 0;
  std::string launcher;  // "torchrun", for messages
  int local_ranks = 0;   // of this host; 0: the launcher does not say
};

// `get` is getenv. Nothing where no launcher has spoken; throws InputError naming the variable
// that is missing or is no number.
std::optional<Job> job_of_environment(const std::function<const char*(const char*)>& get);

// "node[03-05,9],login" -> "node03"
std::string first_host(const std::string& slurm_list);

}  // namespace stepcast::runtime
