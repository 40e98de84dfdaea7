#pragma once
// The processes that answer `stepcast serve`'s questions: one a question, forked from a nursery
// that has read the catalog and forecast a step already. A simulation that crashes, hangs or eats
// memory ends with its process, and SimGrid, which is one engine a process, is new for each.
//
//   server (threads) --- socket ---> nursery (one thread) --- fork ---> worker
//          \________________ socketpair, its other end sent along _______/
//
// The nursery is forked before the server has threads or a port, and does nothing but fork: it
// cannot crash by what a question holds. A worker says its process id, reads the question, writes
// the answer and ends. It has a time (SIGALRM), an address space and a life (PR_SET_PDEATHSIG) that
// end without anybody's help.
//
// Cost: a fork of a process of some 50 MB, about a millisecond. Tested by
// tests/page/serve_test.cpp.

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "cli/serve_answers.hpp"

namespace stepcast::cli {

class Workers {
 public:
  // Forks the nursery: before any thread is started. `most`: workers at one time.
  Workers(int most, int time_limit_s);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // From any thread. `page` names who asks: a newer question of the same page with `supersedes`
  // ends older ones, which get status 409. Waits a while for a free worker: status 503.
  Answer ask(const Question& question, const std::string& page, bool supersedes);

 private:
  int hire();  // a socket to a new worker, -1: none
  Answer listen(int socket, const std::string& page, std::uint64_t asked);
  bool superseded(const std::string& page, std::uint64_t asked);

  int most_;
  int time_limit_s_;
  int nursery_ = -1;  // socket
  int nursery_process_ = -1;
  std::mutex mutex_;
  std::condition_variable freed_;
  int working_ = 0;
  std::map<std::string, std::uint64_t> latest_;  // by page: the number of its last question
  std::uint64_t count_ = 0;
};

}  // namespace stepcast::cli
