#include "sim/sweep/ranks.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/version.hpp"

namespace stepcast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* first_line = "stepcast sweep ranks 1";
constexpr std::uint32_t greeting = 0x53574550;

// The first of these that is set and a number; -1: none.
int number_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

std::string text_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return text;
  }
  return "";
}

std::string file_of(const std::string& database) { return database + ".ranks"; }

struct Meeting {
  bool done = false;
  std::string token;
  int port = 0;
  std::vector<std::string> addresses;
};

// What FILE.ranks says to this job.
std::optional<Meeting> meeting_of(const std::string& file, const std::string& job) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return std::nullopt;
  std::string text;
  try {
    text = read_file(file, 1 << 16);
  } catch (const InputError&) {
    return std::nullopt;  // just being replaced
  }
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != first_line) return std::nullopt;
  Meeting meeting;
  bool ours = false;
  while (std::getline(lines, line)) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = line.substr(0, space), value = line.substr(space + 1);
    if (name == "job") ours = value == job;
    if (name == "state") meeting.done = value == "done";
    if (name == "token") meeting.token = value;
    if (name == "port") meeting.port = std::atoi(value.c_str());
    if (name == "address") meeting.addresses.push_back(value);
  }
  if (!ours) return std::nullopt;
  return meeting;
}

void write_private(const std::string& file, const std::string& text) {
  const mode_t before = ::umask(0077);
  try {
    write_file(file, text);
  } catch (...) {
    ::umask(before);
    throw;
  }
  ::umask(before);
}

std::string random_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

// IPv4 addresses of this host, those that others reach first.
std::vector<std::string> own_addresses() {
  std::vector<std::string> list;
  struct ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (struct ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      char text[INET_ADDRSTRLEN] = "";
      const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) == nullptr) continue;
      if (std::string(text).starts_with("127.")) continue;
      list.emplace_back(text);
    }
    freeifaddrs(all);
  }
  list.emplace_back("127.0.0.1");
  return list;
}

// A blocking socket to it, or -1.
int connect_within(const std::string& address, int port, int milliseconds) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (socket < 0 || inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) {
    if (socket >= 0) ::close(socket);
    return -1;
  }
  bool good = ::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  if (!good && errno == EINPROGRESS) {
    pollfd wait{socket, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    good = ::poll(&wait, 1, milliseconds) == 1 &&
           ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  if (!good) {
    ::close(socket);
    return -1;
  }
  const int flags = ::fcntl(socket, F_GETFL);
  ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
  return socket;
}

void answer_within(int socket, int seconds) {  // 0: whenever
  const timeval limit{seconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void at_once(int socket) {  // small messages are not collected
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  const int idle = 10, interval = 5, tries = 4;  // a host that went without a word: half a minute
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

}  // namespace

Ranks Ranks::from_environment() {
  Ranks r;
  const int rank = number_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  const int size = number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (rank >= 0 && size > rank) {
    r.rank = rank;
    r.size = size;
    r.on_host = std::max(1, number_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}));
    r.job = text_of({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"});
  } else {
    const int task = number_of({"SLURM_PROCID"}), tasks = number_of({"SLURM_STEP_NUM_TASKS"});
    if (task < 0 || tasks <= task) return r;
    r.rank = task;
    r.size = tasks;
    r.on_host = std::max(1, number_of({"SLURM_STEP_TASKS_PER_NODE"}));  // "2(x3)": 2
    r.job = text_of({"SLURM_JOB_ID"}) + "." + text_of({"SLURM_STEP_ID"});
  }
  std::replace(r.job.begin(), r.job.end(), '\n', ' ');
  return r;
}

int default_jobs(const Ranks& ranks) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  const int count =
      known ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, count / ranks.on_host);
}

Door::Door(const Ranks& ranks, const std::string& database, std::string fingerprint)
    : file_(file_of(database)),
      token_(random_token()),
      fingerprint_(std::move(fingerprint)),
      job_(ranks.job),
      expected_(ranks.size - 1),
      come_(static_cast<std::size_t>(ranks.size), false) {
  const bool one_host = ranks.on_host >= ranks.size;
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof any;
  auto* name = reinterpret_cast<sockaddr*>(&any);
  if (listener_ < 0 || ::bind(listener_, name, size) != 0 || ::listen(listener_, 512) != 0 ||
      ::getsockname(listener_, name, &size) != 0) {
    throw std::runtime_error(
        fmt::format("no socket for the other ranks: {}", std::strerror(errno)));
  }
  std::string text = fmt::format("{}\njob {}\nstate open\ntoken {}\nport {}\n", first_line, job_,
                                 token_, ntohs(any.sin_port));
  const std::vector<std::string> addresses =
      one_host ? std::vector<std::string>{"127.0.0.1"} : own_addresses();
  for (const std::string& address : addresses) text += "address " + address + "\n";
  write_private(file_, text);
}

Door::~Door() {
  if (listener_ >= 0) ::close(listener_);
  std::error_code none;
  if (std::count(come_.begin(), come_.end(), true) >= expected_) {
    std::filesystem::remove(file_, none);
    return;
  }
  try {
    write_private(file_, fmt::format("{}\njob {}\nstate done\n", first_line, job_));
  } catch (const std::exception&) {
    std::filesystem::remove(file_, none);
  }
}

Channel Door::accept() {
  const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) at_once(socket);
  return Channel(socket);
}

