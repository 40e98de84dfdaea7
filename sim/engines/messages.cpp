// One run of collectives by messages, in a process of its own. What a collective's messages are:
// message_pipelines.cpp; what they wait for on their way: message_traffic.cpp.

#include "sim/engines/messages.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <simgrid/s4u.hpp>
#include <stdexcept>

#include "base/error.hpp"
#include "sim/engines/constraint.hpp"
#include "sim/engines/message_traffic.hpp"
#include "sim/engines/simgrid_flows.hpp"

namespace stepcast {
namespace {

// The ends, by collective.
std::vector<Seconds> run_here(const MessagesInput& input) {
  static int count = 2;
  static std::array<char, 9> program{"stepcast"};
  static std::array<char, 27> quiet{"--log=root.thresh:critical"};
  static char* arguments[] = {program.data(), quiet.data(), nullptr};
  auto& engine = *new simgrid::s4u::Engine(&count, arguments);  // never destroyed: a process' only
  SimgridFlows::configure();
  SimgridFlows flows(input.links, input.connections);
  std::vector<Seconds> ends(input.collectives.size(), 0);
  MessageTraffic traffic(input.connections, flows, [&ends](int number) {
    ends[at(number)] = simgrid::s4u::Engine::get_clock();
  });
  for (std::size_t c = 0; c < input.collectives.size(); ++c) {
    traffic.begin(input.collectives[c], static_cast<int>(c));
  }
  engine.run();
  STEPCAST_ASSERT(traffic.under_way() == 0, "messages that never came");
  return ends;
}

// All of it through the pipe, or false.
bool write_all(int pipe, const std::vector<Seconds>& values) {
  const char* from = reinterpret_cast<const char*>(values.data());
  std::size_t left = values.size() * sizeof(Seconds);
  while (left > 0) {
    const ssize_t n = write(pipe, from, left);
    if (n <= 0) return false;
    from += n;
    left -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int pipe, std::vector<Seconds>& values) {
  char* into = reinterpret_cast<char*>(values.data());
  std::size_t left = values.size() * sizeof(Seconds);
  while (left > 0) {
    const ssize_t n = read(pipe, into, left);
    if (n <= 0) return false;
    into += n;
    left -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

std::int64_t count_messages(const MessageCollective& collective) {
  std::int64_t count = 0;
  for (const auto& pipeline : pipelines_of(collective, 0)) count += pipeline->messages();
  return count;
}

std::int64_t count_messages(const MessagesInput& input) {
  std::int64_t count = 0;
  for (const MessageCollective& each : input.collectives) count += count_messages(each);
  return count;
}

MessagesResult simulate_messages(const MessagesInput& input) {
  MessagesResult result;
  result.messages = count_messages(input);
  result.ends.resize(input.collectives.size());
  if (!SimgridFlows::possible()) {
    throw std::runtime_error(
        "the messages engine cannot run after the fluid engine in one process: SimGrid keeps the "
        "model it was first given");
  }
  std::fflush(nullptr);  // or what is buffered would be written twice
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("the messages engine got no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("the messages engine got no process");
  if (child == 0) {
    close(ends[0]);
    bool done = false;
    try {
      done = write_all(ends[1], run_here(input));
    } catch (...) {
      done = false;
    }
    _exit(done ? 0
               : 1);  // neither SimGrid's nor our own clean-up: it is the parent's process image
  }
  close(ends[1]);
  const bool heard = read_all(ends[0], result.ends);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!heard || status != 0) throw std::runtime_error("the messages engine's process failed");
  for (const Seconds end : result.ends) result.seconds = std::max(result.seconds, end);
  return result;
}

}  // namespace stepcast
