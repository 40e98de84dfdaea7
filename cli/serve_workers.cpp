#include "cli/serve_workers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace stepcast::cli {

namespace {

constexpr rlim_t worker_memory = 6ull << 30;  // bytes of address space
constexpr std::size_t longest_question = 64u << 10;
constexpr int most_pages = 10000;            // whose last question is remembered
constexpr std::chrono::seconds patience{5};  // for a free worker

// ---- Sockets
// -------------------------------------------------------------------------------------
bool send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// One byte with a descriptor beside it.
bool send_descriptor(int socket, int descriptor) {
  char byte = 'w';
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

// -1: the other side has ended.
int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

// ---- The worker
// ---------------------------------------------------------------------------------- A question
// goes as lines: what, then key and value in turn. Values hold no line ends (serve.cpp).
std::string lines_of(const Question& question) {
  std::string text = question.what + "\n";
  for (const auto& [key, value] : question.keys) text += key + "\n" + value + "\n";
  return text;
}

Question question_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  Question question;
  if (!lines.empty()) question.what = lines.front();
  for (std::size_t i = 1; i + 1 < lines.size(); i += 2) {
    question.keys.emplace_back(lines[i], lines[i + 1]);
  }
  return question;
}

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__)  // which reserves terabytes
  const rlimit memory{worker_memory, worker_memory};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

[[noreturn]] void work(int socket, int time_limit_s) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGCHLD, SIG_DFL);
  ::alarm(static_cast<unsigned>(time_limit_s));
  limit_memory();
  send_all(socket, fmt::format("{}\n", ::getpid()));
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = ::read(socket, part.data(), part.size());
    if (got <= 0 || text.size() > longest_question) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  const Answer made = answer(question_of(text));
  send_all(socket, fmt::format("{}\n{}\n{}\n", made.status, made.type, made.body.size()));
  send_all(socket, made.body);
  ::_exit(0);  // what is static belongs to the nursery
}

[[noreturn]] void nurse(int socket, int time_limit_s) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);   // Ctrl-C is the server's; the nursery ends when that has
  std::signal(SIGCHLD, SIG_IGN);  // nobody waits for workers
  for (;;) {
    const int worker = receive_descriptor(socket);
    if (worker < 0) ::_exit(0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(socket);
      work(worker, time_limit_s);
    }
    ::close(worker);  // without a child the server hears the end of it
  }
}

// The next line of `text` from `at`; false where it has not come whole.
bool take_line(const std::string& text, std::size_t& at, std::string& line) {
  const std::size_t end = text.find('\n', at);
  if (end == std::string::npos) return false;
  line = text.substr(at, end - at);
  at = end + 1;
  return true;
}

long number_of(const std::string& text) {
  long value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

// ---- The server's side
// ---------------------------------------------------------------------------
Workers::Workers(int most, int time_limit_s) : most_(most), time_limit_s_(time_limit_s) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error(std::string("serve got no socket: ") + std::strerror(errno));
  }
  std::fflush(nullptr);
  nursery_process_ = ::fork();
  if (nursery_process_ < 0) {
    throw std::runtime_error(std::string("serve got no process: ") + std::strerror(errno));
  }
  if (nursery_process_ == 0) {
    ::close(ends[0]);
    nurse(ends[1], time_limit_s);
  }
  ::close(ends[1]);
  nursery_ = ends[0];
}

Workers::~Workers() {
  ::close(nursery_);
  ::kill(nursery_process_, SIGKILL);  // its workers end with it
  ::waitpid(nursery_process_, nullptr, 0);
}

int Workers::hire() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  const bool sent = send_descriptor(nursery_, ends[1]);
  ::close(ends[1]);
  if (sent) return ends[0];
  ::close(ends[0]);
  return -1;
}

bool Workers::superseded(const std::string& page, std::uint64_t asked) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last = latest_.find(page);
  return last != latest_.end() && last->second > asked;
}

Answer Workers::ask(const Question& question, const std::string& page, bool supersedes) {
  std::uint64_t asked = 0;
  int socket = -1;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    asked = ++count_;
    if (latest_.size() > most_pages) latest_.clear();
    if (supersedes && !page.empty()) latest_[page] = asked;
    if (!freed_.wait_for(lock, patience, [&] { return working_ < most_; })) {
      return refusal(503, "every worker is busy; accepted: the same in a few seconds");
    }
    ++working_;
    socket = hire();
  }
  Answer made = refusal(503, "no worker could be started; accepted: the same later");
  if (socket >= 0) {
    if (send_all(socket, lines_of(question))) {
      ::shutdown(socket, SHUT_WR);
      made = listen(socket, page, asked);
    }
    ::close(socket);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --working_;
  }
  freed_.notify_one();
  return made;
}

Answer Workers::listen(int socket, const std::string& page, std::uint64_t asked) {
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  std::string heard;
  const auto end_worker = [&] {
    std::size_t at = 0;
    std::string line;
    // Only while its socket is open: a process that has ended may have left its number to another.
    if (take_line(heard, at, line) && number_of(line) > 1) {
      ::kill(static_cast<pid_t>(number_of(line)), SIGKILL);
    }
  };
  std::array<char, 65536> part{};
  for (;;) {
    pollfd ready{socket, POLLIN, 0};
    const int events = ::poll(&ready, 1, 50);
    if (events < 0 && errno != EINTR) break;
    if (events > 0) {
      const ssize_t got = ::read(socket, part.data(), part.size());
      if (got <= 0) break;
      heard.append(part.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (superseded(page, asked)) {
      end_worker();
      return refusal(409, "a newer question of this page took its place");
    }
    if (elapsed_s() > time_limit_s_ + 2) {  // its own alarm did not end it
      end_worker();
      break;
    }
  }
  std::size_t at = 0;
  std::string process, status, type, length;
  if (take_line(heard, at, process) && take_line(heard, at, status) && take_line(heard, at, type) &&
      take_line(heard, at, length) &&
      heard.size() - at == static_cast<std::size_t>(number_of(length))) {
    return {static_cast<int>(number_of(status)), type, heard.substr(at)};
  }
  if (elapsed_s() >= time_limit_s_) {
    return refusal(504, fmt::format("took longer than {} s; accepted: a step of fewer operations, "
                                    "the formula engine, or a longer --time-limit",
                                    time_limit_s_));
  }
  return refusal(500, "the worker ended without an answer: a fault of stepcast's own");
}

}  // namespace stepcast::cli