bool Door::greet(Channel& channel, const std::string& hello, std::string& why) {
  Reader reader(hello);
  const std::uint32_t word = reader.number();
  const std::string token = reader.text(), fingerprint = reader.text();
  const std::uint32_t rank = reader.number();
  if (!reader.good() || word != greeting || token != token_ || rank >= come_.size()) return false;
  come_[rank] = true;
  if (fingerprint != fingerprint_) {
    why = fmt::format(
        "rank {} sees other points than rank 0 (its files, or its stepcast, differ): "
        "it takes no part",
        rank);
    channel.send(Writer().number(0).text(token_).text(why).done());
    return false;
  }
  return channel.send(Writer().number(greeting).text(token_).text("").done());
}

bool rank_0_listens(const Ranks& ranks, const std::string& database,
                    std::chrono::seconds patience) {
  const auto until = Clock::now() + patience;
  do {
    if (meeting_of(file_of(database), ranks.job)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  return false;
}

Channel connect_to_rank_0(const Ranks& ranks, const std::string& database,
                          const std::string& fingerprint, std::chrono::seconds patience) {
  const std::string file = file_of(database);
  const auto until = Clock::now() + patience;
  bool met = false;
  do {
    if (const std::optional<Meeting> meeting = meeting_of(file, ranks.job)) {
      if (meeting->done) return Channel();
      met = true;
      for (const std::string& address : meeting->addresses) {
        Channel channel(connect_within(address, meeting->port, 3000));
        if (!channel.open()) continue;
        answer_within(channel.socket(), 10);
        at_once(channel.socket());
        channel.send(Writer()
                         .number(greeting)
                         .text(meeting->token)
                         .text(fingerprint)
                         .number(static_cast<std::uint32_t>(ranks.rank))
                         .done());
        const std::optional<std::string> answer = channel.receive();
        if (!answer) continue;
        Reader reader(*answer);
        const bool welcome = reader.number() == greeting;
        if (reader.text() != meeting->token || !reader.good()) continue;
        if (!welcome) throw InputError(reader.text());
        answer_within(channel.socket(), 0);
        return channel;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  throw InputError(
      {file, 0, ""},
      fmt::format("rank {} {} rank 0 in {} s; accepted: a database in a folder that "
                  "all ranks see, on hosts that reach each other",
                  ranks.rank, met ? "does not reach" : "does not find", patience.count()));
}

}  // namespace stepcast
