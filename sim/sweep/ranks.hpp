#pragma once
// One sweep on many processes that mpirun, `stepcast launch` or srun started, one a rank.
//
// The command is the same on every rank, so every rank enumerates the same points; rank 0 owns the
// database and gives out numbers of points over TCP (dispatcher.hpp), the others answer with
// results. It is not MPI that carries them: a sweep has no collective step, and MPI ends all ranks
// when one dies, while here the loss of a rank costs the points that it had in hand. The launcher's
// environment says who is which rank, and a file beside the database, FILE.ranks, where rank 0
// listens: all ranks see that folder anyway, for they read the same scenario.
//
//   FILE.ranks   mode 0600, written by rank 0: the launcher's job (a file of an earlier job is
//                passed over), a random token that both sides must know, port and addresses. Gone
//                when all ranks have come and gone; where one has not come, it says "done" for it.
//
// Where all ranks are on one host rank 0 listens on the loopback interface only.
//
// A rank that dies: mpirun's default is to end the whole job then. What was done is in the database
// and the same command goes on from there; `mpirun --enable-recovery` (Open MPI 4; `stepcast
// launch` says it) or `srun --kill-on-bad-exit=0` leave the others running, and the dead rank's
// points are given out again. Rank 0 dies: the others end with exit code 1, and the same command
// goes on.
//
// Tested by tests/cli/sweep_test.cpp, and under mpirun by tests/mpi.

#include <chrono>
#include <string>
#include <vector>

#include "sim/sweep/channel.hpp"

namespace stepcast {

struct Ranks {
  int rank = 0;
  int size = 1;
  int on_host = 1;  // ranks on this host
  std::string job;  // the launcher's name of it

  // From the environment of Open MPI, PMI (MPICH, Intel) or Slurm; without one: rank 0 of 1.
  static Ranks from_environment();
};

// How many workers a rank starts when nobody says: the cores it may use, shared with the other
// ranks of the host.
int default_jobs(const Ranks& ranks);

// Rank 0's door. Removes or finishes FILE.ranks when it goes.
class Door {
 public:
  // `fingerprint`: what the ranks must agree on.
  Door(const Ranks& ranks, const std::string& database, std::string fingerprint);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  int socket() const { return listener_; }
  Channel accept();
  // Whether the first message of a connection is one of ours, and answers it. `why`: to say aloud,
  // where a rank sees other points than rank 0.
  bool greet(Channel& channel, const std::string& hello, std::string& why);

 private:
  std::string file_, token_, fingerprint_, job_;
  int listener_ = -1;
  int expected_ = 0;
  std::vector<bool> come_;  // by rank
};

// From another rank to rank 0. A closed channel: rank 0 has finished already. Throws InputError
// where rank 0 is not found in time, or sees other points.
Channel connect_to_rank_0(const Ranks& ranks, const std::string& database,
                          const std::string& fingerprint,
                          std::chrono::seconds patience = std::chrono::seconds(60));

// Whether rank 0 of this job has got as far as to listen.
bool rank_0_listens(const Ranks& ranks, const std::string& database, std::chrono::seconds patience);

}  // namespace stepcast
