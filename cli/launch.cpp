// stepcast launch: starts a command as several processes, one a rank, by mpirun.
//
// It says to mpirun what one would have to find out: that a container's root may run it, that there
// may be more ranks than cores, that a rank which waits leaves its core to others, and that a rank
// gets time to say what it waited for before it is ended.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  int ranks = 0;
  std::string hosts;
  std::string network;
  bool print_only = false;
};

std::vector<std::string> command_line(const Options& o, const std::vector<std::string>& rest) {
  std::vector<std::string> words{"mpirun", "-n", std::to_string(o.ranks), "--quiet"};
  const auto add = [&](std::initializer_list<const char*> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (geteuid() == 0) add({"--allow-run-as-root"});
  if (o.hosts.empty()) {
    add({"--oversubscribe"});
  } else {
    words.insert(words.end(), {"--host", o.hosts, "--map-by", "node"});
  }
  add({"--bind-to", "none"});
  add({"--mca", "mpi_yield_when_idle", "1"});
  add({"--mca", "odls_base_sigkill_timeout", "2"});  // seconds from SIGTERM to SIGKILL
  add({"--mca", "btl_base_warn_component_unused", "0"});
  // A slice of a ring (wire_ring.cpp) goes at once. With a question before it, the answer would
  // wait behind what the receiver is sending itself.
  add({"--mca", "btl_tcp_eager_limit", "139264", "--mca", "btl_tcp_max_send_size", "139264"});
  if (!o.network.empty()) {
    add({"--mca", "btl", "tcp,self"});
    words.insert(words.end(), {"--mca", "btl_tcp_if_include", o.network});
  }
  std::error_code error;
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

int go(const Options& o, std::vector<std::string> rest) {
  if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
  if (rest.empty()) {
    throw InputError({.file = "launch", .line = 0, .key = ""},
                     "starts nothing without a command; accepted: run SCENARIO ...");
  }
  const std::vector<std::string> known{"run", "calibrate", "validate"};
  if (std::find(known.begin(), known.end(), rest.front()) == known.end()) {
    throw not_accepted({.file = "launch", .line = 0, .key = ""}, rest.front(), known);
  }
  const std::vector<std::string> words = command_line(o, rest);
  if (o.print_only) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    print(text + "\n");
    return 0;
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw InputError(
      {.file = "mpirun", .line = 0, .key = ""},
      fmt::format("does not start: {}; Debian: apt-get install openmpi-bin", std::strerror(errno)));
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  command.add_option("-n,--ranks", o->ranks, "processes, one a rank")
      ->required()
      ->check(CLI::Range(1, 256))
      ->option_text("N");
  command.add_option("--hosts", o->hosts, "where: names with slots, as a:2,b:2 (default: here)")
      ->option_text("LIST");
  command.add_option("--network", o->network, "TCP over this interface or subnet only")
      ->option_text("NAME");
  command.add_flag("--print", o->print_only, "print the command line of mpirun, start nothing");
  return [o, &command] { return go(*o, command.remaining()); };
}

}  // namespace

const Command launch_command{
    "launch", "run as several processes, on one or many hosts, by mpirun",
    "  stepcast launch -n 4 run --model residual-mlp --cluster dgx-h100 --gpus 4 --strategy ddp\n"
    "  stepcast launch -n 4 --hosts node1:2,node2:2 --network 10.0.0.0/24 run step.toml",
    add, true};

}  // namespace stepcast::cli
