// stepcast launch: starts a command as several processes, one a rank, by mpirun.
//
// It says to mpirun what one would have to find out: that a container's root may run it, that there
// may be more ranks than cores, that a rank which waits leaves its core to others, and that a rank
// gets time to say what it waited for before it is ended, and that a sweep lives without one.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

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
  // A sweep goes on without a rank that died; a step does not.
  if (rest.front() == "sweep") add({"--enable-recovery"});
  if (!o.network.empty()) {
    add({"--mca", "btl", "tcp,self"});
    words.insert(words.end(), {"--mca", "btl_tcp_if_include", o.network});
  }
  std::error_code error;
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

// NAME or NAME:SLOTS, with enough slots for all ranks; mpirun's own words name no flag.
void check_hosts(const Options& o) {
  static constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  long slots = 0;
  for (std::size_t at = 0; at <= o.hosts.size();) {
    const std::size_t end = std::min(o.hosts.find(',', at), o.hosts.size());
    const std::string host = o.hosts.substr(at, end - at);
    const std::string name = host.substr(0, host.find(':'));
    long number = 1;
    if (name.size() < host.size()) {
      const char* first = host.data() + name.size() + 1;
      const auto [last, error] = std::from_chars(first, host.data() + host.size(), number);
      if (error != std::errc{} || last != host.data() + host.size()) number = 0;
    }
    if (name.empty() || name.front() == '-' || number < 1 || number > 256 ||
        name.find_first_not_of(letters) != std::string::npos) {
      throw InputError(flag("--hosts"),
                       fmt::format("'{}' is not accepted; accepted: names with slots from 1, as "
                                   "a:2,b:2",
                                   host.substr(0, 80)));
    }
    slots += number;
    at = end + 1;
  }
  if (slots < o.ranks) {
    throw InputError(flag("--hosts"), fmt::format("has {} slots for {} ranks; accepted: at least a "
                                                  "slot a rank, as a:2,b:2",
                                                  slots, o.ranks));
  }
}

// mpirun says nothing of an interface that is not there, and may hang. Other hosts' are theirs.
void check_network(const Options& o) {
  for (std::size_t at = 0; at <= o.network.size();) {
    const std::size_t end = std::min(o.network.find(',', at), o.network.size());
    const std::string name = o.network.substr(at, end - at);
    at = end + 1;
    if (name.find('/') != std::string::npos) continue;  // a subnet
    if (!name.empty() && if_nametoindex(name.c_str()) != 0) continue;
    std::vector<std::string> known;
    if (struct if_nameindex* all = if_nameindex()) {
      for (struct if_nameindex* each = all; each->if_index != 0; ++each) {
        known.emplace_back(each->if_name);
      }
      if_freenameindex(all);
    }
    throw InputError(flag("--network"),
                     fmt::format("no interface '{}' here; accepted: {}, or a subnet as 10.0.0.0/24",
                                 name.substr(0, 80), fmt::join(known, ", ")));
  }
}

// As a shell would take it for one word.
std::string quoted(const std::string& word) {
  static constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_/:,=+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      text += "'\\''";
    } else {
      text += letter;
    }
  }
  return text + "'";
}

int go(const Options& o, std::vector<std::string> rest) {
  if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
  if (rest.empty()) {
    throw InputError({.file = "launch", .line = 0, .key = ""},
                     "starts nothing without a command; accepted: run SCENARIO ...");
  }
  const std::vector<std::string> known{"run", "calibrate", "validate", "sweep"};
  if (std::find(known.begin(), known.end(), rest.front()) == known.end()) {
    throw not_accepted({.file = "launch", .line = 0, .key = ""}, rest.front(), known);
  }
  if (!o.hosts.empty()) check_hosts(o);
  if (!o.network.empty() && o.hosts.empty()) check_network(o);
  const std::vector<std::string> words = command_line(o, rest);
  if (o.print_only) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
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
