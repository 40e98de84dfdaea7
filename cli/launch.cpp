// stepcast launch: starts a command as several processes, one a rank, by mpirun.
//
// It says to mpirun what one would have to find out: that a container's root may run it, that there
// may be more ranks than cores, that a rank which waits leaves its core to others, and that a rank
// gets time to say what it waited for before it is ended, and that a sweep lives without one.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/launch_hosts.hpp"

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
    if (names_domains(o.hosts)) add({"--mca", "orte_keep_fqdn_hostnames", "1"});
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

pid_t mpirun = -1;

// Starts it and waits for its end; the wait status.
int start(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // What does not start says why through here; the pipe of what starts is closed.
  int why[2];
  if (pipe2(why, O_CLOEXEC) != 0) throw std::runtime_error("launch: no pipe");
  const pid_t here = getpid();
  mpirun = fork();
  if (mpirun < 0) throw std::runtime_error("launch: no process");
  if (mpirun == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // nothing is left running when this process is killed
    if (getppid() == here) execvp(argv[0], argv.data());
    const int code = errno;
    [[maybe_unused]] const auto told = write(why[1], &code, sizeof code);
    _exit(127);
  }
  // What a terminal sends, mpirun has got as well, and a second time it would end at once.
  struct sigaction hand_on {};
  hand_on.sa_flags = SA_SIGINFO;
  hand_on.sa_sigaction = [](int got, siginfo_t* info, void*) {
    if (info->si_code == SI_USER) kill(mpirun, got);
  };
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &hand_on, nullptr);
  close(why[1]);
  int code = 0;
  ssize_t got = 0;
  do {
    got = read(why[0], &code, sizeof code);
  } while (got < 0 && errno == EINTR);
  close(why[0]);
  int status = 0;
  while (waitpid(mpirun, &status, 0) < 0 && errno == EINTR) continue;
  if (got == sizeof code) {
    throw InputError({.file = "mpirun", .line = 0, .key = ""},
                     fmt::format("does not start: {}; Debian: apt-get install openmpi-bin",
                                 std::strerror(code)));
  }
  return status;
}

// The ranks' own codes are 0 to 3. mpirun's are its own, or of a rank that a signal ended; the
// other ranks have said what they waited for.
int code_of(int status, bool on_hosts) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code <= 3) return code;
  std::string why = fmt::format("mpirun ended with code {}", code);
  if (code > 128 && code < 128 + NSIG) {
    why = fmt::format("a rank, or mpirun, was ended by signal {} ({})", code - 128,
                      strsignal(code - 128));
  } else if (on_hosts) {
    why += ": one of --hosts does not let ssh in without a password, or has no program there";
  }
  throw std::runtime_error("launch: " + why);
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
  if (!o.hosts.empty()) check_hosts(o.hosts, o.ranks);
  if (!o.network.empty() && o.hosts.empty()) check_network(o);
  const std::vector<std::string> words = command_line(o, rest);
  if (o.print_only) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
    print(text + "\n");
    return 0;
  }
  // Who starts ranks in another way than by ssh knows its own names.
  if (!o.hosts.empty() && std::getenv("OMPI_MCA_plm_rsh_agent") == nullptr) {
    check_hosts_are_known(o.hosts);
  }
  return code_of(start(words), !o.hosts.empty());
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
