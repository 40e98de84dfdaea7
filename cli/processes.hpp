#pragma once
// A command whose process is one rank of several, started by mpirun or `stepcast launch`.

#include <functional>
#include <string>

#include "cli/command.hpp"
#include "runtime/cpu/executor.hpp"

namespace stepcast::cli {

// Prepares on every rank, and runs when all are prepared; what is wrong with the input is said
// once, by rank 0. A rank whose run fails says so with its number and ends with exit code 1.
int as_one_rank(runtime::Wire& wire, const std::function<Run()>& prepare);

// On threads of this process, or as one rank of several: the timeline is rank 0's.
runtime::Execution execute_here(runtime::Wire* wire, const Schedule& schedule, runtime::Work& work,
                                runtime::ExecuteOptions how);

// What rank 0 gives, on every rank.
std::string from_rank_0(runtime::Wire& wire, const std::string& text);

// --executor: empty, threads, mpi or nccl. Threads do not go with mpirun: `would` says what they
// would do in each process.
void check_executor(const std::string& executor, const std::string& would);

// SIGTERM and SIGINT set it from here on: mpirun ends the ranks of a run whose first has died, and
// they are to say what they waited for.
const std::atomic<bool>* end_on_signals();

}  // namespace stepcast::cli
