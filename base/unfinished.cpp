#include "base/unfinished.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

namespace stepcast {

namespace {

// A signal's handler may read no more than these.
char path_there[4096];
volatile sig_atomic_t is_there = 0;

void end(int signal) {
  if (is_there != 0) ::unlink(path_there);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

Unfinished::Unfinished(const std::string& path) {
  if (path.size() >= sizeof path_there) return;
  *std::copy(path.begin(), path.end(), path_there) = '\0';
  is_there = 1;
}

Unfinished::~Unfinished() { is_there = 0; }

void remove_unfinished_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_DFL) continue;
    now.sa_handler = end;
    sigaction(signal, &now, nullptr);
  }
}

}  // namespace stepcast
