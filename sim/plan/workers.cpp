#include "sim/plan/workers.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>

#include "base/error.hpp"

namespace stepcast {
namespace {

enum class Tag : std::uint8_t { answer, input, infeasible, fault };

struct Head {
  std::int32_t piece = 0;
  Tag tag = Tag::answer;
  std::uint64_t bytes = 0;
};

[[noreturn]] void throw_errno(const char* what) {
  throw std::runtime_error(std::string("workers: ") + what + ": " + std::strerror(errno));
}

bool read_all(int fd, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = write(fd, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

std::pair<Tag, std::string> answer_of(const std::function<std::string(int)>& work, int piece) {
  try {
    return {Tag::answer, work(piece)};
  } catch (const InputError& error) {
    return {Tag::input, error.what()};
  } catch (const InfeasibleError& error) {
    return {Tag::infeasible, error.what()};
  } catch (const std::exception& error) {
    return {Tag::fault, error.what()};
  }
}

[[noreturn]] void serve(int pieces, int answers, const std::function<std::string(int)>& work) {
  for (std::int32_t piece = 0; read_all(pieces, &piece, sizeof piece);) {
    const auto [tag, text] = answer_of(work, piece);
    Head head;
    std::memset(static_cast<void*>(&head), 0, sizeof head);
    head.piece = piece;
    head.tag = tag;
    head.bytes = text.size();
    if (!write_all(answers, &head, sizeof head)) break;
    if (!write_all(answers, text.data(), text.size())) break;
  }
  _exit(0);
}

// Ends what was started, however this function is left.
struct Children {
  std::vector<pid_t> pids;
  std::vector<pollfd> answers;

  ~Children() {
    for (const pollfd& end : answers) {
      if (end.fd >= 0) close(end.fd);
    }
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  }
};

struct Failure {
  Tag tag;
  std::string text;
};

void throw_first(const std::map<int, Failure>& failures) {
  if (failures.empty()) return;
  const Failure& first = failures.begin()->second;
  if (first.tag == Tag::input) throw InputError(first.text);
  if (first.tag == Tag::infeasible) throw InfeasibleError(first.text);
  throw std::runtime_error(first.text);
}

std::vector<std::string> here(int pieces, const std::function<std::string(int)>& work,
                              const std::function<void(int)>& done) {
  std::vector<std::string> list;
  for (int i = 0; i < pieces; ++i) {
    list.push_back(work(i));
    if (done) done(i + 1);
  }
  return list;
}

}  // namespace

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::vector<std::string> in_workers(int pieces, int workers,
                                    const std::function<std::string(int)>& work,
                                    const std::function<void(int)>& done) {
  workers = std::min(workers, pieces);
  if (workers <= 1) return here(pieces, work, done);
  // All numbers fit a pipe at once: nobody has to feed it.
  constexpr int most = 8192;
  STEPCAST_ASSERT(pieces <= most, "as many pieces as a pipe holds numbers");
  int tasks[2];
  if (pipe(tasks) != 0) throw_errno("pipe");
  Children children;
  for (int w = 0; w < workers; ++w) {
    int ends[2];
    if (pipe(ends) != 0) throw_errno("pipe");
    const pid_t pid = fork();
    if (pid < 0) throw_errno("fork");
    if (pid == 0) {
      close(tasks[1]);
      close(ends[0]);
      for (const pollfd& other : children.answers) close(other.fd);
      serve(tasks[0], ends[1], work);
    }
    close(ends[1]);
    children.pids.push_back(pid);
    children.answers.push_back({ends[0], POLLIN, 0});
  }
  close(tasks[0]);
  std::vector<std::int32_t> numbers;
  for (int i = 0; i < pieces; ++i) numbers.push_back(i);
  const bool told = write_all(tasks[1], numbers.data(), numbers.size() * sizeof(std::int32_t));
  close(tasks[1]);
  if (!told) throw_errno("write");

  std::vector<std::string> list(static_cast<std::size_t>(pieces));
  std::map<int, Failure> failures;
  int finished = 0;
  for (int open = workers; open > 0;) {
    if (poll(children.answers.data(), children.answers.size(), -1) < 0) {
      if (errno == EINTR) continue;
      throw_errno("poll");
    }
    for (pollfd& end : children.answers) {
      if (end.fd < 0 || end.revents == 0) continue;
      Head head;
      if (!read_all(end.fd, &head, sizeof head)) {
        close(end.fd);
        end.fd = -1;
        --open;
        continue;
      }
      std::string text(head.bytes, '\0');
      if (!read_all(end.fd, text.data(), text.size())) continue;  // it ended: seen next time
      if (head.tag == Tag::answer) {
        list[static_cast<std::size_t>(head.piece)] = std::move(text);
      } else {
        failures[head.piece] = {head.tag, std::move(text)};
      }
      if (done) done(++finished);
      if (!done) ++finished;
    }
  }
  throw_first(failures);
  if (finished != pieces) throw std::runtime_error("workers: one ended before it had answered");
  return list;
}

}  // namespace stepcast
