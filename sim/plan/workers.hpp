#pragma once
// Independent pieces of work on all cores: forked processes, because SimGrid has one engine a
// process and interned names belong to one thread.
//
//   std::vector<std::string> answers = in_workers(30, cores(), [&](int i) { return work(i); });
//
// Who is free takes the next number, so that one long piece does not hold up the others. Answers
// come back as bytes, in the order of the numbers. What a piece throws is thrown here: of several
// the one with the smallest number, InputError and InfeasibleError as such. With one worker nothing
// is forked. Tested by tests/unit/plan/workers_test.cpp.

#include <functional>
#include <string>
#include <vector>

namespace stepcast {

int cores();  // that this process may use

// `done` is told how many are done, after each.
std::vector<std::string> in_workers(int pieces, int workers,
                                    const std::function<std::string(int)>& work,
                                    const std::function<void(int)>& done = {});

}  // namespace stepcast
