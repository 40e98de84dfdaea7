// One run of collectives by messages, in a process of its own. What a collective's messages are:
// message_pipelines.cpp; what they wait for on their way: message_traffic.cpp.

#include "sim/engines/messages.hpp"

#include <algorithm>
#include <array>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "sim/engines/child_process.hpp"
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
  if (!SimgridFlows::possible()) {
    throw std::runtime_error(
        "the messages engine cannot run after the fluid engine in one process: SimGrid keeps the "
        "model it was first given");
  }
  const std::string ends = output_of_child([&input] {
    std::string bytes;
    put(bytes, run_here(input));
    return bytes;
  });
  std::size_t from = 0;
  result.ends = take<Seconds>(ends, from);
  for (const Seconds end : result.ends) result.seconds = std::max(result.seconds, end);
  return result;
}

}  // namespace stepcast
